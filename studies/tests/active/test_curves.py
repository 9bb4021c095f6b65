"""Curves, ranks, areas and duels against numbers worked out by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import rankdata, wilcoxon

from bayesvm_studies.active.summary import area, duel, gather
from studies.tests.active.results import run

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
