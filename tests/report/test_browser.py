"""Reports in a real browser, at the width of a phone and of a desktop."""

import io
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SECTIONS = 11  # the top and ten below it
PHONE, DESKTOP = 390, 1280
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
CHECKS = (Path(__file__).parent / "page_checks.js").read_text(encoding="utf-8")


def chromium_path():
    """An installed Chromium, or None."""
    named = os.environ.get("BAYESVM_CHROMIUM")
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return named or next(filter(None, found), None)


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    executable = chromium_path()
    if executable is None:
        pytest.skip("no Chromium is installed; install one, or name it in BAYESVM_CHROMIUM")
    with playwright.sync_playwright() as api:
        opened = api.chromium.launch(executable_path=executable, args=FLAGS)
        yield opened
        opened.close()


class Seen:
    """A report in a window, and everything the browser had to say about it."""

    def __init__(self, browser, path, width, **options):
        phone = width < 600
        self.width = width
        self.context = browser.new_context(
            viewport={"width": width, "height": 844},
            device_scale_factor=2 if phone else 1,
            is_mobile=phone,
            has_touch=phone,
            offline=True,
            **options,
        )
        self.page = self.context.new_page()
        self.messages, self.errors, self.dialogs, self.requests = [], [], [], []
        self.page.on("console", lambda message: self.messages.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", self._dismiss)
        self.url = path.as_uri()
        self.page.goto(self.url)
        self.page.evaluate(CHECKS)

    def _dismiss(self, dialog):
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def check(self, name, *arguments):
        """What one of the functions of page_checks.js finds."""
        return self.page.evaluate("([name, given]) => checks[name](...given)", [name, list(arguments)])


@pytest.fixture(
    scope="module",
    params=[
        (name, width) for name in ("penguins", "nasty", "nothing held out") for width in (PHONE, DESKTOP)
    ],
    ids=lambda case: f"{case[0]}-{case[1]}",
)
def seen(request, browser, reports):
    name, width = request.param
    window = Seen(browser, reports[name], width)
    yield window
    window.context.close()


def test_opens_offline_without_a_word_from_the_browser(seen):
    assert seen.messages == []
    assert seen.errors == []
    assert seen.dialogs == []
    assert seen.requests == [seen.url]


def test_fits_the_width_of_the_window(seen):
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= seen.width
    assert seen.page.evaluate("innerWidth") == seen.width
    assert seen.check("wider") == []


def test_every_section_can_be_seen(seen):
    assert seen.check("flat") == []
    assert len(seen.check("regions")) == SECTIONS


def test_text_of_figures_can_be_read(seen):
    assert seen.page.locator("figure svg").count() == 3
    assert seen.check("figures", 9.0) == []


def test_nothing_covers_or_spills(seen):
    assert seen.check("covered") == []
    assert seen.check("spilled") == []


def test_wide_tables_scroll_inside_their_box(seen):
    assert seen.check("stuck") == []
    if seen.width == PHONE:
        table = seen.page.locator("#rows .scroll").first
        assert table.evaluate("box => (box.scrollLeft = 1000, box.scrollLeft)") > 0


def test_text_stands_out_from_its_ground(seen):
    assert seen.check("faint", 4.5) == []


@pytest.mark.parametrize("name", ["penguins", "nasty"])
def test_follows_the_dark_mode_of_the_reader(browser, reports, name):
    window = Seen(browser, reports[name], DESKTOP, color_scheme="dark")
    ground = window.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, ground.strip("rgb()").split(","))) < 50
    assert window.check("faint", 4.5) == []
    window.context.close()


def test_every_section_has_ink(seen):
    shot = seen.page.screenshot(full_page=True, scale="css", timeout=90_000)
    pixels = np.asarray(Image.open(io.BytesIO(shot)).convert("RGB")).astype(np.int32)
    assert pixels.shape[1] == seen.width
    paper = pixels[0, 0]
    for name, (left, top, width, height) in seen.check("regions").items():
        part = pixels[round(top) : round(top + height), round(left) : round(left + width)]
        ink = np.abs(part - paper).sum(2) > 60
        n_colours = len(np.unique(part @ [1, 256, 65536]))
        # Ink reaches down to the end of the section: nothing was left unpainted.
        end = ink[-max(60, round(0.1 * height)) :].mean()
        found = (name, ink.mean(), n_colours, end)
        assert 0.01 < ink.mean() < 0.6, found
        assert n_colours > 30, found
        assert end > 0.0, found


def test_prints_without_navigation(browser, reports):
    window = Seen(browser, reports["nasty"], 794)  # A4 at 96 dots per inch
    window.page.emulate_media(media="print", color_scheme="dark")
    assert not window.page.locator("nav").is_visible()
    assert window.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert window.page.locator(".scroll.tall").evaluate("box => box.scrollHeight <= box.clientHeight + 1")
    window.context.close()


def test_links_lead_to_their_section(browser, reports):
    window = Seen(browser, reports["penguins"], PHONE, reduced_motion="reduce")
    window.page.locator("nav a", has_text="What it mixes up").click()
    assert window.page.locator("#confusion h2").evaluate("h => h.getBoundingClientRect().top") < 200
    window.context.close()


def test_markup_in_names_makes_no_elements(browser, reports):
    window = Seen(browser, reports["nasty"], DESKTOP)
    assert window.page.locator("script, img, b, i, iframe").count() == 0
    assert "<script>alert(1)</script>" in window.page.locator("#relevance").inner_text()
    window.context.close()
