"""The figures of the studies: each function draws one, so many inches wide, as matplotlib's Figure.

Panels stand below each other with one legend, or two in a row.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayesvm.metrics import ReliabilityCurve
from bayesvm.plotting._style import ACCENT, GUIDE, INK, MAIN, MUTED, PALETTE, tidy
from bayesvm_studies.statistics import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

_COLORS = (PALETTE[5], PALETTE[0], PALETTE[2], PALETTE[3], INK, PALETTE[1], PALETTE[4], "#8A7A00", "#767676")
_STYLES = ("-", "--", "-.", ":")


# A reader's font may be wider and taller than matplotlib's: room around the panels in inches, beside
# labels in points, and the share of its room that a line of text may take.
_EDGE = 0.08
_TICK_PAD, _LABEL_PAD = 4.5, 7.0
_ROOM = 0.9


def _grid(n_panels: int, width: float, height: float, columns: int, **shared: Any) -> tuple[Figure, Any]:
    """A figure and the axes of its panels, row by row."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=_EDGE, h_pad=_EDGE)
    figure = Figure(figsize=(width, height), layout=layout)
    axes = figure.subplots(-(-n_panels // columns), columns, squeeze=False, **shared).ravel()
    for ax in axes:
        ax.tick_params(pad=_TICK_PAD)
        ax.xaxis.labelpad = ax.yaxis.labelpad = _LABEL_PAD
    for ax in axes[n_panels:]:
        ax.set_axis_off()
    return figure, axes[:n_panels]


def _panels(
    panels: Sequence[Any], width: float, height: float, columns: int, draw: Callable[..., None], **shared: Any
) -> tuple[Figure, Any]:
    """A figure with every panel drawn on its axes."""
    figure, axes = _grid(len(panels), width, height, columns, **shared)
    for ax, panel in zip(axes, panels, strict=True):
        draw(ax, panel)
    return figure, axes


def _set_title(ax: Axes, title: str) -> None:
    if title:
        ax.set_title(title, fontsize="medium", color=INK, loc="left", linespacing=1.45)


def _look(titles: Sequence[str], title: str) -> tuple[str, str]:
    """Colour and style of a line, the same wherever the titles are."""
    i = titles.index(title)
    return _COLORS[i % len(_COLORS)], _STYLES[i % len(_STYLES)]


def _add_legend(figure: Figure, axes: Sequence[Axes], columns: int = 2, **options: Any) -> Legend:
    """One legend above the panels for what is in any of them, smaller where it would be cut off."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties

    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    size = FontProperties(size=rcParams["legend.fontsize"]).get_size_in_points()
    options |= {"loc": "outside upper left", "frameon": False, "labelcolor": INK, "columnspacing": 1.2}
    legend = figure.legend(list(handles.values()), list(handles), ncols=columns, fontsize=size, **options)
    room = _ROOM * figure.bbox.width / legend.get_window_extent().width
    if room >= 1.0:
        return legend
    legend.remove()
    return figure.legend(
        list(handles.values()), list(handles), ncols=columns, fontsize=room * size, **options
    )


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


# Room beside what is drawn where a few low values are cut off, as a share of the axis.
_TRIM = 0.02


def curves_figure(panels: Sequence[Panel], width: float) -> Figure:
    """Curves of several models: a thin line per run, a thick one through their medians."""
    titles = list(dict.fromkeys(title for panel in panels for title in panel.curves))
    height = 2.5 * len(panels) + 0.24 * -(-len(titles) // 2) + 0.3
    figure, axes = _panels(panels, width, height, 1, partial(_draw_curves, titles=titles))
    _add_legend(figure, axes, min(2, max(1, len(titles))))
    return figure


def _draw_curves(ax: Axes, panel: Panel, titles: Sequence[str]) -> None:
    values: list[float] = []
    for title, runs in panel.curves.items():
        color, style = _look(titles, title)
        marker = "o" if max((len(run.x) for run in runs), default=0) == 1 else None
        if len(runs) > 1:
            for run in runs:
                ax.plot(run.x, run.y, color=color, linewidth=0.7, alpha=0.45)
        n = min((len(run.x) for run in runs), default=0)
        x = np.median([run.x[:n] for run in runs], axis=0)
        y = np.median([run.y[:n] for run in runs], axis=0)
        ax.plot(x, y, style, color=color, linewidth=2.0, label=title, marker=marker, zorder=3)
        values += [value for run in runs for value in run.y if np.isfinite(value)]
    if panel.trim and len(values) > 20:
        low, high = float(np.quantile(values, 0.1)), max(values)
        ax.set_ylim(low - _TRIM * (high - low), high + 3 * _TRIM * (high - low))
    ax.set(xlabel=panel.x_label, ylabel=panel.y_label)
    _set_title(ax, panel.title)
    tidy(ax, grid="y")
    ax.locator_params(nbins=5)


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


_LONG_TITLE = 22


def bands_figure(panels: Sequence[BandPanel], width: float, order: Sequence[str] = ()) -> Figure:
    """Mean curves over seeds with a band from the lowest to the highest seed.

    Parameters
    ----------
    panels : sequence of BandPanel
        Below each other, with one legend.
    order : sequence of str
        Titles in the order of their colours, so that figures agree.
    """
    shown = list(dict.fromkeys(title for panel in panels for title in panel.curves))
    titles = list(dict.fromkeys([*order, *shown]))
    shown += [panel.level[1] for panel in panels if panel.level is not None]
    # Two long titles do not fit beside each other.
    columns = 1 if max(map(len, shown), default=0) > _LONG_TITLE else 2
    height = 2.9 * len(panels) + 0.24 * -(-len(shown) // columns) + 0.3
    figure, axes = _panels(panels, width, height, 1, partial(_draw_bands, titles=titles))
    _add_legend(figure, axes, columns)
    return figure


def _draw_bands(ax: Axes, panel: BandPanel, titles: Sequence[str]) -> None:
    for title, runs in panel.curves.items():
        color, style = _look(titles, title)
        x = np.arange(runs.shape[1])
        if len(runs) > 1:
            ax.fill_between(x, runs.min(0), runs.max(0), color=color, alpha=0.15, linewidth=0.0)
        ax.plot(x, runs.mean(0), style, color=color, linewidth=1.8, label=title, zorder=3)
    if panel.level is not None:
        height, what = panel.level
        ax.axhline(height, color=INK, linewidth=1.0, linestyle=(0, (6, 4)), label=what)
    ax.set(xlabel=panel.x_label, ylabel=panel.y_label)
    ax.margins(x=0.01)
    _set_title(ax, panel.title)
    tidy(ax, grid="y")
    ax.locator_params(axis="y", nbins=6)


class Counts(NamedTuple):
    """A panel: edges of the bins, and by kind how many rows are in each."""

    title: str
    edges: Sequence[float]
    counts: Mapping[str, Sequence[float]]


def histograms_figure(panels: Sequence[Counts], x_label: str, width: float) -> Figure:
    """Shares of rows, so that kinds with different numbers of rows compare."""
    columns = min(2, len(panels))
    figure, axes = _grid(len(panels), width, 0.6 + 1.7 * -(-len(panels) // columns), columns, sharex=True)
    for ax, panel in zip(axes, panels, strict=True):
        for color, (kind, counts) in zip((PALETTE[0], MUTED, PALETTE[5]), panel.counts.items(), strict=False):
            share = np.asarray(counts, float) / max(sum(counts), 1)
            ax.stairs(share, panel.edges, color=color, fill=True, alpha=0.18)
            ax.stairs(share, panel.edges, color=color, linewidth=1.4, label=kind)
        _set_title(ax, panel.title)
        ax.set_yticks([])
        tidy(ax)
        ax.spines["left"].set_visible(False)
    _add_legend(figure, axes[:1], 3)
    figure.supxlabel(x_label, fontsize="medium", color=INK)
    return figure


class Calibration(NamedTuple):
    """A model's curve over all sets together, and its calibration error as a mean over sets."""

    title: str
    curve: ReliabilityCurve
    error: float


def reliability_grid(models: Sequence[Calibration], width: float) -> Figure:
    """A small reliability diagram per model, two in a row; grey columns show where its answers lie."""
    columns = min(2, len(models))
    height = 0.3 + -(-len(models) // columns) * width / columns * 1.06
    figure, _ = _panels(models, width, height, columns, _draw_reliability, sharex=True, sharey=True)
    figure.supxlabel("Confidence in the top class", fontsize="medium", color=INK)
    figure.supylabel("Accuracy", fontsize="medium", color=INK)
    return figure


# Letters that fit above one of two panels.
_WIDEST_TITLE = 20


def _draw_reliability(ax: Axes, model: Calibration) -> None:
    curve = model.curve
    filled = curve.counts > 0
    share = curve.counts / curve.counts.sum()
    ax.bar(curve.edges[:-1], 0.5 * share, np.diff(curve.edges), align="edge", color=GUIDE, alpha=0.45)
    ax.plot([0, 1], [0, 1], color=GUIDE, linewidth=1.2, zorder=1)
    x, y = curve.confidence[filled], curve.accuracy[filled]
    ax.plot(x, y, "o-", color=MAIN, markersize=3.5, linewidth=1.2, clip_on=False, zorder=3)
    ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.02), aspect="equal")
    # Short labels: those of two axes, and of two panels, meet in a corner.
    ax.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
    ax.set_yticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
    _set_title(ax, textwrap.fill(model.title, _WIDEST_TITLE))
    ax.text(0.05, 0.95, f"ECE {model.error:.3f}", transform=ax.transAxes, va="top", color=MUTED)
    tidy(ax)


class Pair(NamedTuple):
    """Scores of two models on the same sets: accuracies, or with ``loss`` what is better the lower it is."""

    ours: str
    theirs: str
    our_scores: Sequence[float]
    their_scores: Sequence[float]
    loss: bool = False
    title: str = ""


def scatter_figure(pairs: Sequence[Pair], width: float) -> Figure:
    """Two models against each other, a dot per set, as in the paper.

    Above the diagonal ours has the better accuracy, below it the lower loss.
    """
    columns = min(2, len(pairs))
    height = 0.2 + -(-len(pairs) // columns) * width / columns * 1.04
    return _panels(pairs, width, height, columns, _draw_pair)[0]


# Losses are drawn on logarithmic axes, which have no zero.
_LEAST_LOSS = 1e-3


def _draw_pair(ax: Axes, pair: Pair) -> None:
    ours, theirs = np.asarray(pair.our_scores), np.asarray(pair.their_scores)
    shown = np.isfinite(ours) & np.isfinite(theirs)
    ours, theirs = ours[shown], theirs[shown]
    sign = -1.0 if pair.loss else 1.0
    lead = sign * (ours - theirs)
    if pair.loss:
        ours, theirs = np.maximum(ours, _LEAST_LOSS), np.maximum(theirs, _LEAST_LOSS)
    ends = (_prepare_losses if pair.loss else _prepare_accuracies)(ax, np.concatenate([ours, theirs]))
    ax.plot(ends, ends, color=GUIDE, linewidth=1.2, zorder=1)
    options: dict[str, Any] = {"s": 22, "linewidths": 0, "alpha": 0.8, "clip_on": False, "zorder": 3}
    better = lead >= 0
    ax.scatter(theirs[better], ours[better], color=MAIN, **options)
    ax.scatter(theirs[~better], ours[~better], color=ACCENT, marker="s", **options)
    ax.set(xlim=ends, ylim=ends, xlabel=pair.theirs, ylabel=pair.ours, aspect="equal")
    above: dict[str, Any] = {"x": 0.04, "y": 0.96, "va": "top", "transform": ax.transAxes}
    below: dict[str, Any] = {"x": 0.96, "y": 0.04, "ha": "right", "transform": ax.transAxes}
    won, lost = int((lead > 0).sum()), int((lead < 0).sum())
    ax.text(s=f"better on {won}", color=INK, **(below if pair.loss else above))
    ax.text(s=f"worse on {lost}", color=MUTED, **(above if pair.loss else below))
    _set_title(ax, pair.title)
    tidy(ax)


def _prepare_accuracies(ax: Axes, values: npt.NDArray[np.floating]) -> tuple[float, float]:
    """Ticks of both axes; the answer is where they begin and end."""
    low = max(0.0, np.floor(10 * values.min()) / 10) if len(values) else 0.0
    # The same numbers on both axes, few enough to be read at the width of a phone.
    step = 0.2 if 1.0 - low > 0.45 else 0.1
    ticks = np.arange(1.0, low - 1e-9, -step)
    _label_both(ax, ticks, [f"{tick:.1g}" for tick in ticks], float(low))
    return float(low), 1.0


def _label_both(ax: Axes, ticks: npt.NDArray[np.floating], labels: list[str], low: float) -> None:
    """The same ticks on both axes; in the corner the labels would meet, so one of them serves both."""
    ax.set_xticks(ticks, labels)
    own = ["" if tick <= low * (1.0 + 1e-9) else label for tick, label in zip(ticks, labels, strict=True)]
    ax.set_yticks(ticks, own)


def _prepare_losses(ax: Axes, values: npt.NDArray[np.floating]) -> tuple[float, float]:
    """Whole decades on both axes; the answer is where they begin and end."""
    logs = np.log10(values) if len(values) else np.zeros(1)
    low, high = int(np.floor(logs.min())), int(np.ceil(logs.max() + 1e-9))
    ticks = 10.0 ** np.arange(low, max(high, low + 1) + 1)
    ax.set(xscale="log", yscale="log")
    _label_both(ax, ticks, [f"{tick:g}" for tick in ticks], float(ticks[0]))
    ax.minorticks_off()
    return float(ticks[0]), float(ticks[-1])


_MARKERS = "osD^vPX*<h"
# One for each of ten models; yellow cannot be seen on white.
_TIME_COLORS = (*PALETTE[:6], "#8A7A00", INK, "#B2457A", MUTED)


def times_figure(sizes: Sequence[int], seconds: Mapping[str, Sequence[float]], width: float) -> Figure:
    """Seconds of training against rows, a dot per set and model, both on logarithmic axes.

    Parameters
    ----------
    sizes : sequence of int
        Rows of each set.
    seconds : mapping of str to sequence of float
        By the title of a model; NaN where there is none.
    """
    from matplotlib.ticker import LogLocator

    figure, (ax,) = _grid(1, width, 4.0 + 0.22 * -(-len(seconds) // 2), 1)
    x = np.asarray(sizes, dtype=np.float64)
    for i, (title, values) in enumerate(seconds.items()):
        y = np.asarray(values, dtype=np.float64)
        shown = np.isfinite(y)
        color, marker = _TIME_COLORS[i % len(_TIME_COLORS)], _MARKERS[i % len(_MARKERS)]
        options: dict[str, Any] = {"color": color, "marker": marker, "zorder": 3 - 0.01 * i}
        ax.scatter(x[shown], y[shown], s=20, linewidths=0, alpha=0.75, label=title, **options)
        _draw_trend(ax, x[shown], y[shown], color)
    ax.set(xscale="log", yscale="log", xlabel="Rows of the set", ylabel="Training time (s)")
    ax.yaxis.set_major_locator(LogLocator(numticks=9))
    if len(x):  # whole decades, so that there are numbers on the axis however few sets there are
        ax.set_xlim(10.0 ** np.floor(np.log10(x.min())), 10.0 ** np.ceil(np.log10(x.max() + 1.0)))
    ax.minorticks_off()
    tidy(ax, grid="y")
    _add_legend(figure, [ax], handletextpad=0.2)
    return figure


def _draw_trend(ax: Axes, x: npt.NDArray[np.floating], y: npt.NDArray[np.floating], color: str) -> None:
    """A line through the medians of neighbouring sets, if there are enough to have any."""
    if len(x) < 12:
        return
    order = np.argsort(x, kind="stable")
    parts = np.array_split(order, min(8, len(order) // 4))
    medians = [[float(np.median(v[part])) for part in parts] for v in (x, y)]
    ax.plot(*medians, color=color, linewidth=1.4, alpha=0.8, zorder=2)


_RANK_ROW = 0.27  # inches per model


def rank_groups(ranks: npt.NDArray[np.floating], difference: float) -> list[tuple[int, int]]:
    """Longest runs of sorted ranks whose ends differ by no more than the critical difference.

    Examples
    --------
    >>> rank_groups(np.array([1.0, 1.4, 2.1, 3.5]), 0.8)
    [(0, 1), (1, 2)]
    """
    found: list[tuple[int, int]] = []
    if np.isnan(difference):  # too few sets to say
        return found
    for first in range(len(ranks)):
        last = int(np.flatnonzero(ranks <= ranks[first] + difference + 1e-12)[-1])
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def critical_difference_figure(
    comparison: Comparison, titles: dict[str, str], ours: str, width: float
) -> Figure:
    """Mean ranks, the best on top, with bars over models that cannot be told apart (Demšar, 2006).

    Parameters
    ----------
    comparison : Comparison
    titles : dict
        Names of the models for the reader.
    ours : str
        The model in colour.
    """
    order = np.argsort(comparison.mean_rank, kind="stable")
    ranks = comparison.mean_rank[order]
    names = [comparison.models[i] for i in order]
    n = len(ranks)
    figure, (ax,) = _grid(1, width, max(2.2, 0.85 + _RANK_ROW * (n + 1)), 1)
    for row, (rank, name) in enumerate(zip(ranks, names, strict=True)):
        ax.plot([1.0, rank], [row, row], color=GUIDE, linewidth=0.7, zorder=1)
        ax.plot(rank, row, "o", color=MAIN if name == ours else INK, markersize=6, zorder=4, clip_on=False)
        color = MAIN if name == ours else MUTED
        ax.annotate(f"{rank:.2f}", (rank, row), (7, 0), textcoords="offset points", va="center", color=color)
    for first, last in rank_groups(ranks, comparison.critical_difference):
        # A bracket at the worst of the group, down from its best: those rows could be equal.
        ax.plot([ranks[first], ranks[last]], [last + 0.34] * 2, color=ACCENT, linewidth=2.2, zorder=3)
        ax.plot([ranks[first]] * 2, [first, last + 0.34], color=ACCENT, linewidth=0.7, alpha=0.6, zorder=2)
    ax.set_yticks(range(n), [titles.get(name, name) for name in names])
    for label, name in zip(ax.get_yticklabels(), names, strict=True):
        label.set_color(MAIN if name == ours else INK)
    top = max(float(np.ceil(ranks.max() + 0.35)), 2.0)
    ax.set(xlim=(1.0, top), ylim=(n - 0.4, -1.1), xlabel="Mean rank (1 is best)")
    if np.isfinite(comparison.critical_difference):
        # Beyond the axis it would say nothing but "more than there is room for".
        end = min(1.0 + comparison.critical_difference, top)
        ax.plot([1.0, end], [-0.75, -0.75], color=ACCENT, linewidth=2.2, clip_on=False)
        beside = end < 1.0 + 0.55 * (top - 1.0)
        ax.annotate(
            f"critical difference {comparison.critical_difference:.2f}",
            (end, -0.75),
            (6, 0) if beside else (-6, 8),
            textcoords="offset points",
            va="center",
            ha="left" if beside else "right",
            color=MUTED,
        )
    ax.set_xticks(np.arange(1.0, top + 0.5))
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(GUIDE)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", color=GUIDE, labelcolor=INK)
    return figure
