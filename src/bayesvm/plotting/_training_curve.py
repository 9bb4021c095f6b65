"""Training curves: the bound while the kernel is learned, and with the final kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from bayesvm.plotting._style import ACCENT, INK, MAIN, final_model, open_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


FloatArray = npt.NDArray[np.floating]


class TrainingCurveDisplay:
    """The variational bound over the fit, one panel per stage.

    The stages have their own scales: the kernel may be learned on a part of
    the rows, the posterior on all of them.

    Parameters
    ----------
    elbo_curve : ndarray
        The bound after every sweep with the final kernel.
    kernel_curve : ndarray
        The bound while the kernel was learned; empty: that panel is left out.

    Attributes
    ----------
    ax_ : matplotlib Axes
        What was given or made; it holds the panels.
    axes_ : list of matplotlib Axes
        The panels, in the order of training.
    lines_ : list of matplotlib Line2D
    figure_ : matplotlib Figure
    """

    def __init__(self, elbo_curve: Any, kernel_curve: Any = ()) -> None:
        self.elbo_curve: FloatArray = np.asarray(elbo_curve, dtype=np.float64)
        self.kernel_curve: FloatArray = np.asarray(kernel_curve, dtype=np.float64)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the curves of a fitted model.

        Parameters
        ----------
        estimator : fitted model with ``elbo_curve_``, or a pipeline that ends in one
        ax : matplotlib Axes or None
        """
        model = final_model(estimator, "elbo_curve_")
        return cls(model.elbo_curve_, getattr(model, "kernel_curve_", ())).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw into the axes given, or into a new figure.

        Returns
        -------
        self
        """
        ax = open_axes(ax, (6.4, 3.2))
        stages = [
            (self.kernel_curve, "Learning the kernel", "Gradient step", ACCENT),
            (self.elbo_curve, "Final kernel", "Sweep", MAIN),
        ]
        stages = [stage for stage in stages if stage[0].size]
        if len(stages) == 2:
            ax.set_axis_off()
            panels = [ax.inset_axes((0.0, 0.0, 0.48, 1.0)), ax.inset_axes((0.54, 0.0, 0.46, 1.0))]
        else:
            panels = [ax]
        self.axes_ = panels[: len(stages)]
        self.lines_ = []
        for panel, (curve, title, step, color) in zip(self.axes_, stages, strict=True):
            marker = "o" if curve.size <= 30 else None
            (line,) = panel.plot(
                np.arange(curve.size), curve, color=color, marker=marker, markersize=3.5, linewidth=1.6
            )
            self.lines_.append(line)
            panel.set_title(title, loc="left", fontsize="medium", color=INK)
            panel.set_xlabel(step)
            panel.locator_params(axis="x", integer=True)
            panel.ticklabel_format(axis="y", useOffset=False)
            tidy(panel, grid="y")
        for panel in self.axes_[:1]:
            panel.set_ylabel("Bound (nats)")
        for panel in self.axes_[1:]:  # its scale is its own: on the right
            panel.yaxis.tick_right()
            panel.spines[["left", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
