"""The pages and figures of all studies: everything that is known, nothing from elsewhere."""

import re
from base64 import b64encode
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib import get_data_path
from PIL import Image
from tests.report.test_browser import DESKTOP, PHONE, Seen, browser  # noqa: F401

from bayesvm_studies.commands import STUDIES
from bayesvm_studies.contest.contestants import contestants
from bayesvm_studies.images.plan import GROUPS
from bayesvm_studies.images.report import group_table
from bayesvm_studies.images.summary import summarise_images
from bayesvm_studies.structured.report import olson_sets, paper_sets_table
from bayesvm_studies.structured.summary import summarise
from studies.tests.active import results as active
from studies.tests.adversarial import results as adversarial
from studies.tests.contest import results as contest
from studies.tests.images import results as images
from studies.tests.structured import results as structured

# Two of the three networks: every figure takes its time.
SHOWN = ("mnist", "cifar10")
MANY = {
    "structured": structured.many,
    "contest": contest.many,
    "images": partial(images.many, SHOWN),
    "active": active.many,
    "adversarial": partial(adversarial.many, SHOWN),
}
FIGURES = {
    "structured": {
        *("paper_ranks", "paper_accuracy", "paper_times", "olson_ranks", "olson_log_loss_ranks"),
        *("olson_times", "olson_accuracy", "olson_small_ranks", "reliability"),
    },
    "contest": {
        *(f"{part}_{what}" for part in ("ranks", "every_model") for what in ("log_loss", "accuracy")),
        *(f"against_{rival}" for rival in contestants() if rival != "bayesvm"),
        "times",
    },
    "images": {
        *(f"{group}_{what}" for group in SHOWN for what in ("accuracy", "objective", "reliability")),
        *("cifar10_corruptions", "warmup_mnist", "warmup_cifar10"),
    },
    "active": {"pair_ranks", "policy_ranks", "budget_curves", "poker", "margin_areas"},
    "adversarial": {
        f"{group}_{what}" for group in SHOWN for what in ("paper", "tpr", "scores", "histograms", "attacks")
    },
}
TITLES = [GROUPS[group].title for group in SHOWN]
SAID = {
    "structured": [
        "Poker completed: &lt;i&gt;part&lt;/i&gt; of it is generated",  # and is no markup
        *("kddcup (20)", "ended after 600 s", "90483257", "1.68", "1.96", "2.33", "Olson"),
    ],
    "contest": [
        *("out of &lt;b&gt;cards&lt;/b&gt;", "ended after 120 s", "90483257", "a processor, 16 cores"),
        *("without contraceptive and prnn_fglass", "RealMLP-TD", "up to 16 fits side by side", "too long"),
    ],
    "images": ["out of &lt;b&gt;cards&lt;/b&gt;", "NVIDIA H200", *TITLES],
    "active": ["Where margin sampling wins", "worse on 4", "1.25 s", "trained on all labels", "set3"],
    "adversarial": ["out of &lt;b&gt;cards&lt;/b&gt;", "NVIDIA H200", "1.16 %", "not reached", *TITLES],
}


def page_of(study, results, tmp_path):
    return STUDIES[study].report(results).write_page(tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module", params=list(MANY))
def study(request):
    if request.param == "adversarial":
        pytest.importorskip("art")
    return request.param


@pytest.fixture(scope="module")
def report(study):
    return STUDIES[study].report(MANY[study]())


@pytest.fixture(scope="module")
def page(report, tmp_path_factory):
    return report.write_page(tmp_path_factory.mktemp("page") / "page.html")


def test_the_page_needs_nothing_else(page):
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:,)[^"']*""", text)
    assert not re.findall(r"url\((?!#)", text)
    assert "Content-Security-Policy" in text
    assert len(text) < 1_500_000


def test_the_page_says_what_must_be_said(page, study, report):
    text = page.read_text(encoding="utf-8")
    assert [words for words in SAID[study] if words not in text] == []
    assert set(report.drawings) == FIGURES[study]
    assert text.count("<figure>") == len(FIGURES[study])
    if study == "structured":
        missing = {*report.numbers["olson"]["missing"], *report.numbers["paper"]["missing"]}
        assert missing
        assert all(data in text for data in missing)
    else:
        assert "were shortened" not in text


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("images", lambda: [images.made("mnist", "softmax", shortened=True)]),
        ("active", lambda: active.many(n_queries=30)),
        ("adversarial", lambda: [adversarial.made("mnist", shortened=True)]),
    ],
)
def test_shortened_runs_are_marked(name, short, tmp_path):
    assert "were shortened" in page_of(name, short(), tmp_path)


def test_attacks_on_other_weights_are_named(tmp_path):
    some = [adversarial.made("mnist"), adversarial.made("mnist", attack="pgd", weights="4")]
    assert "mnist.bayesvm 0" in page_of("adversarial", some, tmp_path)


def test_no_legend_is_cut_off(report):
    for name, drawing in report.drawings.items():
        figure = drawing.draw(4.7)
        figure.canvas.draw()
        for legend in figure.legends:
            assert legend.get_window_extent().x1 <= figure.bbox.x1 + 1.0, name


@pytest.mark.parametrize(
    ("name", "some", "stems"),
    [
        ("structured", structured.many, FIGURES["structured"]),
        ("active", active.many, FIGURES["active"]),
        (
            "images",
            lambda: [images.made("cifar10", "softmax", seed) for seed in (0, 1)],
            {f"cifar10_{what}" for what in ("accuracy", "objective", "reliability", "corruptions")},
        ),
        (
            "adversarial",
            lambda: [adversarial.made("cifar10")],
            {f"cifar10_{what}" for what in ("paper", "tpr", "scores", "histograms")},
        ),
    ],
)
def test_figures_are_written_twice(name, some, stems, tmp_path):
    written = STUDIES[name].report(some()).save_figures(tmp_path / "figures")
    assert {p.name for p in written} == {f"{stem}.{ending}" for stem in stems for ending in ("svg", "png")}
    for path in written:
        if path.suffix == ".svg":
            ElementTree.parse(path)
        else:
            pixels = np.asarray(Image.open(path).convert("L"))
            assert pixels[0, 0] == 255
            assert 0.002 < (pixels < 200).mean() < 0.5


LITTLE = {
    "structured": [
        structured.folds("iris", "bayesvm", 90),
        structured.folds("iris", "bayesvm", 90, n_folds=1),
        [*structured.folds("iris", "bayesvm", 90), *structured.folds("iris", "random_forest", 90)],
    ],
    "contest": [
        contest.folds("iris", "bayesvm"),
        [*contest.folds("iris", "bayesvm", 2), *contest.folds("iris", "ebm", 2)],
        [*contest.folds("titanic", "bayesvm", 1, auc=0.8), *contest.folds("titanic", "catboost", 1, auc=0.7)],
        contest.too_long("iris", "catboost")[:1],
    ],
    "images": [
        [images.made("mnist", "softmax", n_epochs=1)],
        [images.made("cifar10", "laplace")],
        [images.made("mnist", "bayesvm", status="error", error="no")],
        [images.made("mnist", "bayesvm", protocol="warmup")],
    ],
    "active": [
        [active.run("iris", "svc/margin", [40, 30])],
        [active.run("iris", "default/margin", [1], status="error", error="out of luck")],
    ],
    "adversarial": [
        [adversarial.made("mnist", "softmax")],
        [adversarial.made("mnist", "bayesvm", "adaptive")],
        [adversarial.made("mnist", status="error", error="no")],
    ],
}


@pytest.mark.parametrize(
    ("name", "some"), [(name, some) for name, cases in LITTLE.items() for some in ([], *cases)]
)
def test_with_little_to_show(name, some, tmp_path):
    text = page_of(name, some, tmp_path)
    assert "<html" in text
    for result in some:
        assert result.error in text
    # Chapters without results are left out.
    assert "Where margin sampling wins" not in text
    STUDIES[name].report(some).save_figures(tmp_path)


def test_winners_are_marked_set_by_set():
    summary = summarise(structured.many())
    table = paper_sets_table(summary.paper)
    assert len(table.lines) == 68
    for line, info in zip(table.lines, summary.paper.sets, strict=True):
        best = max(v for m, v in info.accuracy.items() if m in ("multi_class", "one_vs_rest", "svgp"))
        marked = [float(cell.text) for cell in line.cells if cell.best]
        assert marked == [pytest.approx(best, abs=5e-4)] * len(marked)
        assert marked
    olson = olson_sets(summary.olson)
    assert len(olson.lines) == 67
    for line in olson.lines:
        own = [cell for cell in line.cells[:-2] if re.fullmatch(r"0\.\d+|1\.000", cell.text)]
        assert max(own, key=lambda cell: float(cell.text)).best
    assert any(cell.text == "too long" for line in olson.lines for cell in line.cells)


def test_the_best_network_is_marked():
    summary = summarise_images(images.many())
    table = group_table(summary, summary.groups["cifar10"])
    for k, best in ((0, max), (1, min), (2, min)):
        column = [line.cells[k] for line in table.lines]
        values = [float(cell.text) for cell in column]
        assert [cell.best for cell in column] == [v == best(values) for v in values]
    assert [line.ours for line in table.lines] == ["Bayesian" in line.name for line in table.lines]


@pytest.mark.parametrize(("width", "scheme"), [(PHONE, "light"), (DESKTOP, "dark")])
def test_in_a_browser(browser, page, study, width, scheme):  # noqa: F811
    seen = Seen(browser, page, width, color_scheme=scheme)
    assert seen.messages == seen.errors == seen.dialogs == []
    assert seen.requests == [seen.url]
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.page.locator("figure svg").count() == len(FIGURES[study])
    for name, arguments in {
        **dict.fromkeys(("wider", "flat", "covered", "spilled", "stuck"), ()),
        "figures": (9.0,),
        "faint": (4.5,),
    }.items():
        assert seen.check(name, *arguments) == [], name
    assert seen.page.locator("i, script, img").count() == 0
    seen.context.close()


OTHER_FONT = """
@font-face {{ font-family: Other; src: url(data:font/ttf;base64,{});
  size-adjust: 104%; ascent-override: 107%; descent-override: 30% }}
figure svg text {{ font-family: Other !important }}
"""


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_figures_have_room_for_a_wider_and_taller_font(browser, page, width):  # noqa: F811
    seen = Seen(browser, page, width, bypass_csp=True)
    font = Path(get_data_path(), "fonts", "ttf", "DejaVuSans.ttf").read_bytes()
    seen.page.add_style_tag(content=OTHER_FONT.format(b64encode(font).decode()))
    assert seen.page.evaluate("document.fonts.load('10px Other').then(fonts => fonts.length)") == 1
    assert seen.check("figures", 9.0) == []
    seen.context.close()
