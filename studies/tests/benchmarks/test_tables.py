"""Tables of the documentation are those of the committed results."""

import pytest

from bayesvm_studies.benchmarks import cost_model, scale, tables
from bayesvm_studies.benchmarks.common import ROOT
from bayesvm_studies.benchmarks.race import Curve, summarise
from bayesvm_studies.benchmarks.tables import PAGES, with_tables

RUNS = [
    {"N": N, "D": D, "P": P, "C": C, "s": 1e-9 * N * P, "check": (N, D, P, C) == cost_model.CHECK}
    for N, D, P, C in (*cost_model.GRID, cost_model.CHECK)
]
SUMMARY = summarise(
    {
        ("digits", "bayesvm"): Curve([0.2, 0.4], [0.5, 0.05]),
        **{("digits", peer): Curve([10.0, 12.0], [0.3, 0.2]) for peer in tables.RACES},
        ("digits", "gpflow"): Curve([11.8], [0.1]),
        ("a", "bayesvm"): Curve([0.1], [0.1]),
        **{("a", peer): Curve([2.0], [0.2]) for peer in tables.RACES},
    },
    tables.RACES,
)


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.0338, "1/29.6"), (0.99, "1/1.0"), (1.0, "1.0"), (2.54, "2.5")]
)
def test_fractions_are_not_rounded_to_the_aim(ratio, text):
    assert tables.fraction(ratio) == text


def test_rows_mark_what_never_got_there():
    lines = tables.race_table(SUMMARY).splitlines()
    assert "theirs to 0.100 on digits" in lines[0]
    assert lines[2] == "| GPflow SVGP, robust-max | 11.8 | 0.40 | 1/29.5 | 1/30 | 1/20.0 | 1/7 |"
    assert lines[4] == "| GPyTorch SVGP, softmax | ≥ 12.0 | 0.40 | ≤ 1/30.0 | 1/50 | 1/20.0 | 1/17 |"
    assert len(lines) == 2 + len(tables.RACES)


@pytest.mark.parametrize("name", PAGES)
def test_pages_show_the_committed_results(name):
    page = (ROOT / name).read_text(encoding="utf-8")
    assert page == with_tables(page, PAGES[name]())


def test_docs_scale_gets_what_was_measured():
    model = cost_model.summary(RUNS)
    content = {
        "poker.peak_gb": 1.25,
        "model": model,
        "details": {"gpu": {"model": model}},
        "config": {"bars": scale.BARS},
    }
    found = tables.scale_tables(content)
    assert "| poker: peak memory above the data, GB | 1.25 | <= 2 |" in found["figures"]
    assert "not measured" in found["figures"]
    assert "| 1e9 | 50 | 64 | 10 | 100 |" in found["ahead"]
    assert "| term, ns | two cores | accelerator |" in found["constants"]
    assert set(tables.SCALE) == set(scale.BARS)
    assert set(tables.TERMS) == set(cost_model.TERMS)


def test_replacing_tables_keeps_the_words():
    page = "A\n<!-- x: made by y -->\nold\n<!-- end of x -->\nB"
    once = with_tables(page, {"x": "| new |"})
    assert once == "A\n<!-- x: made by y -->\n\n| new |\n\n<!-- end of x -->\nB"
    assert with_tables(once, {"x": "| new |"}) == once


def test_fits_on_an_accelerator_are_shown_with_what_they_differ_by():
    sweep = {
        f"{kind}, {precision}, chunks of {n}": {"median_ms": ms}
        for kind, add in (("kept", 0.0), ("anew", 10.0))
        for precision, ms0 in (("float64", 7.0), ("float32 moments", 8.0))
        for n, ms in ((1, ms0 + add), (2, 2 * ms0 + add))
    }
    gpu = {
        "sweep": sweep,
        "from_host": {"median_ms": 33.0},
        "fit": {"fit_s": 3.0},
        "machine": {"name": "a GPU"},
        "estimators": {"BayesianSVC()": {"max_difference": 2.4e-05}},
    }
    text = tables.on_gpu(gpu)
    assert "| a sweep, features kept, ms | 7 |" in text
    assert "| … features made anew | 17 |" in text
    assert "| `BayesianSVC()` | 2e-5 |" in text
