"""A report of a study: numbers, figures and tables, written as a page, as files and as lines of text."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesvm._files import replacing
from bayesvm._version import __version__
from bayesvm.report._figures import WIDTH_INCHES, drawing, inline_svg
from bayesvm_studies.results import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 200
SHORTENED = "some runs were shortened: they show that it works, not how well"


class Drawing(NamedTuple):
    """A figure to be drawn at some width in inches, and what it shows."""

    draw: Callable[[float], Figure]
    label: str


class Cell(NamedTuple):
    """A number in words; ``best`` is marked, ``small`` stands below it."""

    text: str
    best: bool = False
    small: str = ""


class Line(NamedTuple):
    """A row of a table; ``ours`` is in colour."""

    name: str
    cells: list[Cell]
    small: str = ""
    ours: bool = False


class Table(NamedTuple):
    """Heads and lines."""

    heads: list[str]
    lines: list[Line]


def number(value: float, digits: int) -> str:
    """A number with so many decimals, or a dash where there is none."""
    return f"{value:.{digits}f}" if np.isfinite(value) else "–"


def seconds(value: float) -> str:
    """A time with two significant digits.

    Examples
    --------
    >>> [seconds(v) for v in (0.0123, 1.234, 45.6, 4000.0, float("nan"))]
    ['0.012 s', '1.2 s', '46 s', '67 min', '–']
    """
    if not np.isfinite(value):
        return "–"
    if value >= 600:
        return f"{value / 60:.0f} min"
    return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"


def many(n: int, noun: str) -> str:
    """A count with its noun.

    Examples
    --------
    >>> many(1, "seed"), many(3, "seed")
    ('1 seed', '3 seeds')
    """
    return f"{n} {noun}{'s' if n > 1 else ''}"


def in_order(ranks: Mapping[str, float], digits: int = 2, best: int = 1) -> str:
    """Values in a line of text, the lowest first, or with ``best=-1`` the highest."""
    ordered = sorted(ranks.items(), key=lambda item: best * item[1])
    return ", ".join(f"{name} {value:.{digits}f}" for name, value in ordered)


def machines_with_gpu(results: Iterable[Result]) -> list[str]:
    """Where networks ran: processors, and GPUs with the version of torch."""
    found = set()
    for r in results:
        gpu = r.extra.get("gpu")
        found.add(f"{r.machine}{f', {gpu}' if gpu else ''}, torch {r.versions.get('torch', '?')}")
    return sorted(found)


def about_runs(results: Iterable[Result]) -> dict[str, Any]:
    """What every summary says about its runs: machines, versions of bayesvm, commits, notes on the data."""
    runs = list(results)
    return {
        "machines": sorted({r.machine for r in runs}),
        "versions": sorted({r.versions["bayesvm"] for r in runs if "bayesvm" in r.versions}),
        "commits": sorted({r.commit for r in runs if r.commit}),
        "notes": sorted({r.note for r in runs if r.note}),
    }


@dataclass(frozen=True)
class Report:
    """What a study found.

    Attributes
    ----------
    numbers : dict
        The summary as JSON can hold it, with ``notes`` on the data.
    facts : list of (str, str)
        The most important numbers as lines for the terminal.
    drawings : mapping of str to Drawing
    template : str
        Of the page.
    context : callable
        What the template shows, given the figures that are there by name.
    table : callable
        All fits, or their parts, as comma-separated values.
    """

    numbers: dict[str, Any]
    facts: list[tuple[str, ...]]
    drawings: Mapping[str, Drawing]
    template: str
    context: Callable[[Mapping[str, str]], dict[str, Any]]
    table: Callable[[], str]

    def write_page(self, path: str | os.PathLike[str]) -> Path:
        """Write one HTML file that needs nothing else and asks no server for anything; never half-written."""
        with drawing():
            figures = {
                name: inline_svg(drawn.draw(WIDTH_INCHES), name, drawn.label)
                for name, drawn in self.drawings.items()
            }
        now = datetime.datetime.now()
        shown = {
            "made": f"{now.day} {now:%B %Y, %H:%M}",
            "version": __version__,
            "figures": figures,
            "numbers": self.numbers,
            "notes": self.numbers["notes"],
            **self.context(figures),
        }
        page = _templates().get_template(self.template).render(shown)
        with replacing(path) as part:
            part.write_text(page, encoding="utf-8")
        return Path(path)

    def save_figures(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write every figure as SVG and as PNG into a folder, which is made if it is not there."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        written = []
        with drawing():
            for name, drawn in self.drawings.items():
                figure = drawn.draw(WIDTH_INCHES)
                for ending in ("svg", "png"):
                    path = place / f"{name}.{ending}"
                    options = {"metadata": {"Date": None}} if ending == "svg" else {"dpi": _DPI}
                    figure.savefig(path, facecolor="white", **options)
                    written.append(path)
        return written


def _templates() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise ImportError("the page needs jinja2: pip install 'bayesvm[cli]'") from error
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader("bayesvm_studies"), jinja2.PackageLoader("bayesvm.report")]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
