"""Targets, times, ratios and marks of the race, on curves small enough to do by hand."""

import math

import pytest
from peers_race import Curve, geometric_mean, race, race_all, summarise

PEER = Curve([1.0, 2.0, 3.0, 4.0], [0.9, 0.4, 0.4, 0.6])
QUICK = Curve([0.1, 0.2, 0.5], [0.8, 0.4, 0.3])
NEVER = Curve([0.1, 0.2], [0.8, 0.5])


def test_first_at_takes_the_earliest_time_whatever_the_order():
    assert PEER.first_at(0.9) == 1.0
    assert PEER.first_at(0.4) == 2.0
    assert PEER.first_at(0.39) is None
    assert Curve([0.5, 0.4], [0.1, 0.1]).first_at(0.1) == 0.4


def test_target_is_the_peers_best_and_its_time_when_it_first_was_there():
    result = race(QUICK, PEER)
    assert (result.target, result.peer_s, result.ours_s) == (0.4, 2.0, 0.2)
    assert result.ratio == pytest.approx(0.1)
    assert result.arrived
    assert not result.at_least


def test_never_arriving_counts_as_one():
    result = race(NEVER, PEER)
    assert result.ours_s is None
    assert not result.arrived
    assert result.ratio == 1.0


def test_a_peer_that_misses_a_given_target_counts_its_whole_run():
    result = race(QUICK, PEER, target=0.3)
    assert result.at_least
    assert result.peer_s == 4.0
    assert result.ratio == pytest.approx(0.5 / 4.0)


def test_we_may_be_slower():
    assert race(Curve([10.0], [0.1]), PEER).ratio == pytest.approx(5.0)


def test_geometric_mean_is_neutral_to_which_way_round_a_ratio_is():
    ratios = [0.1, 0.5, 3.0]
    assert geometric_mean(ratios) == pytest.approx(math.prod(ratios) ** (1 / 3))
    assert geometric_mean(1 / r for r in ratios) == pytest.approx(1 / geometric_mean(ratios))


CURVES = {
    ("digits", "bayesvm"): QUICK,
    ("digits", "gpflow"): Curve([10.0, 20.0], [0.5, 0.3]),
    ("digits", "gpytorch"): PEER,
    ("a", "bayesvm"): QUICK,
    ("a", "gpflow"): PEER,
    ("a", "gpytorch"): Curve([8.0], [0.8]),
    ("b", "bayesvm"): NEVER,
    ("b", "gpflow"): PEER,
    ("c", "gpflow"): PEER,  # we did not run there
}


def test_on_digits_all_run_for_the_target_of_gpflow():
    races = race_all(CURVES, ["gpflow", "gpytorch"])
    assert races["digits", "gpflow"].target == races["digits", "gpytorch"].target == 0.3
    assert races["digits", "gpytorch"].at_least
    assert races["a", "gpytorch"].target == 0.8  # elsewhere each for its own


def test_races_are_held_where_both_ran():
    assert set(race_all(CURVES, ["gpflow", "gpytorch"])) == {
        ("digits", "gpflow"),
        ("digits", "gpytorch"),
        ("a", "gpflow"),
        ("a", "gpytorch"),
        ("b", "gpflow"),
    }


def test_without_gpflow_a_peer_on_digits_runs_for_its_own_target():
    curves = {key: curve for key, curve in CURVES.items() if key[1] != "gpflow"}
    assert race_all(curves, ["gpytorch"])["digits", "gpytorch"].target == PEER.best


def test_summary_has_digits_apart_and_lists_where_we_never_arrived():
    summary = summarise(CURVES, ["gpflow", "gpytorch"])
    digits, suite = summary["digits"], summary["suite"]
    assert digits["time_ratio_gpflow"] == pytest.approx(0.5 / 20.0)
    assert digits["time_ratio_gpytorch"] == pytest.approx(0.5 / 4.0)
    assert digits["at_least_gpytorch"]
    assert digits["time_ratio_gpytorch_own_target"] == pytest.approx(0.1)
    assert suite["time_ratio_gpflow"] == pytest.approx(math.sqrt(0.1 * 1.0))  # a, and b as one
    assert suite["time_ratio_gpytorch"] == pytest.approx(0.1 / 8.0)
    assert suite["not_reached_gpflow"] == ["b"]
    assert suite["not_reached_gpytorch"] == []
    assert (suite["n_sets_gpflow"], suite["n_sets_gpytorch"]) == (2, 1)
    assert len(summary["races"]) == 5
