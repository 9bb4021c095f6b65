import re
from xml.etree import ElementTree

import numpy as np
import pytest

from bayesvm.metrics import accuracy_coverage_curve, reliability_curve
from bayesvm.report._figures import coverage_figure, reliability_figure, training_figure


@pytest.fixture(scope="module")
def judged():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([0.4, 0.4, 0.4], size=3000)
    labels = np.array([rng.choice(3, p=p) for p in proba])
    return labels, proba


@pytest.fixture(scope="module")
def figures(judged):
    coverage = accuracy_coverage_curve(*judged)
    return {
        "reliability": reliability_figure(reliability_curve(*judged), "Dots & <lines>"),
        "coverage": coverage_figure(coverage, 0.9, 0.05, "A curve"),
        "training": training_figure([-9.0, -5.0, -4.0], [-30.0, -20.0], "Two curves"),
    }


def ids(svg):
    return re.findall(r'\bid="([^"]+)"', svg)


def test_figures_are_elements_for_a_page(figures):
    for svg in figures.values():
        root = ElementTree.fromstring(svg)
        assert root.tag == "svg"
        assert root.get("role") == "img"
        assert "width" not in root.attrib
        for part in ("<?xml", "<!DOCTYPE", "<metadata", "<style", "xmlns", "http"):
            assert part not in svg


def test_labels_are_escaped(figures):
    assert ElementTree.fromstring(figures["reliability"]).get("aria-label") == "Dots & <lines>"


def test_no_id_is_shared_and_every_reference_resolves(figures):
    everything = [name for svg in figures.values() for name in ids(svg)]
    assert len(everything) == len(set(everything))
    for svg in figures.values():
        references = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg)
        assert references
        assert {a or b for a, b in references} == set(ids(svg))


def test_colours_and_font_follow_the_page(figures):
    for svg in figures.values():
        assert "var(--main)" in svg
        assert "font-family" not in svg
        assert not re.search(r"#[0-9a-f]{6}\b", svg)


def test_text_stays_text(figures):
    texts = [text.text for text in ElementTree.fromstring(figures["reliability"]).iter("text")]
    assert "How sure it said it was" in texts
    assert "100\u00a0%" in texts


def test_many_rows_make_no_heavy_figure(judged):
    coverage = accuracy_coverage_curve(np.tile(judged[0], 5), np.tile(judged[1], (5, 1)) * 0.999)
    assert len(coverage_figure(coverage, 0.9, 0.05, "A curve")) < 30_000


def test_thinning_keeps_the_mark_where_it_was(judged):
    """The dot stands at the share of rows accepted, which few of the thinned points would hit."""
    coverage = accuracy_coverage_curve(*judged)
    answered = float(coverage.coverage[coverage.threshold >= 0.9873].max())
    svg = ElementTree.fromstring(coverage_figure(coverage, 0.9873, 0.05, "A curve"))
    below = [text for text in svg.iter("text") if "middle" in text.get("style") and text.get("x")]
    ticks = {text.text: float(text.get("x")) for text in below}
    left, right = ticks["0"], ticks["100"]
    marks = [float(use.get("x")) for use in svg.iter("use") if "var(--paper)" in use.get("style", "")]
    assert marks[0] == pytest.approx(left + answered * (right - left), abs=0.3)


def test_nothing_accepted_draws_no_mark(judged):
    svg = coverage_figure(accuracy_coverage_curve(*judged), float("inf"), 0.01, "A curve")
    assert "no row accepted" not in svg
    assert "stroke: var(--paper)" not in svg


def test_the_same_figure_twice_is_the_same_text(judged):
    curve = reliability_curve(*judged)
    assert reliability_figure(curve, "a") == reliability_figure(curve, "a")
