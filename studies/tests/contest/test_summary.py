"""What the contest says: pairs, tests, ranks and times of results made up by hand."""

import json

import pytest
from scipy.stats import wilcoxon

from bayesvm_studies.commands import STUDIES
from bayesvm_studies.contest.plan import contest_sets
from bayesvm_studies.contest.report import rivals_table, sets_table
from bayesvm_studies.contest.summary import summarise
from studies.tests.contest.results import folds, made, many, too_long

SETS = ("iris", "glass", "prnn_fglass", "tae", "wine_recognition", "hayes_roth")
OURS = (0.10, 0.20, 0.30, 0.40, 0.50, 0.60)
# Differences of .01, .02, .03, .04, .05 in our favour and of .06 against us.
CATBOOST = (0.11, 0.22, 0.33, 0.44, 0.55, 0.54)


def pairwise(rival="catboost", losses=CATBOOST, **known):
    ours = [r for name, loss in zip(SETS, OURS, strict=True) for r in folds(name, "bayesvm", 2, loss=loss)]
    theirs = [
        r for name, loss in zip(SETS, losses, strict=True) for r in folds(name, rival, 2, loss=loss, **known)
    ]
    return ours + theirs


def test_a_rival_by_hand():
    numbers = summarise(pairwise()).as_dict()
    # Ranks 1 to 5 are ours: of 64 signs of six ranks, 14 leave the other side a sum of at most 6 on one side.
    assert numbers["p"]["log_loss"]["catboost"] == pytest.approx(2 * 14 / 64)
    pair = numbers["pairs"]["catboost"]
    assert pair["n_sets"] == 6
    of = pair["log_loss"]
    assert (of["wins"], of["losses"], of["ties"]) == (5, 1, 0)
    assert (of["mean"], of["mean_theirs"]) == pytest.approx((0.35, 0.365))
    assert (of["median"], of["median_theirs"]) == pytest.approx((0.35, 0.385))
    assert pair["accuracy"]["ties"] == 6
    assert numbers["p"]["accuracy"]["catboost"] is None  # nothing differs
    assert numbers["rank"]["log_loss"] == pytest.approx({"bayesvm": 7 / 6, "catboost": 11 / 6}, abs=1e-5)
    assert numbers["rank"]["accuracy"] == {"bayesvm": 1.5, "catboost": 1.5}


def test_the_correction_counts_the_rivals():
    results = pairwise() + [r for r in pairwise("lightgbm", [2 * v for v in OURS]) if r.model == "lightgbm"]
    numbers = summarise(results).as_dict()
    alone, p = numbers["p_alone"]["log_loss"], numbers["p"]["log_loss"]
    assert alone == pytest.approx({"catboost": 0.4375, "lightgbm": 2 / 64})
    assert p == pytest.approx({"catboost": 0.4375, "lightgbm": 4 / 64})
    assert alone["catboost"] == pytest.approx(wilcoxon(OURS, CATBOOST).pvalue)


def test_equal_sets_count_once_where_that_is_asked():
    numbers = summarise(pairwise()).as_dict()["without_equal_sets"]
    assert numbers["left_out"] == ["contraceptive", "prnn_fglass"]
    # Ranks 1 to 4 are ours and 5 is theirs: of 32 signs ten leave a side at most 5.
    assert numbers["p"]["log_loss"]["catboost"] == pytest.approx(2 * 10 / 32)


def test_a_set_that_took_too_long_counts_for_the_others_only():
    results = [r for r in pairwise() if (r.data, r.model) != ("iris", "catboost")]
    results += too_long("iris", "catboost", 2)
    results += [r for r in pairwise("lightgbm", OURS) if r.model == "lightgbm"]
    summary = summarise(results)
    numbers = summary.as_dict()
    assert numbers["pairs"]["catboost"]["n_sets"] == 5
    assert numbers["pairs"]["lightgbm"]["n_sets"] == 6
    assert numbers["n_sets"] == 5  # all three are ranked
    assert numbers["not_finished"] == {"iris": {"catboost": "ended after 120 s"}}


def test_a_model_that_finishes_little_is_not_ranked_but_compared():
    results = pairwise() + folds("iris", "svc_grid", 2)
    numbers = summarise(results).as_dict()
    assert numbers["ranked"] == ["bayesvm", "catboost"]
    assert numbers["n_sets"] == 6
    assert numbers["pairs"]["svc_grid"]["n_sets"] == 1
    assert numbers["not_finished"]["tae"] == {"svc_grid": "2 of 2 folds are missing"}
    assert numbers["every_model"]["n_sets"] == 1


def test_models_of_three_folds_meet_the_others_on_these():
    results = [made("iris", "bayesvm", i, loss=0.1 if i < 3 else 9.0) for i in range(10)]
    results += folds("iris", "realmlp", loss=0.2)
    summary = summarise(results)
    assert [len(summary.sets[0].fits[m]) for m in ("bayesvm", "realmlp")] == [10, 3]
    numbers = summary.as_dict()
    assert numbers["ranked"] == ["bayesvm"]
    assert numbers["mean_log_loss"] == {"bayesvm": pytest.approx(6.33)}
    assert numbers["pairs"]["realmlp"]["log_loss"]["mean"] == pytest.approx(0.1)
    assert numbers["every_model"]["rank"]["log_loss"] == {"bayesvm": 1.0, "realmlp": 2.0}
    assert numbers["pairs"]["realmlp"]["n_fits"] == 3


def test_scores_of_a_set_are_those_of_its_rows():
    results = [made("iris", "bayesvm", 0, loss=1.0, correct=30, of=30)]
    results.append(made("iris", "bayesvm", 1, loss=2.0, correct=0, of=10))
    numbers = summarise(results).as_dict()
    assert numbers["mean_log_loss"]["bayesvm"] == pytest.approx(1.25)
    assert numbers["mean_accuracy"]["bayesvm"] == pytest.approx(0.75)


def test_areas_are_of_two_classes_and_means_over_folds():
    results = [made("titanic", m, i, auc=0.7 + 0.1 * i) for m in ("bayesvm", "catboost") for i in range(2)]
    results += [r for m in ("bayesvm", "catboost") for r in folds("iris", m, 2)]
    numbers = summarise(results).as_dict()
    assert numbers["mean_auc"] == pytest.approx({"bayesvm": 0.75, "catboost": 0.75})
    assert numbers["rank"]["auc"] == {"bayesvm": 1.5, "catboost": 1.5}
    assert (numbers["rank_n_sets"]["auc"], numbers["rank_n_sets"]["accuracy"]) == (1, 2)
    assert numbers["pairs"]["catboost"]["auc"]["ties"] == 1


def test_times_are_geometric_means_of_common_fits_on_one_machine():
    results = [made("iris", "bayesvm", i, fit_s=s) for i, s in enumerate((1.0, 4.0, 9.0))]
    results += [made("iris", "catboost", i, fit_s=s) for i, s in enumerate((2.0, 8.0, 3.0))]
    ours, theirs = (pytest.approx(product ** (1 / 3), rel=1e-5) for product in (36, 48))
    times = summarise(results).as_dict()["time"]
    assert times["geometric_mean"] == {"bayesvm": ours, "catboost": theirs}
    other = [made("iris", "realmlp", i, machine="another") for i in range(3)]
    numbers = summarise(results + other).as_dict()
    every = numbers["every_model"]["time"]["geometric_mean"]
    assert (every["bayesvm"], every["catboost"], every["realmlp"]) == (ours, theirs, None)
    assert numbers["pairs"]["realmlp"]["time_ratio"] is None
    assert numbers["pairs"]["catboost"]["time_ratio"] == pytest.approx((48 / 36) ** (1 / 3), rel=1e-5)


def test_sets_with_fewer_folds_do_not_count():
    numbers = summarise(pairwise() + folds("flags", "bayesvm", 1) + folds("flags", "catboost", 1)).as_dict()
    assert numbers["n_sets"] == 6
    assert numbers["fewer_folds"]["flags"] == 1


def test_the_page_marks_what_is_won_and_names_what_is_lost():
    sets = [s.name for s in contest_sets("small")[:12]]
    results = [r for name in sets for r in folds(name, "bayesvm", 1, loss=0.5)]
    for rival, step in (("catboost", 0.01), ("lightgbm", -0.01), ("ebm", 0.0)):
        for i, name in enumerate(sets):
            results += folds(name, rival, 1, loss=0.5 + step * (i + 1))
    table = rivals_table(summarise(results).as_dict())
    better, worse, equal = (line.cells[1] for line in table.lines)
    assert (better.best, worse.best, equal.best) == (True, False, False)
    assert worse.small.startswith("ours is worse")
    assert (equal.text, better.small[:5]) == ("–", "alone")


def test_only_all_folds_are_marked_set_by_set():
    results = folds("iris", "bayesvm", loss=0.4) + folds("iris", "ebm", loss=0.1)
    ours, theirs = sets_table(summarise(results), "log_loss").lines[0].cells
    assert (ours.best, theirs.best, theirs.small) == (True, False, "3 folds")


KEYS = ("mean_accuracy", "mean_log_loss", "median_log_loss", "rank", "p", "time", "pairs", "ranked", "n_sets")


def test_the_summary_has_what_is_promised():
    numbers = json.loads(json.dumps(STUDIES["contest"].report(many()).numbers))
    assert set(KEYS) <= set(numbers)
    everywhere = {"bayesvm", "catboost", "random_forest", "hist_gradient_boosting", "lightgbm"}
    everywhere |= {"logistic_regression", "svc_grid"}
    for part in (numbers["mean_accuracy"], numbers["mean_log_loss"], numbers["time"]["geometric_mean"]):
        assert set(part) == everywhere
    assert set(numbers["rank"]) == {"accuracy", "log_loss", "auc"}
    for part in numbers["rank"].values():
        assert set(part) == everywhere
    for what in ("log_loss", "accuracy"):
        assert set(numbers["p"][what]) == everywhere - {"bayesvm"} | {"realmlp", "ebm"}
        assert all(0.0 <= p <= 1.0 for p in numbers["p"][what].values())
    assert set(numbers["every_model"]["models"]) == everywhere | {"realmlp", "ebm"}
    assert "flags" in numbers["not_finished"]
    assert numbers["time"]["machine"] == "a processor, 16 cores"
    assert numbers["not_run"] == []
