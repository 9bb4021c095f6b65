"""The page and the figures of the experiment on images."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from tests.report.test_browser import DESKTOP, PHONE, Seen, browser  # noqa: F401

from bayesvm_studies.images.drawings import image_drawings
from bayesvm_studies.images.page import save_image_figures, write_image_page
from bayesvm_studies.images.page_tables import group_table
from bayesvm_studies.images.recipes import GROUPS
from bayesvm_studies.images.summary import summarise_images
from bayesvm_studies.tidy import tidy_csv
from studies.tests.images.results import made, many

FIGURES = {
    *(f"{group}_{what}" for group in GROUPS for what in ("accuracy", "objective", "reliability")),
    *("cifar10_corruptions", "cifar10_residual_corruptions", "warmup_mnist", "warmup_cifar10"),
}


@pytest.fixture(scope="module")
def summary():
    return summarise_images(many())


@pytest.fixture(scope="module")
def page(summary, tmp_path_factory):
    return write_image_page(summary, tmp_path_factory.mktemp("page") / "images.html")


def test_the_page_needs_nothing_else(page):
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:,)[^"']*""", text)
    assert not re.findall(r"url\((?!#)", text)
    assert "Content-Security-Policy" in text
    assert len(text) < 1_000_000


def test_the_page_says_what_must_be_said(page):
    text = page.read_text(encoding="utf-8")
    assert "out of &lt;b&gt;cards&lt;/b&gt;" in text
    assert text.count("<figure>") == len(FIGURES)
    assert all(group.title in text for group in GROUPS.values())
    assert "NVIDIA H200" in text
    assert "shortened" not in text


def test_shortened_runs_are_marked(tmp_path):
    short = summarise_images([made("mnist", "softmax", shortened=True)])
    assert "were shortened" in write_image_page(short, tmp_path / "page.html").read_text()


def test_the_best_is_marked(summary):
    table = group_table(summary, summary.groups["cifar10"])
    for k, best in ((0, max), (1, min), (2, min)):
        column = [line.cells[k] for line in table.lines]
        values = [float(cell.text) for cell in column]
        assert [cell.best for cell in column] == [v == best(values) for v in values]
    assert [line.ours for line in table.lines] == ["Bayesian" in line.name for line in table.lines]


def test_all_figures(summary):
    assert set(image_drawings(summary)) == FIGURES


def test_figures_are_written_twice(tmp_path):
    some = summarise_images([made("cifar10", "softmax", s) for s in (0, 1)])
    written = save_image_figures(some, tmp_path / "figures")
    assert {p.stem for p in written} == {
        n for n in FIGURES if n.startswith("cifar10") and "residual" not in n
    }
    for path in written:
        if path.suffix == ".svg":
            ElementTree.parse(path)
        else:
            pixels = np.asarray(Image.open(path).convert("L"))
            assert pixels[0, 0] == 255
            assert 0.002 < (pixels < 200).mean() < 0.5


def test_with_little_to_show(tmp_path):
    for some in (
        [],
        [made("mnist", "softmax", n_epochs=1)],
        [made("cifar10", "laplace")],
        [made("mnist", "bayesvm", status="error", error="no")],
        [made("mnist", "bayesvm", protocol="warmup")],
    ):
        found = summarise_images(some)
        assert "<html" in write_image_page(found, tmp_path / "page.html").read_text()


def test_the_tidy_table():
    results = many()
    assert tidy_csv(results).count("\n") == len(results) + 1


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
    assert seen.page.locator("i, script, img").count() == 0
    seen.context.close()
