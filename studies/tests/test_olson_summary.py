"""Ten folds from raw results, against numbers worked out by hand."""

import json

import numpy as np
import pytest

from bayesvm_studies.datasets import published_accuracies
from bayesvm_studies.structured.summary import summarise
from studies.tests.results import folds, made


def olson(results):
    return summarise(results).as_dict()["olson"]


def test_folds_are_pooled_by_rows():
    uneven = [
        made("iris", "bayesvm", split=0, correct=10, of=10, loss=0.1),
        made("iris", "bayesvm", split=1, correct=0, of=30, loss=0.5),
    ]
    score = summarise(uneven).olson.sets[0].scores["bayesvm"]
    assert score.accuracy == 0.25
    assert score.log_loss == pytest.approx(0.4)
    assert score.ece == pytest.approx(0.65)
    assert olson(uneven)["fewer_folds"] == {"iris": 2}


def test_means_ranks_and_what_was_published():
    results = [
        *folds("iris", "bayesvm", 90, loss=0.3),
        *folds("iris", "random_forest", 80, loss=0.4),
        *folds("glass", "bayesvm", 60, loss=0.9),
        *folds("glass", "random_forest", 80, loss=0.9),
        *folds("fars", "bayesvm", 70, loss=0.2),
        *folds("fars", "random_forest", 60, loss=0.3),
    ]
    found = olson(results)
    # Not all six classifiers are published for fars: ranked, but not in the mean.
    assert found["mean_accuracy"] == pytest.approx({"bayesvm": 0.75, "random_forest": 0.8})
    assert found["mean_accuracy_n_sets"] == {"bayesvm": 2, "random_forest": 2}
    assert found["mean_rank"] == pytest.approx({"bayesvm": 4 / 3, "random_forest": 5 / 3}, abs=1e-5)
    assert found["log_loss_rank"] == pytest.approx({"bayesvm": 3.5 / 3, "random_forest": 5.5 / 3}, abs=1e-5)
    published = published_accuracies()
    mean = np.mean([published[name]["SVC_single"] for name in ("iris", "glass")])
    assert found["mean_accuracy_published"]["SVC_single"] == pytest.approx(mean)
    assert found["n_sets_with_published"] == 2
    # iris: five published ones are above .9, LR with .927 among them; glass: two are above .6 but not .8.
    assert set(found["mean_rank_with_published"]) == {
        *("bayesvm", "random_forest"),
        *(f"published_{c}_single" for c in ("LR", "SVC", "KNN", "DT", "RF", "GB")),
    }
    assert found["ece"] == pytest.approx(0.2)  # fars alone has a thousand rows
    assert found["ece_n_sets"] == 1
    assert found["ece_over_.03"] == {"fars": 0.2}
    assert found["failed"] == found["missing"] == found["fewer_folds"] == {}
    assert len(found["not_run"]) == 64


def test_who_fails_or_takes_too_long_ranks_last():
    broken = folds("iris", "svc_grid", 99)
    broken[3] = made("iris", "svc_grid", split=3, status="timeout", error="ended after 600 s")
    found = olson([*folds("iris", "bayesvm", 50), *broken])
    assert found["mean_rank"] == {"bayesvm": 1.0, "svc_grid": 2.0}
    assert found["failed"] == {"iris": {"svc_grid": "ended after 600 s (1 of 10)"}}
    assert "svc_grid" not in found["mean_accuracy"]


def test_a_set_with_missing_folds_is_listed_and_takes_no_part():
    results = [
        *folds("iris", "bayesvm", 90),
        *folds("iris", "random_forest", 80),
        *folds("glass", "bayesvm", 10),
        *folds("glass", "random_forest", 80, n_folds=9),
        *folds("tae", "bayesvm", 10),
    ]
    found = olson(results)
    assert found["missing"] == {"glass": {"random_forest": 1}, "tae": {"random_forest": 10}}
    assert found["n_sets"] == 1
    assert found["mean_rank"] == {"bayesvm": 1.0, "random_forest": 2.0}


def test_models_for_small_sets_are_ranked_apart():
    results = []
    for name in ("iris", "fars"):
        results += folds(name, "bayesvm", 90) + folds(name, "random_forest", 80)
    results += folds("iris", "gpytorch_svgp", 95)
    found = olson(results)
    assert found["n_sets"] == 2
    assert set(found["mean_rank"]) == {"bayesvm", "random_forest"}
    assert found["missing"] == {}  # a hundred thousand rows are not asked of it
    assert found["every_model"]["n_sets"] == 1
    assert found["every_model"]["mean_rank"]["gpytorch_svgp"] == 1.0


def test_a_set_with_fewer_folds_than_others_takes_no_part():
    results = [*folds("iris", "bayesvm", 90), *folds("glass", "bayesvm", 10, n_folds=3)]
    found = olson(results)
    assert found["mean_accuracy"]["bayesvm"] == pytest.approx(0.9)
    assert found["mean_accuracy_n_sets"]["bayesvm"] == 1
    assert found["fewer_folds"] == {"glass": 3}


def test_nobody_is_ranked_alone():
    names = ["iris", "glass", "tae", "wine_recognition", "hayes_roth", "auto", "flags"]
    results = [r for name in names for r in folds(name, "bayesvm", 90)] + folds("iris", "random_forest", 95)
    assert olson(results)["mean_rank"] == {"bayesvm": 2.0, "random_forest": 1.0}


def test_a_model_that_ran_on_few_sets_is_ranked_apart():
    names = ["iris", "glass", "tae", "wine_recognition", "hayes_roth", "auto", "flags"]
    results = []
    for name in names:
        results += folds(name, "bayesvm", 90) + folds(name, "random_forest", 80)
    results += folds("iris", "svgp", 95)
    found = olson(results)
    assert found["n_sets"] == 7
    assert found["mean_rank"] == {"bayesvm": 1.0, "random_forest": 2.0}
    assert found["every_model"]["n_sets"] == 1
    assert found["every_model"]["mean_rank"] == {"bayesvm": 2.0, "random_forest": 3.0, "svgp": 1.0}


def test_the_newest_counts_and_never_two():
    old = folds("iris", "bayesvm", 10, version="1", started=1.0)
    new = folds("iris", "bayesvm", 90, version="2", started=2.0)
    for results in ([*old, *new], [*new, *old]):
        found = summarise(results)
        assert found.olson.sets[0].scores["bayesvm"].n_rows == 1000
        assert found.olson.sets[0].scores["bayesvm"].accuracy == 0.9
        assert found.versions == {"olson": ["1", "2"]}  # said, as both are in the file


def test_suite_minutes_count_fits_side_by_side_once():
    results = [
        made("iris", "bayesvm", split=0, started=0.0, total_s=60.0),
        made("iris", "bayesvm", split=1, started=30.0, total_s=60.0),
        made("iris", "bayesvm", split=2, started=40.0, total_s=10.0),
        made("iris", "bayesvm", split=3, started=1000.0, total_s=30.0),  # after a pause
        made("iris", "random_forest", split=0, started=0.0, total_s=9999.0),
    ]
    found = summarise(results).as_dict()
    assert found["suite_minutes"] == pytest.approx(2.0)
    assert (found["suite_jobs"], found["suite_sets"]) == (2, 1)


def test_json_holds_no_nan_and_the_notes():
    poker = made("poker", "multi_class", protocol="paper", split=2018, note="poker completed: generated")
    content = json.dumps(summarise([poker]).as_dict(), allow_nan=False)
    assert json.loads(content)["notes"] == ["poker completed: generated"]
