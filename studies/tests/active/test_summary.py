"""Curves, ranks, areas and duels against numbers worked out by hand, and what is made of them."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import rankdata, wilcoxon

from bayesvm_studies.active.plan import POLICIES
from bayesvm_studies.active.summary import area, duel, gather, summarise_active
from studies.tests.active.results import many, run

VR, ENTROPY, MARGIN = "default/variation_ratio", "default/softmax_entropy", "default/margin"


def test_errors_are_shares_and_an_empty_pool_keeps_its_last_error():
    curves = gather([run("iris", VR, [50, 20], n_queries=4), run("iris", ENTROPY, [50, 40, 30, 20, 10])])
    assert curves.n_queries == 4
    assert_allclose(curves.errors[VR]["iris", 0], [0.5, 0.2, 0.2, 0.2, 0.2])
    assert_allclose(curves.errors[ENTROPY]["iris", 0], [0.5, 0.4, 0.3, 0.2, 0.1])


def test_the_newest_result_counts_and_shorter_trials_and_failures_do_not():
    curves = gather(
        [
            run("iris", VR, [50, 20, 10], started=1.0),
            run("iris", VR, [50, 30, 20], started=2.0),
            run("glass", VR, [50, 20], started=3.0),
            run("ecoli", VR, [50, 20, 10], status="error", error="no"),
            # Nor do they hide what was known before.
            run("iris", VR, [50, 10], started=4.0),
            run("iris", VR, [50, 10, 10], started=5.0, status="error", error="no"),
        ]
    )
    assert list(curves.errors[VR]) == [("iris", 0)]
    assert_allclose(curves.errors[VR]["iris", 0], [0.5, 0.3, 0.2])


def test_ranks_are_means_over_the_sets_of_a_seed_that_all_have():
    runs = [
        run("a", VR, [50, 10]),
        run("a", ENTROPY, [50, 20]),
        run("a", MARGIN, [50, 30]),
        run("b", VR, [40, 30]),
        run("b", ENTROPY, [40, 10]),
        run("b", MARGIN, [40, 10]),
        run("c", VR, [40, 1]),  # the others are missing
        run("a", VR, [50, 30], seed=1),
        run("a", ENTROPY, [50, 20], seed=1),
        run("a", MARGIN, [50, 10], seed=1),
    ]
    ranks = gather(runs).mean_ranks([VR, ENTROPY, MARGIN])
    assert sorted(ranks) == [0, 1]
    # Seed 0, after the query: a has ranks 1, 2, 3 and b 3, 1.5, 1.5.
    assert_allclose(ranks[0], [[2.0, 2.0], [2.0, 1.75], [2.0, 2.25]])
    assert_allclose(ranks[1], [[2.0, 3.0], [2.0, 2.0], [2.0, 1.0]])


def test_ranks_against_scipy():
    rng = np.random.default_rng(0)
    entrants = [VR, ENTROPY, MARGIN]
    wrong = rng.integers(0, 8, (6, 3, 11))
    runs = [run(f"s{i}", e, wrong[i, k].tolist()) for i in range(6) for k, e in enumerate(entrants)]
    found = gather(runs).mean_ranks(entrants)[0]
    for n in range(11):
        assert_allclose(found[:, n], np.mean([rankdata(wrong[i, :, n]) for i in range(6)], axis=0))
    assert_allclose(gather(runs).mean_accuracy(entrants)[0], 1.0 - wrong.mean(0) / 100.0)


def test_area_is_the_trapezoidal_rule():
    y = np.random.default_rng(1).random(101)
    assert area(y) == pytest.approx(np.trapezoid(y, np.linspace(0.0, 1.0, 101)), abs=1e-14)
    assert area(np.array([0.25])) == 0.25


def test_areas_are_means_over_seeds():
    curves = gather([run("a", VR, [100, 0, 0]), run("a", VR, [100, 50, 0], seed=1), run("b", VR, [0, 0, 0])])
    assert curves.areas(VR) == pytest.approx({"a": (0.75 + 0.5) / 2, "b": 1.0})
    assert curves.areas(VR, [("b", 0)]) == {"b": 1.0}
    assert curves.areas("nobody/margin") == {}


def test_a_duel_counts_sets_and_says_what_chance_could_do():
    leads = {"a": 30, "b": 10, "c": -20, "d": 0, "e": 5}
    runs = []
    for name, lead in leads.items():
        runs += [run(name, VR, [50, 50]), run(name, MARGIN, [50, 50 - lead])]
        # Only seeds that both have count.
        runs.append(run(name, VR, [0, 0], seed=1))
    fought = duel(gather(runs), MARGIN, VR)
    assert fought.won() == ["a", "b", "e"]
    assert fought.lost() == ["c"]
    halves = [lead / 200 for lead in leads.values()]
    assert fought.mean_lead == pytest.approx(np.mean(halves))
    assert fought.p_value == pytest.approx(wilcoxon([h for h in halves if h]).pvalue)
    described = fought.as_dict()
    assert (described["wins"], described["losses"], described["equal"]) == (3, 1, 1)
    assert duel(gather(runs), MARGIN, ENTROPY) is None


@pytest.fixture(scope="module")
def summary():
    return summarise_active(many())


def test_the_keys_of_the_summary(summary):
    numbers = json.loads(json.dumps(summary.as_dict(), allow_nan=False))
    assert set(numbers["mean_rank"]) == set(POLICIES)
    assert all(set(ranks) == {"25", "50", "100"} for ranks in numbers["mean_rank"].values())
    assert set(numbers["area_under_curve"]) == {*POLICIES, "random_forest/margin", "svc/margin"}
    assert numbers["round_seconds_1m"] == 1.25
    assert numbers["poker"]["error"]["variation_ratio"] == {"25": 0.5, "50": 0.5, "100": 0.5}
    assert numbers["poker"]["error"]["softmax_entropy"]["100"] == 0.4
    assert numbers["poker"]["everything"] == 0.3
    assert numbers["poker"]["n_seeds"] == 2
    assert numbers["n_seeds"]["margin"] == 3
    assert numbers["paper_recipe"]["mean_rank_of_pair"]["variation_ratio"]["100"] == 1.5
    assert numbers["notes"] == ["poker completed: some"]


def test_ranks_and_areas_are_those_of_the_curves(summary):
    numbers = summary.as_dict()
    curves = summary.sets
    by_hand = []
    for seed in range(3):
        for i in range(4):
            errors = [curves.errors[f"default/{p}"][f"set{i}", seed][50] for p in POLICIES]
            own = errors[0]
            by_hand.append(1 + sum(e < own for e in errors) + (sum(e == own for e in errors) - 1) / 2)
    assert numbers["mean_rank"]["variation_ratio"]["50"] == pytest.approx(np.mean(by_hand), rel=1e-5)
    total = sum(numbers["mean_rank"][p]["50"] for p in POLICIES)
    assert total == pytest.approx(15.0, rel=1e-5)
    areas = [np.trapezoid(1 - e, dx=0.01) for e in curves.errors["svc/margin"].values()]
    assert numbers["area_under_curve"]["svc/margin"] == pytest.approx(np.mean(areas), rel=1e-5)
    # Entrants were made worse and worse.
    assert numbers["area_under_curve"]["variation_ratio"] > numbers["area_under_curve"]["random"]
    assert numbers["margin_against_variation_ratio"]["losses"] == 4


def test_short_runs_have_no_later_budgets():
    numbers = summarise_active(many(n_queries=30)).as_dict()
    assert numbers["mean_rank"]["margin"]["25"] > 0
    assert numbers["mean_rank"]["margin"]["50"] is None
    assert "shortened" in numbers["notes"][-1]


def test_nothing_but_failures():
    failed = run("iris", "default/margin", [1, 1], status="error", error="out of luck")
    numbers = summarise_active([failed]).as_dict()
    assert numbers["failed"] == {"sets iris seed 0 default/margin": "out of luck"}
    assert numbers["mean_rank"] == {}
    assert numbers["area_under_curve"] == {}
    assert numbers["round_seconds_1m"] is None


def test_a_failure_on_poker_is_not_hidden_by_its_other_parts():
    wrong = [50] * 101
    failed = run("poker", "default/variation_ratio", wrong, started=1.0, status="error", error="no memory")
    later = run("poker", "default/variation_ratio", wrong, started=2.0, protocol="poker")
    found = summarise_active([failed, later])
    assert list(found.failed.values()) == ["no memory"]
