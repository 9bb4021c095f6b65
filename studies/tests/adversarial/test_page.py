"""The page and the figures of the experiment on adversarial images."""

import re
from xml.etree import ElementTree

import pytest
from tests.report.test_browser import DESKTOP, PHONE, Seen, browser  # noqa: F401

from bayesvm_studies.adversarial.drawings import adversarial_drawings
from bayesvm_studies.adversarial.page import save_adversarial_figures, write_adversarial_page
from bayesvm_studies.adversarial.summary import summarise_adversarial
from bayesvm_studies.images.recipes import GROUPS
from studies.tests.adversarial.results import made, many

KINDS = ("paper", "tpr", "scores", "histograms", "attacks")
FIGURES = {f"{group}_{what}" for group in GROUPS for what in KINDS}


@pytest.fixture(scope="module")
def summary():
    return summarise_adversarial(many())


@pytest.fixture(scope="module")
def page(summary, tmp_path_factory):
    return write_adversarial_page(summary, tmp_path_factory.mktemp("page") / "adversarial.html")


def test_the_page_needs_nothing_else(page):
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:,)[^"']*""", text)
    assert not re.findall(r"url\((?!#)", text)
    assert len(text) < 1_500_000


def test_the_page_says_what_must_be_said(page):
    text = page.read_text(encoding="utf-8")
    assert "out of &lt;b&gt;cards&lt;/b&gt;" in text
    assert text.count("<figure>") == len(FIGURES)
    assert all(group.title in text for group in GROUPS.values())
    assert "1.16 %" in text
    assert "NVIDIA H200" in text
    assert "not reached" in text
    assert "shortened" not in text
    assert text.count("Many steps instead of one") == len(GROUPS)
    assert "Other weights" not in text


def test_shortened_runs_are_marked(tmp_path):
    short = summarise_adversarial([made("mnist", shortened=True)])
    assert "were shortened" in write_adversarial_page(short, tmp_path / "page.html").read_text()


def test_other_weights_are_named(tmp_path):
    some = summarise_adversarial([made("mnist"), made("mnist", attack="pgd", weights="4")])
    assert "mnist.bayesvm 0" in write_adversarial_page(some, tmp_path / "page.html").read_text()


def test_all_figures(summary):
    assert set(adversarial_drawings(summary)) == FIGURES


def test_no_legend_is_cut_off(summary):
    for name, drawing in adversarial_drawings(summary).items():
        figure = drawing.draw(4.7)
        figure.canvas.draw()
        for legend in figure.legends:
            assert legend.get_window_extent().x1 <= figure.bbox.x1 + 1.0, name


def test_figures_are_written_twice(tmp_path):
    written = save_adversarial_figures(summarise_adversarial([made("cifar10")]), tmp_path / "figures")
    assert {p.name for p in written} == {
        f"cifar10_{what}.{ending}" for what in KINDS if what != "attacks" for ending in ("svg", "png")
    }
    for path in written:
        if path.suffix == ".svg":
            ElementTree.parse(path)


@pytest.mark.parametrize(
    "some",
    [
        [],
        [made("mnist", "softmax")],
        [made("mnist", "bayesvm", "adaptive")],
        [made("mnist", status="error", error="no")],
    ],
)
def test_with_little_to_show(some, tmp_path):
    assert "<html" in write_adversarial_page(summarise_adversarial(some), tmp_path / "page.html").read_text()


@pytest.mark.parametrize(("width", "scheme"), [(PHONE, "light"), (DESKTOP, "dark")])
def test_in_a_browser(browser, page, width, scheme):  # noqa: F811
    seen = Seen(browser, page, width, color_scheme=scheme)
    assert seen.messages == seen.errors == seen.dialogs == []
    assert seen.requests == [seen.url]
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.page.locator("figure svg").count() == len(FIGURES)
    for name, arguments in {
        **dict.fromkeys(("wider", "flat", "covered", "spilled", "stuck"), ()),
        "figures": (9.0,),
        "faint": (4.5,),
    }.items():
        assert seen.check(name, *arguments) == [], name
    seen.context.close()
