"""Two models against each other, a dot per set, as in the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesvm.plotting._style import ACCENT, GUIDE, INK, MAIN, MUTED, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Pair(NamedTuple):
    """Accuracies of two models on the same sets."""

    ours: str
    theirs: str
    our_accuracy: Sequence[float]
    their_accuracy: Sequence[float]


def scatter_figure(pairs: Sequence[Pair], width: float) -> Figure:
    """A panel per pair, two in a row; above the diagonal ours is better.

    Parameters
    ----------
    pairs : sequence of Pair
    width : float
        Inches.
    """
    from matplotlib.figure import Figure

    columns = min(2, len(pairs))
    rows = -(-len(pairs) // columns)
    figure = Figure(figsize=(width, 0.2 + rows * width / columns * 1.04), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    for ax, pair in zip(axes, pairs, strict=False):
        _panel(ax, pair)
    for ax in axes[len(pairs) :]:
        ax.set_axis_off()
    return figure


def _panel(ax: Axes, pair: Pair) -> None:
    ours, theirs = np.asarray(pair.our_accuracy), np.asarray(pair.their_accuracy)
    shown = np.isfinite(ours) & np.isfinite(theirs)
    ours, theirs = ours[shown], theirs[shown]
    lowest = min(ours.min(), theirs.min()) if len(ours) else 0.0
    low = max(0.0, np.floor(10 * lowest) / 10)
    ax.plot([low, 1.0], [low, 1.0], color=GUIDE, linewidth=1.2, zorder=1)
    better = ours >= theirs
    options: dict[str, Any] = {"s": 22, "linewidths": 0, "alpha": 0.8, "clip_on": False, "zorder": 3}
    ax.scatter(theirs[better], ours[better], color=MAIN, **options)
    ax.scatter(theirs[~better], ours[~better], color=ACCENT, marker="s", **options)
    ax.set(xlim=(low, 1.0), ylim=(low, 1.0), xlabel=pair.theirs, ylabel=pair.ours, aspect="equal")
    # The same numbers on both axes, few enough to be read at the width of a phone.
    step = 0.2 if 1.0 - low > 0.45 else 0.1
    ticks = np.arange(1.0, low - 1e-9, -step)
    ax.set_xticks(ticks)
    ax.set_yticks(ticks)
    won, lost = int((ours > theirs).sum()), int((ours < theirs).sum())
    ax.text(0.04, 0.96, f"better on {won}", transform=ax.transAxes, va="top", color=INK)
    ax.text(0.96, 0.04, f"worse on {lost}", transform=ax.transAxes, ha="right", color=MUTED)
    tidy(ax)
