"""Curves of several models: a thin line per run, a thick one through their medians."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesvm.plotting._style import INK, PALETTE, tidy

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend


COLORS = (PALETTE[5], PALETTE[0], PALETTE[2], PALETTE[3], INK, PALETTE[1], PALETTE[4], "#8A7A00", "#767676")
STYLES = ("-", "--", "-.", ":")
# Curves are drawn from the second point on where the first few would hide the rest.
_TRIM = 0.02


class Curve(NamedTuple):
    """One run."""

    x: Sequence[float]
    y: Sequence[float]


class Panel(NamedTuple):
    """Axes: runs by the title of a model; ``trim`` cuts off the lowest few values of y."""

    x_label: str
    y_label: str
    curves: Mapping[str, Sequence[Curve]]
    title: str = ""
    trim: bool = False


def curves_figure(panels: Sequence[Panel], width: float, columns: int = 1) -> Figure:
    """Panels below or beside each other, with one legend.

    Parameters
    ----------
    panels : sequence of Panel
    width : float
        Inches.
    columns : int
        Panels in a row.
    """
    from matplotlib.figure import Figure

    rows = -(-len(panels) // columns)
    titles = list(dict.fromkeys(title for panel in panels for title in panel.curves))
    height = (2.5 if columns == 1 else 2.3) * rows + 0.24 * -(-len(titles) // 2) + 0.3
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, panel in zip(axes, panels, strict=False):
        _draw(ax, panel, titles)
    for ax in axes[len(panels) :]:
        ax.set_axis_off()
    handles, labels = [], []
    for ax in axes[: len(panels)]:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            if label not in labels:
                handles.append(handle)
                labels.append(label)
    _add_legend(figure, handles, labels)
    return figure


def _add_legend(figure: Figure, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """Above the panels, in two columns; smaller where it would be cut off."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties

    def legend(size: float) -> Legend:
        return figure.legend(
            handles,
            labels,
            loc="outside upper left",
            ncols=min(2, max(1, len(labels))),
            frameon=False,
            labelcolor=INK,
            columnspacing=1.2,
            fontsize=size,
        )

    size = FontProperties(size=rcParams["legend.fontsize"]).get_size_in_points()
    drawn = legend(size)
    room = figure.bbox.width / drawn.get_window_extent().width
    if room < 1.0:
        drawn.remove()
        legend(0.98 * room * size)


def _draw(ax: Axes, panel: Panel, titles: Sequence[str]) -> None:
    lowest = []
    for title, runs in panel.curves.items():
        i = titles.index(title)
        color, style = COLORS[i % len(COLORS)], STYLES[i % len(STYLES)]
        marker = "o" if max((len(run.x) for run in runs), default=0) == 1 else None
        if len(runs) > 1:
            for run in runs:
                ax.plot(run.x, run.y, color=color, linewidth=0.7, alpha=0.45)
        n = min((len(run.x) for run in runs), default=0)
        x = np.median([run.x[:n] for run in runs], axis=0)
        y = np.median([run.y[:n] for run in runs], axis=0)
        ax.plot(x, y, style, color=color, linewidth=2.0, label=title, marker=marker, zorder=3)
        lowest += [value for run in runs for value in run.y if np.isfinite(value)]
    if panel.trim and len(lowest) > 20:
        low, high = float(np.quantile(lowest, 0.1)), max(lowest)
        ax.set_ylim(low - _TRIM * (high - low), high + 3 * _TRIM * (high - low))
    ax.set(xlabel=panel.x_label, ylabel=panel.y_label)
    if panel.title:
        ax.set_title(panel.title, fontsize="medium", color=INK, loc="left")
    tidy(ax, grid="y")
    ax.locator_params(nbins=5)
