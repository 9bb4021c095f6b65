"""Reliability diagram: is a confidence of 80 % right 80 % of the time?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bayesvm.metrics import ReliabilityCurve, calibration_gap, reliability_curve
from bayesvm.plotting._style import GUIDE, INK, MAIN, MUTED, check_left_out, final_model, open_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ReliabilityDisplay:
    """Accuracy against the confidence in the top class, with the number of rows behind it.

    Points on the diagonal are calibrated; bars are binomial intervals. Below,
    the rows in each bin. Create it with :meth:`from_estimator`,
    :meth:`from_predictions` or :meth:`from_leave_one_out`.

    Parameters
    ----------
    curve : ReliabilityCurve
        From :func:`bayesvm.metrics.reliability_curve`.
    name : str or None
        What the points are called in the legend.

    Attributes
    ----------
    expected_calibration_error : float
    ax_, counts_ax_ : matplotlib Axes
        The diagram and the counts below it.
    figure_ : matplotlib Figure
    points_ : matplotlib ErrorbarContainer
    bars_ : matplotlib BarContainer

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> from bayesvm import BayesianSVC
    >>> from bayesvm.plotting import ReliabilityDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BayesianSVC(random_state=0).fit(X, y)
    >>> display = ReliabilityDisplay.from_leave_one_out(model, y, ax=Figure().subplots())
    >>> bool(display.expected_calibration_error < 0.05)
    True
    """

    def __init__(self, curve: ReliabilityCurve, *, name: str | None = None) -> None:
        self.curve = curve
        self.name = name

    @property
    def expected_calibration_error(self) -> float:
        """Mean distance of the points from the diagonal, weighted by their rows."""
        return calibration_gap(self.curve)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        n_bins: int = 10,
        level: float = 0.95,
        sample_weight: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the diagram of a fitted classifier's predictions for X.

        Parameters
        ----------
        estimator : fitted classifier with ``predict_proba``
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        n_bins : int
        level : float
            Coverage of the binomial intervals.
        sample_weight : array-like of shape (n_rows,) or None
        name : str or None
            Name in the legend; None: the name of the estimator's class.
        ax : matplotlib Axes or None
        """
        return cls.from_predictions(
            y,
            estimator.predict_proba(X),
            labels=estimator.classes_,
            n_bins=n_bins,
            level=level,
            sample_weight=sample_weight,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_proba: Any,
        *,
        labels: Any = None,
        n_bins: int = 10,
        level: float = 0.95,
        sample_weight: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the diagram of class probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_rows,)
        y_proba : array-like of shape (n_rows, n_classes)
        labels : array-like of shape (n_classes,) or None
            The class of each column; None: the sorted labels of ``y_true``.
        n_bins, level, sample_weight, name, ax
            As in :meth:`from_estimator`.
        """
        curve = reliability_curve(
            y_true, y_proba, labels=labels, n_bins=n_bins, level=level, sample_weight=sample_weight
        )
        return cls(curve, name=name).plot(ax)

    @classmethod
    def from_leave_one_out(
        cls,
        estimator: Any,
        y: Any,
        *,
        n_bins: int = 10,
        level: float = 0.95,
        sample_weight: Any = None,
        name: str | None = "leave-one-out",
        ax: Axes | None = None,
    ) -> Self:
        """Draw the diagram of the training rows, each predicted without itself.

        Parameters
        ----------
        estimator : fitted model with ``loo_proba_``, or a pipeline that ends in one
        y : array-like of shape (n_rows,)
            The labels it was fitted to, in the same order.
        n_bins, level, sample_weight, name, ax
            As in :meth:`from_estimator`.
        """
        model = final_model(estimator, "loo_proba_", "classes_")
        return cls.from_predictions(
            check_left_out(model, y),
            model.loo_proba_,
            labels=model.classes_,
            n_bins=n_bins,
            level=level,
            sample_weight=sample_weight,
            name=name,
            ax=ax,
        )

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw into the axes given, or into a new figure.

        Returns
        -------
        self
        """
        ax = open_axes(ax, (4.2, 4.8))
        curve, filled = self.curve, self.curve.counts > 0
        x, y = curve.confidence[filled], curve.accuracy[filled]
        error = np.stack([y - curve.low[filled], curve.high[filled] - y]).clip(0.0)
        ax.plot([0, 1], [0, 1], color=GUIDE, linewidth=1.2, zorder=1)
        label = f"ECE {100 * self.expected_calibration_error:.1f} %"
        self.points_ = ax.errorbar(
            x,
            y,
            error,
            fmt="o-",
            color=MAIN,
            markersize=5,
            linewidth=1.2,
            elinewidth=1.2,
            capsize=0,
            clip_on=False,  # dots at the edge are whole
            label=label if self.name is None else f"{self.name}, {label}",
            zorder=3,
        )
        # A confidence below 1 / n_classes cannot occur: start at the first bin in use.
        start = float(curve.edges[:-1][filled].min())
        ax.set(xlim=(start, 1.0), ylim=(0.0, 1.02), ylabel="Accuracy")
        ax.legend(loc="lower right", frameon=False, handlelength=1.2, labelcolor=INK)
        ax.tick_params(labelbottom=False)
        tidy(ax, grid="y")
        self._plot_counts(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _plot_counts(self, ax: Axes) -> None:
        """Bars of the rows in each bin, below the diagram."""
        below = ax.inset_axes((0.0, -0.26, 1.0, 0.2), sharex=ax)
        edges, count = self.curve.edges, self.curve.counts
        width = np.diff(edges)
        self.bars_ = below.bar(edges[:-1], count, 0.86 * width, align="edge", color=GUIDE)
        for bar, left, w in zip(self.bars_, edges, width, strict=False):
            bar.set_x(left + 0.07 * w)
        below.bar_label(
            self.bars_,
            ["" if n == 0 else f"{n:.0f}" for n in count],
            fontsize="x-small",
            color=MUTED,
            padding=1,
            clip_on=False,
        )
        below.set(ylim=(0.0, 1.25 * count.max()), xlabel="Confidence in the top class", yticks=[])
        below.set_ylabel("Rows", color=INK)
        tidy(below)
        below.spines["left"].set_visible(False)
        self.counts_ax_ = below
