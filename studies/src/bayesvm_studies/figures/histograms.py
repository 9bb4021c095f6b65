"""Histograms of several kinds of rows over one another, a panel for each case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesvm.plotting._style import INK, MUTED, PALETTE, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_COLORS = (PALETTE[0], MUTED, PALETTE[5])


class Counts(NamedTuple):
    """A panel: edges of the bins, and by kind how many rows are in each."""

    title: str
    edges: Sequence[float]
    counts: Mapping[str, Sequence[float]]


def histograms_figure(panels: Sequence[Counts], x_label: str, width: float, columns: int = 2) -> Figure:
    """Shares of rows, so that kinds with different numbers of rows compare.

    Parameters
    ----------
    panels : sequence of Counts
    x_label : str
    width : float
        Inches.
    columns : int
        Panels in a row.
    """
    from matplotlib.figure import Figure

    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(width, 0.6 + 1.7 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
    for ax, panel in zip(axes, panels, strict=False):
        for color, (kind, counts) in zip(_COLORS, panel.counts.items(), strict=False):
            share = np.asarray(counts, float) / max(sum(counts), 1)
            ax.stairs(share, panel.edges, color=color, fill=True, alpha=0.18)
            ax.stairs(share, panel.edges, color=color, linewidth=1.4, label=kind)
        ax.set_title(panel.title, fontsize="medium", color=INK, loc="left")
        ax.set_yticks([])
        tidy(ax)
        ax.spines["left"].set_visible(False)
    for ax in axes[len(panels) :]:
        ax.set_axis_off()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=3, frameon=False, labelcolor=INK)
    figure.supxlabel(x_label, fontsize="medium", color=INK)
    return figure
