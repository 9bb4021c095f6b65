"""The page: complete in one file, safe, accessible; and its figures."""

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from bayesvm.metrics import accuracy_coverage_curve, reliability_curve
from bayesvm.report import Pitfall, write_report
from bayesvm.report._figures import coverage_figure, reliability_figure, training_figure

SECTIONS = [
    "data",
    "quality",
    "reliability",
    "confusion",
    "abstention",
    "relevance",
    "rows",
    "training",
    "usage",
    "smallprint",
]
ACTIVE = {"script", "img", "iframe", "object", "embed", "form", "base", "video", "audio"}
VOID = {"meta", "link", "br", "img", "hr", "input", "col"}


class Page(HTMLParser):
    """Tags with their attributes, and whether they nest."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.misnested = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.misnested.append(tag)


@pytest.fixture(scope="module")
def pages(reports):
    texts = {name: path.read_text(encoding="utf-8") for name, path in reports.items()}
    return {name: (text, Page(text)) for name, text in texts.items()}


def test_every_section_is_there_once_and_in_order(pages):
    for _, page in pages.values():
        assert [attrs["id"] for tag, attrs in page.tags if tag == "section"] == SECTIONS
        assert page.misnested == []
        assert page.open == []


def test_nothing_is_loaded_from_elsewhere(pages):
    for text, page in pages.values():
        assert not {tag for tag, _ in page.tags} & ACTIVE
        for _, attrs in page.tags:
            for key in ("src", "href", "xlink:href", "action"):
                assert attrs.get(key, "#").startswith(("#", "data:,"))
            assert not [key for key in attrs if key.startswith("on")]
        style = text[text.index("<style>") : text.index("</style>")]
        assert "@import" not in style
        assert "url(" not in style
        (policy,) = [a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "script-src" not in policy


def test_ids_are_unique_and_links_lead_somewhere(pages):
    for text, page in pages.values():
        ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
        assert len(ids) == len(set(ids))
        assert all(f'id="{name}"' in text for name in re.findall(r"url\(#([^)]+)\)", text))
        links = {a["href"][1:] for _, a in page.tags if a.get("href", "").startswith("#")}
        assert links <= set(ids)


def test_markup_in_names_is_text(pages):
    text, page = pages["nasty"]
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<b>" not in text
    assert not any(tag in ("b", "i") for tag, _ in page.tags)
    assert "{{ 7 * 7 }}" in text
    assert "\u202e" not in text


def test_long_cells_are_cut(pages):
    text, _ = pages["nasty"]
    assert "y" * 100 not in text
    assert "lorem ipsum " * 6 not in text


def test_reports_are_small(reports):
    assert max(path.stat().st_size for path in reports.values()) < 150_000


def test_headings_do_not_skip_a_level(pages):
    for _, page in pages.values():
        levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(b <= a + 1 for a, b in pairwise(levels))


def test_figures_and_tables_have_names(pages):
    for _, page in pages.values():
        figures = [attrs for tag, attrs in page.tags if tag == "svg"]
        assert len(figures) == 3
        assert all(len(attrs["aria-label"]) > 40 for attrs in figures)
        assert all(attrs.get("scope") for tag, attrs in page.tags if tag == "th")


def test_no_formatting_of_numbers_leaks(pages):
    for text, _ in pages.values():
        no_words = r"<style>.*?</style>|<svg.*?</svg>|<code>.*?</code>|<[^>]+>"
        words = re.sub(no_words, " ", text, flags=re.DOTALL)
        assert not re.search(r"\bnan\b|\binf\b|None|np\.|array\(|\d\.\d{5,}", words)


def test_pitfalls_can_be_given(penguins, tmp_path):
    pitfall = Pitfall("own", "alarm", "Something odd", "It was seen.", "Look at it.")
    text = write_report(penguins, tmp_path / "r.html", pitfalls=[pitfall]).read_text(encoding="utf-8")
    assert "Before you believe these figures: something odd" in text
    assert text.count('<li class="pitfall ') == 1


def test_an_interrupted_fit_does_not_claim_to_have_seen_all_rows(penguins, tmp_path):
    def small_print(fit):
        return write_report(fit, tmp_path / "r.html", pitfalls=[]).read_text(encoding="utf-8")

    claim, box = "was then fitted to all rows", '<p class="verdict alarm"><strong>Training was interrupted'
    assert claim in small_print(penguins)
    assert box not in small_print(penguins)
    interrupted = small_print(replace(penguins, interrupted=True))
    assert claim not in interrupted
    assert interrupted.index(box) < interrupted.index("<nav")


def test_unwanted_columns_are_no_pitfall(penguins, tmp_path, monkeypatch):
    columns = penguins.pipeline["columns"]
    monkeypatch.setattr(columns, "ignore", ["Individual ID"])
    text = write_report(penguins, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Codes in “Individual ID”" not in text


def test_a_failing_report_leaves_the_old_file(penguins, tmp_path, monkeypatch):
    path = tmp_path / "r.html"
    path.write_text("old")
    with pytest.raises(ValueError, match=r"max_error=2 is not valid"):
        write_report(penguins, path, max_error=2)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_missing_packages_are_named(penguins, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'bayesvm\[cli\]'"):
        write_report(penguins, tmp_path / "r.html")


def test_importing_the_report_imports_no_optional_package():
    code = "import sys, bayesvm.report; sys.exit(bool({'matplotlib', 'jinja2', 'skrub'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture(scope="module")
def predictions():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([0.4, 0.4, 0.4], size=3000)
    labels = np.array([rng.choice(3, p=p) for p in proba])
    return labels, proba


@pytest.fixture(scope="module")
def figures(predictions):
    coverage = accuracy_coverage_curve(*predictions)
    return {
        "reliability": reliability_figure(reliability_curve(*predictions), "Dots & <lines>"),
        "coverage": coverage_figure(coverage, 0.9, 0.05, "A curve"),
        "training": training_figure([-9.0, -5.0, -4.0], [-30.0, -20.0], "Two curves"),
    }


def test_figures_are_elements_for_a_page(figures):
    for svg in figures.values():
        root = ElementTree.fromstring(svg)
        assert root.tag == "svg"
        assert root.get("role") == "img"
        assert "width" not in root.attrib
        assert root.find(".//text") is not None  # text stays text
        for part in ("<?xml", "<!DOCTYPE", "<metadata", "<style", "xmlns", "http"):
            assert part not in svg


def test_colours_and_font_follow_the_page(figures):
    for svg in figures.values():
        assert "var(--main)" in svg
        assert "font-family" not in svg
        assert not re.search(r"#[0-9a-f]{6}\b", svg)


def test_many_rows_make_no_heavy_figure(predictions):
    coverage = accuracy_coverage_curve(np.tile(predictions[0], 5), np.tile(predictions[1], (5, 1)) * 0.999)
    assert len(coverage_figure(coverage, 0.9, 0.05, "A curve")) < 30_000


def test_thinning_keeps_the_mark_where_it_was(predictions):
    """The dot stands at the share of rows accepted, which few of the thinned points would hit."""
    coverage = accuracy_coverage_curve(*predictions)
    answered = float(coverage.coverage[coverage.threshold >= 0.9873].max())
    svg = ElementTree.fromstring(coverage_figure(coverage, 0.9873, 0.05, "A curve"))
    below = [text for text in svg.iter("text") if "middle" in text.get("style") and text.get("x")]
    ticks = {text.text: float(text.get("x")) for text in below}
    left, right = ticks["0"], ticks["100"]
    marks = [float(use.get("x")) for use in svg.iter("use") if "var(--paper)" in use.get("style", "")]
    assert marks[0] == pytest.approx(left + answered * (right - left), abs=0.3)


def test_nothing_accepted_draws_no_mark(predictions):
    svg = coverage_figure(accuracy_coverage_curve(*predictions), float("inf"), 0.01, "A curve")
    assert "no row accepted" not in svg
    assert "stroke: var(--paper)" not in svg
