"""Reliability diagrams of several models side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesvm.metrics import ReliabilityCurve
from bayesvm.plotting._style import GUIDE, INK, MAIN, MUTED, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Calibration(NamedTuple):
    """A model's curve over all sets together, and its calibration error as a mean over sets."""

    title: str
    curve: ReliabilityCurve
    error: float


def reliability_grid(models: Sequence[Calibration], width: float, columns: int = 2) -> Figure:
    """A small diagram per model; grey columns show where its answers lie.

    Parameters
    ----------
    models : sequence of Calibration
    width : float
        Inches.
    columns : int
        Diagrams in a row.
    """
    from matplotlib.figure import Figure

    columns = min(columns, len(models))
    rows = -(-len(models) // columns)
    figure = Figure(figsize=(width, 0.3 + rows * width / columns * 1.06), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for ax, model in zip(axes, models, strict=False):
        _panel(ax, model)
    for ax in axes[len(models) :]:
        ax.set_axis_off()
    figure.supxlabel("Confidence in the top class", fontsize="medium", color=INK)
    figure.supylabel("Accuracy", fontsize="medium", color=INK)
    return figure


def _panel(ax: Axes, model: Calibration) -> None:
    curve = model.curve
    filled = curve.counts > 0
    share = curve.counts / curve.counts.sum()
    ax.bar(curve.edges[:-1], 0.5 * share, np.diff(curve.edges), align="edge", color=GUIDE, alpha=0.45)
    ax.plot([0, 1], [0, 1], color=GUIDE, linewidth=1.2, zorder=1)
    x, y = curve.confidence[filled], curve.accuracy[filled]
    ax.plot(x, y, "o-", color=MAIN, markersize=3.5, linewidth=1.2, clip_on=False, zorder=3)
    ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.02), aspect="equal")
    ax.set_xticks([0.0, 0.5, 1.0])
    ax.set_yticks([0.0, 0.5, 1.0])
    ax.set_title(model.title, fontsize="medium", color=INK, loc="left")
    ax.text(0.05, 0.95, f"ECE {model.error:.3f}", transform=ax.transAxes, va="top", color=MUTED)
    tidy(ax)
