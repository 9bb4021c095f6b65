"""Tables of the documentation are those of the committed results."""

import pytest
from peers_race import Curve, summarise
from readme_table import PAGES, RACES, ROOT, fraction, race_table, with_tables

SUMMARY = summarise(
    {
        ("digits", "bayesvm"): Curve([0.2, 0.4], [0.5, 0.05]),
        **{("digits", peer): Curve([10.0, 12.0], [0.3, 0.2]) for peer in RACES},
        ("digits", "gpflow"): Curve([11.8], [0.1]),
        ("a", "bayesvm"): Curve([0.1], [0.1]),
        **{("a", peer): Curve([2.0], [0.2]) for peer in RACES},
    },
    RACES,
)


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.0338, "1/29.6"), (0.99, "1/1.0"), (1.0, "1.0"), (2.54, "2.5")]
)
def test_fractions_are_not_rounded_to_the_aim(ratio, text):
    assert fraction(ratio) == text


def test_rows_mark_what_never_got_there():
    lines = race_table(SUMMARY)
    assert "theirs to 0.100 on digits" in lines[0]
    assert lines[2] == "| GPflow SVGP, robust-max | 11.8 | 0.40 | 1/29.5 | 1/30 | 1/20.0 | 1/20 |"
    assert lines[4] == "| GPyTorch SVGP, softmax | ≥ 12.0 | 0.40 | ≤ 1/30.0 | 1/60 | 1/20.0 | 1/40 |"
    assert len(lines) == 2 + len(RACES)


@pytest.mark.parametrize("name", PAGES)
def test_pages_show_the_committed_results(name):
    page = (ROOT / name).read_text(encoding="utf-8")
    assert page == with_tables(page, PAGES[name]())
