"""The summary and the page from made-up results."""

import json

import numpy as np
import pytest

from bayesvm_studies.active import save_active_figures, summarise_active, write_active_page
from bayesvm_studies.active.roster import POLICIES
from studies.tests.active.results import clock, run

ENTRANTS = [f"default/{p}" for p in POLICIES] + ["random_forest/margin", "svc/margin"]


def results(n_queries=100, n_sets=4, n_seeds=3):
    rng = np.random.default_rng(0)
    found = []
    for k, e in enumerate(ENTRANTS):
        for i in range(n_sets):
            for seed in range(n_seeds):
                noise = rng.integers(0, 6, n_queries + 1)
                wrong = np.round(80 - 40 * np.linspace(0, 1, n_queries + 1) + 2 * k + noise)
                found.append(run(f"set{i}", e, wrong.astype(int).tolist(), seed=seed))
    found += [run(f"set{i}", f"paper/{p}", [60] * (n_queries + 1)) for i in range(n_sets) for p in PAIR]
    found += [
        run("poker", f"default/{p}", [50 - 10 * k] * (n_queries + 1), seed=seed, protocol="poker")
        for k, p in enumerate(PAIR)
        for seed in range(2)
    ]
    found.append(run("poker", "default/everything", [30], protocol="poker", note="poker completed: some"))
    found.append(clock(1.25))
    return found


PAIR = ("variation_ratio", "softmax_entropy")


@pytest.fixture(scope="module")
def summary():
    return summarise_active(results())


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
    numbers = summarise_active(results(n_queries=30)).as_dict()
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


def test_the_page_tells_it_all(summary, tmp_path):
    pytest.importorskip("jinja2")
    page = write_active_page(summary, tmp_path / "active.html").read_text()
    for words in ("Where margin sampling wins", "worse on 4", "1.25 s", "trained on all labels", "set3"):
        assert words in page
    assert page.count("<figure>") == 5
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    # Chapters without results are left out.
    few = summarise_active([r for r in results() if r.model == "svc/margin"])
    page = write_active_page(few, tmp_path / "few.html").read_text()
    assert "Where margin sampling wins" not in page
    assert "Set by set" in page
    nothing = summarise_active([run("iris", "default/margin", [1], status="error", error="out of luck")])
    assert "out of luck" in write_active_page(nothing, tmp_path / "none.html").read_text()


def test_figures_are_files(summary, tmp_path):
    names = {path.name for path in save_active_figures(summary, tmp_path)}
    stems = ("pair_ranks", "policy_ranks", "budget_curves", "poker", "margin_areas")
    assert names == {f"{stem}.{ending}" for stem in stems for ending in ("svg", "png")}


def test_a_failure_on_poker_is_not_hidden_by_its_other_parts():
    wrong = [50] * 101
    failed = run("poker", "default/variation_ratio", wrong, started=1.0, status="error", error="no memory")
    later = run("poker", "default/variation_ratio", wrong, started=2.0, protocol="poker")
    found = summarise_active([failed, later])
    assert list(found.failed.values()) == ["no memory"]
