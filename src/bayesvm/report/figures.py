"""The figures of a report: the library's displays at the size of a phone, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayesvm.metrics import AccuracyCoverageCurve, ReliabilityCurve
from bayesvm.plotting import CoverageDisplay, ReliabilityDisplay, TrainingCurveDisplay
from bayesvm.report.svg import SMALLEST_POINTS, WIDTH_INCHES, drawing, inline_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["coverage_figure", "reliability_figure", "training_figure"]

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
