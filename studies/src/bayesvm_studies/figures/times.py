"""Training times over the sets, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesvm.plotting._style import INK, MUTED, PALETTE, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MARKERS = "osD^vPX*<h"
# One for each of ten models; yellow cannot be seen on white.
_COLORS = (*PALETTE[:6], "#8A7A00", INK, "#B2457A", MUTED)


def times_figure(sizes: Sequence[int], seconds: Mapping[str, Sequence[float]], width: float) -> Figure:
    """Seconds of training against rows, a dot per set and model.

    Parameters
    ----------
    sizes : sequence of int
        Rows of each set.
    seconds : mapping of str to sequence of float
        By the title of a model; NaN where there is none.
    width : float
        Inches.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    figure = Figure(figsize=(width, 4.0 + 0.22 * -(-len(seconds) // 2)), layout="constrained")
    ax = figure.subplots()
    x = np.asarray(sizes, dtype=np.float64)
    for i, (title, values) in enumerate(seconds.items()):
        y = np.asarray(values, dtype=np.float64)
        shown = np.isfinite(y)
        options: dict[str, Any] = {"color": _COLORS[i % len(_COLORS)], "marker": _MARKERS[i % len(_MARKERS)]}
        ax.scatter(
            x[shown], y[shown], s=20, linewidths=0, alpha=0.75, label=title, zorder=3 - 0.01 * i, **options
        )
        _trend(ax, x[shown], y[shown], options["color"])
    ax.set(xscale="log", yscale="log", xlabel="Rows of the set", ylabel="Training time (s)")
    ax.yaxis.set_major_locator(LogLocator(numticks=9))
    if len(x):  # whole decades, so that there are numbers on the axis however few sets there are
        ax.set_xlim(10.0 ** np.floor(np.log10(x.min())), 10.0 ** np.ceil(np.log10(x.max() + 1.0)))
    ax.minorticks_off()
    tidy(ax, grid="y")
    figure.legend(
        loc="outside upper left", ncols=2, frameon=False, labelcolor=INK, handletextpad=0.2, columnspacing=1.2
    )
    return figure


def _trend(ax: Any, x: np.ndarray, y: np.ndarray, color: str) -> None:
    """A line through the medians of neighbouring sets, if there are enough to have any."""
    if len(x) < 12:
        return
    order = np.argsort(x, kind="stable")
    parts = np.array_split(order, min(8, len(order) // 4))
    ax.plot(
        [np.median(x[part]) for part in parts],
        [np.median(y[part]) for part in parts],
        color=color,
        linewidth=1.4,
        alpha=0.8,
        zorder=2,
    )
