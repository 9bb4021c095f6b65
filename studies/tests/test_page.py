"""The page and the figures: everything that is known, nothing from elsewhere."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from tests.report.test_browser import DESKTOP, PHONE, Seen, browser  # noqa: F401

from bayesvm_studies.datasets import paper_sets
from bayesvm_studies.drawings import drawings
from bayesvm_studies.figure_files import save_figures
from bayesvm_studies.page import write_page
from bayesvm_studies.page_tables import olson_sets, paper_sets_table
from bayesvm_studies.roster import contestants
from bayesvm_studies.summary import summarise
from bayesvm_studies.tidy import tidy_csv, tidy_rows
from studies.tests.results import folds, made

FIGURES = {
    *("paper_ranks", "paper_accuracy", "paper_times", "olson_ranks", "olson_log_loss_ranks"),
    *("olson_times", "olson_accuracy", "olson_small_ranks", "reliability"),
}


def many_results():
    """Plausible results of all models on all sets, a few of them missing or failed."""
    rng = np.random.default_rng(0)
    results = []
    for info in paper_sets():
        for protocol in ("paper", "olson"):
            for model, contestant in contestants(protocol).items():
                if not contestant.takes(info) or rng.random() < 0.01:
                    continue
                known = {"correct": int(rng.integers(55, 100)), "loss": rng.random(), "confidence": 0.8}
                known |= {"fit_s": info.rows / 1000 * rng.random(), "status": "ok"}
                if model == "svc_grid" and info.rows > 60_000:
                    known |= {"status": "timeout", "error": "ended after 600 s"}
                if protocol == "olson" and info.name != "poker":
                    results += folds(info.name, model, n_folds=10, **known)
                elif protocol == "paper":
                    if info.name == "poker":
                        known["note"] = "poker completed: <i>part</i> of it is generated"
                    known["epochs"] = 20 if info.rows > 400_000 else None
                    results.append(made(info.name, model, protocol="paper", split=2018, **known))
    return results


@pytest.fixture(scope="module")
def results():
    return many_results()


@pytest.fixture(scope="module")
def summary(results):
    return summarise(results)


@pytest.fixture(scope="module")
def page(summary, tmp_path_factory):
    return write_page(summary, tmp_path_factory.mktemp("page") / "structured.html")


def test_the_page_needs_nothing_else(page):
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:,)[^"']*""", text)
    assert not re.findall(r"url\((?!#)", text)
    assert "Content-Security-Policy" in text
    assert len(text) < 800_000


def test_the_page_says_what_must_be_said(page, summary):
    text = page.read_text(encoding="utf-8")
    assert "Poker completed: &lt;i&gt;part&lt;/i&gt; of it is generated" in text  # and is no markup
    assert "kddcup (20)" in text
    assert "ended after 600 s" in text
    assert all(name in text for name in ("90483257", "1.68", "1.96", "2.33", "Olson"))
    assert text.count("<figure>") == len(FIGURES)
    for data in {*summary.as_dict()["olson"]["missing"], *summary.as_dict()["paper"]["missing"]}:
        assert data in text


def test_winners_are_marked(summary):
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


def test_figures_are_written_twice(summary, tmp_path):
    written = save_figures(summary, tmp_path / "figures")
    assert {p.stem for p in written} == FIGURES == set(drawings(summary))
    assert {p.suffix for p in written} == {".svg", ".png"}
    for path in written:
        if path.suffix == ".svg":
            ElementTree.parse(path)
        else:
            pixels = np.asarray(Image.open(path).convert("L"))
            assert pixels[0, 0] == 255
            assert 0.003 < (pixels < 200).mean() < 0.5


def test_with_little_to_show(tmp_path):
    for some in ([], folds("iris", "bayesvm", 90), folds("iris", "bayesvm", 90, n_folds=1)):
        found = summarise(some)
        assert "olson_ranks" not in drawings(found)
        assert "<html" in write_page(found, tmp_path / "page.html").read_text()
    two = summarise([*folds("iris", "bayesvm", 90), *folds("iris", "random_forest", 90)])
    save_figures(two, tmp_path)
    write_page(two, tmp_path / "page.html")


def test_the_tidy_table(results):
    rows = tidy_rows(results)
    assert len(rows) == len(results)
    assert len({tuple(row) for row in rows}) == 1  # the same columns everywhere
    ok = next(row for row in rows if row["status"] == "ok" and row["protocol"] == "olson")
    assert 0.5 < float(ok["accuracy"]) < 1.0
    late = next(row for row in rows if row["status"] == "timeout")
    assert late["accuracy"] == late["fit_s"] == ""
    needed = {"arguments", "seed", "versions", "commit", "machine", "started", "data", "model", "split"}
    assert needed <= set(ok)
    assert tidy_csv(results).count("\n") == len(rows) + 1
    assert tidy_csv([]) == "\n"


@pytest.mark.parametrize(
    ("width", "scheme"), [(PHONE, "light"), (PHONE, "dark"), (DESKTOP, "light"), (DESKTOP, "dark")]
)
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
