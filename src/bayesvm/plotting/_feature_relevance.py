"""Which features the kernel found to matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import Pipeline

from bayesvm.plotting._style import GUIDE, INK, MAIN, best_estimator, final_model, open_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


FloatArray = npt.NDArray[np.floating]


class FeatureRelevanceDisplay:
    """Share of each feature in how fast the latent functions vary, largest first.

    Parameters
    ----------
    relevance : array-like of shape (n_features,)
        Non-negative shares, as ``feature_relevance_``.
    feature_names : sequence of str or None
    top_k : int or None
        How many features to show; None: all.

    Attributes
    ----------
    order : ndarray of shape (min(top_k, n_features),)
        Features shown, most relevant first.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer
    """

    def __init__(self, relevance: Any, *, feature_names: Any = None, top_k: int | None = 10) -> None:
        if top_k is not None and top_k < 1:
            raise ValueError(f"top_k={top_k!r} is not valid; it must be a whole number >= 1 or None")
        self.relevance: FloatArray = np.asarray(relevance, dtype=np.float64)
        if feature_names is None:
            feature_names = [f"feature {i}" for i in range(self.relevance.size)]
        self.feature_names = [str(name) for name in feature_names]
        if len(self.feature_names) != self.relevance.size:
            raise ValueError(f"{len(self.feature_names)} feature_names for {self.relevance.size} features")
        self.top_k = top_k
        self.order = np.argsort(-self.relevance, kind="stable")[:top_k]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        feature_names: Any = None,
        top_k: int | None = 10,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the relevance of a fitted model's features.

        Parameters
        ----------
        estimator : fitted model with ``feature_relevance_``, or a pipeline that ends in one
        feature_names : sequence of str or None
            None: the names seen in ``fit``, or numbers.
        top_k : int or None
        ax : matplotlib Axes or None
        """
        model = final_model(estimator)
        # Read directly: a kernel without relevance says so itself.
        relevance = model.feature_relevance_
        if feature_names is None:
            feature_names = _names(best_estimator(estimator), model, len(relevance))
        return cls(relevance, feature_names=feature_names, top_k=top_k).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw into the axes given, or into a new figure.

        Returns
        -------
        self
        """
        shown = self.order[::-1]  # bars grow upwards: the largest comes last
        ax = open_axes(ax, (5.2, 0.7 + 0.28 * max(shown.size, 2)))
        share = 100 * self.relevance[shown]
        self.bars_ = ax.barh(np.arange(shown.size), share, height=0.72, color=MAIN)
        ax.bar_label(self.bars_, [f"{s:.1f}" for s in share], padding=3, fontsize="small", color=INK)
        ax.set_yticks(np.arange(shown.size), [self.feature_names[i] for i in shown])
        ax.margins(x=0.12, y=0.02)
        part = "" if shown.size == self.relevance.size else f", top {shown.size} of {self.relevance.size}"
        ax.set_xlabel(f"Relevance (%){part}")
        tidy(ax)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_color(GUIDE)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _names(estimator: Any, model: Any, n_features: int) -> list[str] | None:
    """Names the model saw, or those its pipeline gives to the columns."""
    if hasattr(model, "feature_names_in_"):
        return [str(name) for name in model.feature_names_in_]
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        try:
            names = estimator[:-1].get_feature_names_out()
        except (AttributeError, ValueError):  # a step without names
            return None
        return [str(name) for name in names] if len(names) == n_features else None
    return None
