import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from bayesvm.report import Pitfall, write_report

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
    for _, page in pages.values():
        ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
        assert len(ids) == len(set(ids))
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
