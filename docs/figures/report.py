"""The report on the bundled table as a desktop and a phone show it.

Writes ``report_screens.png`` beside this file, or into the folder given. Needs
playwright and an installed Chromium (BAYESVM_CHROMIUM names another one).
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from bayesvm.report import write_report
from bayesvm.tables import EXAMPLE_TARGET, example_table, fit_table

HEIGHT = 900
GAP = 24
GROUND = "#d9dce0"


def screen(browser: Browser, url: str, width: int, section: str) -> Image.Image:
    """What a window of this width shows when a section has been scrolled to."""
    context = browser.new_context(viewport={"width": width, "height": HEIGHT}, reduced_motion="reduce")
    page = context.new_page()
    page.goto(url)
    page.evaluate("id => document.getElementById(id).scrollIntoView()", section)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    context.close()
    return picture


def main(folder: Path) -> Path:
    """Fit, write the report, look at it; returns the picture's file."""
    executable = os.environ.get("BAYESVM_CHROMIUM") or shutil.which("chromium")
    fit = fit_table(example_table(), EXAMPLE_TARGET)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        path = Path(place) / "report.html"
        report = write_report(fit, path, model_path="penguins.skops", source="penguins.csv")
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        views = [(1180, "top"), (390, "reliability"), (390, "abstention")]
        screens = [screen(browser, report.as_uri(), width, section) for width, section in views]
        browser.close()
    width = sum(picture.width + GAP for picture in screens) + GAP
    sheet = Image.new("RGB", (width, HEIGHT + 2 * GAP), GROUND)
    left = GAP
    for picture in screens:
        sheet.paste(picture, (left, GAP))
        left += picture.width + GAP
    target = folder / "report_screens.png"
    sheet.save(target, optimize=True)
    return target


if __name__ == "__main__":
    print(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent))
