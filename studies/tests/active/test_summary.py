"""The summary of made-up results."""

import json

import numpy as np
import pytest

from bayesvm_studies.active.plan import POLICIES
from bayesvm_studies.active.summary import summarise_active
from studies.tests.active.results import many, run


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
