"""Both protocols from raw results, against numbers worked out by hand."""

import json

import numpy as np
import pytest

from bayesvm_studies.datasets import published_accuracies
from bayesvm_studies.structured.summary import summarise
from studies.tests.structured.results import folds, made


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


def paper(data, model, correct, fit_s=1.0, **known):
    return made(data, model, protocol="paper", split=2018, correct=correct, fit_s=fit_s, **known)


def trio(data, accuracies=(90, 80, 70), seconds=(1.0, 2.0, 3.0), **known):
    models = ("multi_class", "one_vs_rest", "svgp")
    return [paper(data, m, c, s, **known) for m, c, s in zip(models, accuracies, seconds, strict=True)]


def test_ranks_ties_failures_and_times():
    results = [
        *trio("iris"),
        *trio("glass", (80, 80, 70), (5.0, 2.0, 3.0)),
        *trio("tae", (60, 70, 65))[:2],
        paper("tae", "svgp", 0, status="error", error="ValueError: no"),
        paper("iris", "default", 95, 0.1),
        paper("glass", "default", 85, 0.05),
        paper("iris", "one_vs_rest_batched", 80, 0.5),
    ]
    found = summarise(results).as_dict()["paper"]
    # iris 1, 2, 3; glass 1.5, 1.5, 3; tae: the one that failed is last.
    assert found["mean_rank"] == pytest.approx(
        {"multi_class": 4.5 / 3, "one_vs_rest": 4.5 / 3, "svgp": 3.0}, abs=1e-5
    )
    assert found["n_sets"] == 3
    assert found["fastest_on"] == 2
    assert found["fastest_on_batched_too"] == 1
    assert found["default_over_paper_time"] == pytest.approx((0.1 * 0.01) ** 0.5, rel=1e-5)
    assert found["failed"] == {"tae": {"svgp": "ValueError: no"}}
    assert found["missing"] == {"tae": ["default", "one_vs_rest_batched"], "glass": ["one_vs_rest_batched"]}
    assert len(found["not_run"]) == 65
    assert found["mean_rank_published"]["multi_class"] == 1.68


def test_a_set_with_a_missing_model_is_listed_and_takes_no_part():
    found = summarise([*trio("iris"), *trio("glass")[:2]]).as_dict()["paper"]
    assert found["n_sets"] == 1
    assert found["missing"] == {"glass": ["svgp"]}
    assert "glass" not in found["not_run"]
    assert found["mean_rank"] == {"multi_class": 1.0, "one_vs_rest": 2.0, "svgp": 3.0}


def test_times_of_different_machines_are_not_compared():
    gpu = trio("iris", seconds=(10.0, 20.0, 30.0), machine="fast", device="cuda")
    found = summarise([*gpu, paper("iris", "default", 95, 0.001)])
    # The default was not run where the paper's recipe was.
    assert found.as_dict()["paper"]["default_over_paper_time"] is None
    assert found.as_dict()["paper"]["missing"] == {"iris": ["default"]}
    both = summarise([*gpu, paper("iris", "default", 95, 1.0, machine="fast", device="cuda")])
    assert both.as_dict()["paper"]["default_over_paper_time"] == pytest.approx(0.1)


def test_a_failure_on_a_gpu_stands_beside_the_others():
    gpu = {"machine": "fast", "device": "cuda"}
    broken = paper("iris", "svgp", 0, status="error", error="out of memory", **gpu)
    found = summarise([*trio("iris", **gpu)[:2], broken]).as_dict()["paper"]
    assert found["failed"] == {"iris": {"svgp": "out of memory"}}
    assert found["missing"] == {}
    assert found["mean_rank"]["svgp"] == 3.0


def test_the_machine_with_all_three_counts():
    lone = paper("iris", "multi_class", 10, 0.01, machine="other", started=9.0)
    found = summarise([*trio("iris"), lone])
    assert found.paper.sets[0].accuracy["multi_class"] == 0.9


def test_shortened_sets_are_marked_and_the_long_run_counts():
    short = trio("iris", (50, 50, 50), epochs=20, started=5.0)
    found = summarise([*short, *trio("glass", epochs=20)]).as_dict()["paper"]
    assert found["shortened"] == {"iris": 20, "glass": 20}
    found = summarise([*short, *trio("iris")])
    assert found.as_dict()["paper"]["shortened"] == {}
    assert found.paper.sets[0].accuracy["multi_class"] == 0.9
    # Unless the long one is not whole.
    found = summarise([*short, *trio("iris")[:2]])
    assert found.as_dict()["paper"]["shortened"] == {"iris": 20}


def test_nothing_was_run():
    found = summarise([]).as_dict()["paper"]
    assert found["mean_rank"] == {"multi_class": None, "one_vs_rest": None, "svgp": None}
    assert found["n_sets"] == found["fastest_on"] == 0
    assert len(found["not_run"]) == 68
