"""Mean ranks on a line, with bars over models that cannot be told apart (Demšar, 2006)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayesvm.plotting._style import ACCENT, GUIDE, INK, MAIN, MUTED
from bayesvm_studies.ranks import Comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_ROW = 0.27  # inches per model


def groups(ranks: np.ndarray, difference: float) -> list[tuple[int, int]]:
    """Longest runs of sorted ranks whose ends differ by no more than the critical difference.

    Examples
    --------
    >>> groups(np.array([1.0, 1.4, 2.1, 3.5]), 0.8)
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
    """Draw the diagram: one row per model, the best on top.

    Parameters
    ----------
    comparison : Comparison
    titles : dict
        Names of the models for the reader.
    ours : str
        The model in colour.
    width : float
        Inches.
    """
    from matplotlib.figure import Figure

    order = np.argsort(comparison.mean_rank, kind="stable")
    ranks = comparison.mean_rank[order]
    names = [comparison.models[i] for i in order]
    bars = groups(ranks, comparison.critical_difference)
    n = len(ranks)
    figure = Figure(figsize=(width, max(2.2, 0.85 + _ROW * (n + 1))), layout="constrained")
    ax = figure.subplots()
    for row, (rank, name) in enumerate(zip(ranks, names, strict=True)):
        color = MAIN if name == ours else INK
        ax.plot([1.0, rank], [row, row], color=GUIDE, linewidth=0.7, zorder=1)
        ax.plot(rank, row, "o", color=color, markersize=6, zorder=4, clip_on=False)
        ax.annotate(
            f"{rank:.2f}",
            (rank, row),
            (7, 0),
            textcoords="offset points",
            va="center",
            color=MAIN if name == ours else MUTED,
        )
    for first, last in bars:
        # A bracket at the worst of the group, down from its best: those rows could be equal.
        ax.plot([ranks[first], ranks[last]], [last + 0.34] * 2, color=ACCENT, linewidth=2.2, zorder=3)
        ax.plot([ranks[first]] * 2, [first, last + 0.34], color=ACCENT, linewidth=0.7, alpha=0.6, zorder=2)
    ax.set_yticks(range(n), [titles.get(name, name) for name in names])
    for label, name in zip(ax.get_yticklabels(), names, strict=True):
        label.set_color(MAIN if name == ours else INK)
    top = float(np.ceil(ranks.max() + 0.35))
    ax.set(xlim=(1.0, max(top, 2.0)), ylim=(n - 0.4, -1.1), xlabel="Mean rank (1 is best)")
    if np.isfinite(comparison.critical_difference):
        # Beyond the axis it would say nothing but "more than there is room for".
        end = min(1.0 + comparison.critical_difference, max(top, 2.0))
        ax.plot([1.0, end], [-0.75, -0.75], color=ACCENT, linewidth=2.2, clip_on=False)
        ax.annotate(
            f"critical difference {comparison.critical_difference:.2f}",
            (end, -0.75),
            (6, 0) if end < 1.0 + 0.55 * (top - 1.0) else (-6, 8),
            textcoords="offset points",
            va="center",
            ha="left" if end < 1.0 + 0.55 * (top - 1.0) else "right",
            color=MUTED,
        )
    ax.set_xticks(np.arange(1.0, max(top, 2.0) + 0.5))
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(GUIDE)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", color=GUIDE, labelcolor=INK)
    return figure
