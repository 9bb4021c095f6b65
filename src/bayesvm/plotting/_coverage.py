"""Accuracy against coverage: what abstaining on the least certain rows buys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from bayesvm.metrics import AccuracyCoverageCurve, accuracy_coverage_curve
from bayesvm.plotting._style import ACCENT, INK, MAIN, MUTED, check_left_out, final_model, open_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class CoverageDisplay:
    """Accuracy among the most confident rows, against the share of rows accepted.

    The dot marks where ``abstain`` with the same ``max_error`` draws the
    line. Create it with :meth:`from_estimator`, :meth:`from_predictions` or
    :meth:`from_leave_one_out`.

    Parameters
    ----------
    curve : AccuracyCoverageCurve
        From :func:`bayesvm.metrics.accuracy_coverage_curve`.
    threshold : float or None
        Least confidence that is accepted; infinity accepts nothing, None
        marks nothing.
    max_error : float or None
        Error rate that the threshold promises.
    name : str or None
        What the curve is called in the legend.

    Attributes
    ----------
    accepted_coverage, accepted_accuracy : float
        Share of rows whose confidence reaches the threshold, and accuracy
        among them (NaN if there are none, or no threshold).
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
    mark_ : matplotlib Line2D or None
    """

    def __init__(
        self,
        curve: AccuracyCoverageCurve,
        *,
        threshold: float | None = None,
        max_error: float | None = None,
        name: str | None = None,
    ) -> None:
        self.curve = curve
        self.threshold = threshold
        self.max_error = max_error
        self.name = name
        accepted = 0 if threshold is None else int((curve.threshold >= threshold).sum())
        self.accepted_coverage = float(curve.coverage[accepted - 1]) if accepted else 0.0
        self.accepted_accuracy = float(curve.accuracy[accepted - 1]) if accepted else float("nan")
        if threshold is None:
            self.accepted_coverage = float("nan")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        max_error: float | None = 0.01,
        sample_weight: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the curve of a fitted classifier's predictions for X.

        Parameters
        ----------
        estimator : fitted classifier with ``predict_proba``
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        max_error : float or None
            Mark the threshold that promises this error among accepted rows,
            from the model's ``abstention_threshold``; None marks nothing.
        sample_weight : array-like of shape (n_rows,) or None
        name : str or None
            Name in the legend; None: the name of the estimator's class.
        ax : matplotlib Axes or None
        """
        threshold = None
        if max_error is not None:
            threshold = final_model(estimator, "abstention_threshold").abstention_threshold(max_error)
        return cls.from_predictions(
            y,
            estimator.predict_proba(X),
            labels=estimator.classes_,
            threshold=threshold,
            max_error=max_error,
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
        threshold: float | None = None,
        max_error: float | None = None,
        sample_weight: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the curve of class probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_rows,)
        y_proba : array-like of shape (n_rows, n_classes)
        labels : array-like of shape (n_classes,) or None
            The class of each column; None: the sorted labels of ``y_true``.
        threshold : float or None
            Least confidence that is accepted.
        max_error : float or None
            Error rate that the threshold promises.
        sample_weight, name, ax
            As in :meth:`from_estimator`.
        """
        curve = accuracy_coverage_curve(y_true, y_proba, labels=labels, sample_weight=sample_weight)
        return cls(curve, threshold=threshold, max_error=max_error, name=name).plot(ax)

    @classmethod
    def from_leave_one_out(
        cls,
        estimator: Any,
        y: Any,
        *,
        max_error: float | None = 0.01,
        sample_weight: Any = None,
        name: str | None = "leave-one-out",
        ax: Axes | None = None,
    ) -> Self:
        """Draw the curve of the training rows, each predicted without itself.

        Parameters
        ----------
        estimator : fitted model with ``loo_proba_``, or a pipeline that ends in one
        y : array-like of shape (n_rows,)
            The labels it was fitted to, in the same order.
        max_error, sample_weight, name, ax
            As in :meth:`from_estimator`.
        """
        model = final_model(estimator, "loo_proba_", "classes_", "abstention_threshold")
        return cls.from_predictions(
            check_left_out(model, y),
            model.loo_proba_,
            labels=model.classes_,
            threshold=None if max_error is None else model.abstention_threshold(max_error),
            max_error=max_error,
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
        ax = open_axes(ax, (4.8, 3.8))
        coverage, accuracy = 100 * self.curve.coverage, 100 * self.curve.accuracy
        label = f"all rows: {accuracy[-1]:.1f} %"
        (self.line_,) = ax.plot(
            coverage,
            accuracy,
            color=MAIN,
            linewidth=1.8,
            label=label if self.name is None else f"{self.name}, {label}",
            zorder=2,
        )
        # The first few rows say little: one error among them is no reason to zoom out.
        floor = float(accuracy[coverage >= 5].min())
        if self.max_error is not None:
            promised = 100 * (1 - self.max_error)
            floor = min(floor, promised)
            ax.axhline(
                promised,
                color=ACCENT,
                linewidth=1.0,
                linestyle=(0, (4, 3)),
                label=f"asked for: {promised:g} %",
                zorder=1,
            )
        self.mark_ = self._plot_mark(ax)
        span = max(100.0 - floor, 0.5)
        ax.set(xlim=(0, 100.5), ylim=(floor - 0.12 * span, 100 + 0.06 * span))
        ax.set(xlabel="Rows accepted (%)", ylabel="Accuracy among them (%)")
        ax.legend(loc="lower left", frameon=False, handlelength=1.2, labelcolor=INK)
        tidy(ax, grid="y")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _plot_mark(self, ax: Axes) -> Any:
        """Dot at the threshold, with what it accepts in the legend."""
        if self.threshold is None:
            return None
        if not self.accepted_coverage > 0:
            ax.plot([], [], " ", label="no row accepted")
            return None
        share, correct = 100 * self.accepted_coverage, 100 * self.accepted_accuracy
        (mark,) = ax.plot(
            [share],
            [correct],
            "o",
            color=ACCENT,
            markersize=7,
            markeredgecolor="white",
            clip_on=False,  # whole at the edge, too
            label=f"accepted {share:.0f} %: {correct:.1f} %",
            zorder=4,
        )
        ax.vlines(share, 0, correct, color=MUTED, linewidth=0.8, linestyle=":", zorder=1)
        return mark
