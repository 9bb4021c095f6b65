"""The paper's table from raw results, against numbers worked out by hand."""

import pytest

from bayesvm_studies.structured.summary import summarise
from studies.tests.results import made


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
