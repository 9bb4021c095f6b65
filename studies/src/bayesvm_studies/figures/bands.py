"""Mean curves over seeds with a band from the lowest to the highest seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from bayesvm.plotting._style import INK, tidy
from bayesvm_studies.figures.curves import COLORS, STYLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_LONG = 22


class BandPanel(NamedTuple):
    """Axes.

    Attributes
    ----------
    x_label, y_label : str
    curves : mapping of str to array of shape (n_seeds, n_points)
        By title; x counts from zero.
    level : (float, str) or None
        A dashed line at this height and what it is.
    title : str
    """

    x_label: str
    y_label: str
    curves: Mapping[str, npt.NDArray[np.floating]]
    level: tuple[float, str] | None = None
    title: str = ""


def bands_figure(panels: Sequence[BandPanel], width: float, order: Sequence[str] = ()) -> Figure:
    """Panels below each other with one legend.

    Parameters
    ----------
    panels : sequence of BandPanel
    width : float
        Inches.
    order : sequence of str
        Titles in the order of their colours, so that figures agree.
    """
    from matplotlib.figure import Figure

    titles = list(dict.fromkeys([*order, *(title for panel in panels for title in panel.curves)]))
    shown = list(dict.fromkeys(title for panel in panels for title in panel.curves))
    shown += [panel.level[1] for panel in panels if panel.level is not None]
    # Two long titles do not fit beside each other.
    columns = 1 if max(map(len, shown), default=0) > _LONG else 2
    height = 2.9 * len(panels) + 0.24 * -(-len(shown) // columns) + 0.3
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False).ravel()
    for ax, panel in zip(axes, panels, strict=True):
        _draw(ax, panel, titles)
    handles = {label: h for ax in axes for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside upper left",
        ncols=columns,
        frameon=False,
        labelcolor=INK,
        columnspacing=1.2,
    )
    return figure


def _draw(ax: Axes, panel: BandPanel, titles: Sequence[str]) -> None:
    for title, runs in panel.curves.items():
        i = titles.index(title)
        color, style = COLORS[i % len(COLORS)], STYLES[i % len(STYLES)]
        x = np.arange(runs.shape[1])
        if len(runs) > 1:
            ax.fill_between(x, runs.min(0), runs.max(0), color=color, alpha=0.15, linewidth=0.0)
        ax.plot(x, runs.mean(0), style, color=color, linewidth=1.8, label=title, zorder=3)
    if panel.level is not None:
        height, what = panel.level
        ax.axhline(height, color=INK, linewidth=1.0, linestyle=(0, (6, 4)), label=what)
    ax.set(xlabel=panel.x_label, ylabel=panel.y_label)
    ax.margins(x=0.01)
    if panel.title:
        ax.set_title(panel.title, fontsize="medium", color=INK, loc="left")
    tidy(ax, grid="y")
    ax.locator_params(axis="y", nbins=6)
