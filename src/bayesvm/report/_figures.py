"""The figures of a report: the library's displays as SVG inside the page, and bars in HTML.

SVG figures are as wide as a phone, follow the page's colours and font, and
share no ids.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from bayesvm.metrics import AccuracyCoverageCurve, ReliabilityCurve
from bayesvm.plotting import CoverageDisplay, ReliabilityDisplay, TrainingCurveDisplay
from bayesvm.plotting._style import ACCENT, GUIDE, INK, MAIN, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Drawn about as wide as the column of a phone, so that a point is a pixel there.
WIDTH_INCHES = 4.7
FONT_POINTS = 11
SMALLEST_POINTS = 9.5

_VARIABLES = {
    INK.lower(): "var(--ink)",
    MUTED.lower(): "var(--muted)",
    GUIDE.lower(): "var(--guide)",
    MAIN.lower(): "var(--main)",
    ACCENT.lower(): "var(--accent)",
    "#ffffff": "var(--paper)",
}
_COLOR = re.compile(r"#[0-9a-f]{6}\b")
_FONT = re.compile(r"font-family:[^;]*;?\s*")
_REFERENCE = re.compile(r"url\(#([^)]*)\)")
_DECIMALS = re.compile(r"-?\d+\.\d{3,}")


def drawing() -> AbstractContextManager[Any]:
    """Settings of matplotlib under which figures of a report are drawn and written."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("the report needs matplotlib: pip install 'bayesvm[cli]'") from error
    return matplotlib.rc_context(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "bayesvm",
            "font.size": FONT_POINTS,
            "axes.labelsize": "medium",
        }
    )


def inline_svg(figure: Figure, name: str, label: str) -> str:
    """The figure as an ``<svg>`` element to stand in a page.

    Parameters
    ----------
    figure : matplotlib Figure
    name : str
        Put before every id, so that figures of one page do not share any.
    label : str
        What the figure shows, for those who cannot see it.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(buffer.getvalue())
    used = set(_REFERENCE.findall(buffer.getvalue()))
    for element in root.iter():
        used |= {value[1:] for key, value in element.attrib.items() if key.endswith("href")}
    _clean(root, name, used)
    view = root.attrib["viewBox"]
    root.attrib.clear()
    root.attrib.update({"viewBox": view, "role": "img", "aria-label": label})
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _clean(element: ElementTree.Element, name: str, used: set[str]) -> None:
    element.tag = _local(element.tag)
    element.text = element.text.strip() if element.text else None
    element.tail = None
    attributes = {_local(key): value for key, value in element.attrib.items()}
    element.attrib.clear()
    for key, value in attributes.items():
        if key == "id":
            if value in used:
                element.set(key, f"{name}-{value}")
        elif key == "href":
            element.set(key, f"#{name}-{value[1:]}")
        elif key != "transform" or not value.startswith("rotate(-0 "):
            element.set(key, _rewrite(value, name))
    for child in list(element):
        # The style sheet of an inline figure would apply to the whole page.
        if _local(child.tag) in ("metadata", "style"):
            element.remove(child)
        else:
            _clean(child, name, used)


def _rewrite(value: str, name: str) -> str:
    """An attribute's value with shorter numbers, the page's colours and font, and prefixed references."""
    value = _FONT.sub("", value)
    value = _COLOR.sub(lambda match: _VARIABLES.get(match[0], match[0]), value)
    value = _REFERENCE.sub(rf"url(#{name}-\1)", value)
    return " ".join(_DECIMALS.sub(lambda match: f"{float(match[0]):.2f}", value).split())


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


# More points than pixels cannot be seen, but make the file heavy.
_MOST_POINTS = 400


def reliability_figure(curve: ReliabilityCurve, label: str) -> str:
    """Share of right answers against how sure they were said to be."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    with drawing():
        figure = Figure(figsize=(WIDTH_INCHES, 4.6), layout="constrained")
        display = ReliabilityDisplay(curve).plot(figure.subplots())
        _without_legend(display.ax_)
        display.ax_.set_ylabel("How often it was right")
        display.counts_ax_.set_xlabel("How sure it said it was")
        for axis in (display.ax_.yaxis, display.ax_.xaxis):
            axis.set_major_formatter(PercentFormatter(1.0, symbol="\u00a0%"))
        for text in display.counts_ax_.texts:
            text.set_fontsize(SMALLEST_POINTS)
        return inline_svg(figure, "reliability", label)


def coverage_figure(curve: AccuracyCoverageCurve, threshold: float, max_error: float, label: str) -> str:
    """Share of right answers against the share of rows answered."""
    from matplotlib.figure import Figure

    with drawing():
        figure = Figure(figsize=(WIDTH_INCHES, 3.5), layout="constrained")
        display = CoverageDisplay(_thinned(curve, threshold), threshold=threshold, max_error=max_error)
        display.plot(figure.subplots())
        _without_legend(display.ax_)
        display.ax_.set(xlabel="Rows it answers (%)", ylabel="Right among them (%)")
        return inline_svg(figure, "coverage", label)


def training_figure(elbo_curve: Any, kernel_curve: Any, label: str) -> str:
    """The bound over the fit."""
    from matplotlib.figure import Figure

    with drawing():
        figure = Figure(figsize=(WIDTH_INCHES, 2.9), layout="constrained")
        TrainingCurveDisplay(elbo_curve, kernel_curve).plot(figure.subplots())
        return inline_svg(figure, "training", label)


def _without_legend(ax: Axes) -> None:
    """Take the legend away: the page says it in words, and words cannot hide a curve."""
    legend = ax.get_legend()
    if legend is not None:
        legend.remove()


def _thinned(curve: AccuracyCoverageCurve, threshold: float) -> AccuracyCoverageCurve:
    """At most some hundred points of the curve, among them its ends and where the threshold is."""
    n = len(curve.coverage)
    if n <= _MOST_POINTS:
        return curve
    accepted = int((curve.threshold >= threshold).sum())
    spread = np.linspace(0, n - 1, _MOST_POINTS).round().astype(int)
    kept = np.unique(np.append(spread, max(accepted - 1, 0)))
    return AccuracyCoverageCurve(curve.coverage[kept], curve.accuracy[kept], curve.threshold[kept])


# --- Bars in HTML.


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes
    ----------
    name : str
    width : float
        Between 0 and 1, of the space there is.
    value : str
        What is written beside it.
    rest : bool
        Whether it stands for all that is not shown.
    """

    name: str
    width: float
    value: str
    rest: bool = False


def bars_of(names: Sequence[str], sizes: Sequence[float], values: Sequence[str]) -> list[Bar]:
    """Bars whose widths are in proportion, the longest as wide as there is space."""
    longest = max(sizes, default=0.0) or 1.0
    return [
        Bar(name, float(size / longest), value)
        for name, size, value in zip(names, sizes, values, strict=True)
    ]
