"""What all displays share: colours, axes, and the model inside a pipeline or search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Okabe and Ito's colours, told apart by all common forms of colour vision,
# in an order that keeps neighbours distinct; black is left to annotations.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
MAIN = PALETTE[0]
ACCENT = PALETTE[5]
INK = "#333333"
MUTED = "#767676"
GUIDE = "#BBBBBB"


def pyplot() -> Any:
    """``matplotlib.pyplot``, or an error that says how to get it."""
    try:
        import matplotlib.pyplot
    except ImportError as error:
        raise ImportError("plotting needs matplotlib: pip install 'bayesvm[plot]'") from error
    return matplotlib.pyplot


def open_axes(ax: Axes | None, figsize: tuple[float, float]) -> Axes:
    """The axes given, or those of a new figure."""
    if ax is not None:
        return ax
    _, ax = pyplot().subplots(figsize=figsize, layout="constrained")
    return ax


def tidy(ax: Axes, *, grid: str | None = None) -> None:
    """Leave only the spines and ticks that carry information."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(GUIDE)
    ax.tick_params(color=GUIDE, labelcolor=INK)
    if grid is not None:
        ax.grid(axis=grid, color=GUIDE, alpha=0.4, linewidth=0.7)  # type: ignore[arg-type]
        ax.set_axisbelow(True)


def class_colors(n_classes: int) -> list[Any]:
    """One colour per class: fixed ones while they last, then a perceptually ordered map."""
    if n_classes <= len(PALETTE):
        return list(PALETTE[:n_classes])
    colormap = pyplot().get_cmap("viridis")
    return [colormap(i / (n_classes - 1)) for i in range(n_classes)]


def best_estimator(estimator: Any) -> Any:
    """The estimator itself, or the refitted best one of a search; fitted."""
    check_is_fitted(estimator)
    while hasattr(estimator, "best_estimator_"):
        estimator = estimator.best_estimator_
    return estimator


def final_model(estimator: Any, *needed: str) -> Any:
    """The last step of a pipeline or search, which must have the attributes named.

    Raises
    ------
    TypeError
        If an attribute is missing.
    """
    model = best_estimator(estimator)
    while isinstance(model, Pipeline):
        model = best_estimator(model[-1])
    for name in needed:
        if not hasattr(model, name):
            raise TypeError(f"{type(model).__name__} has no {name}, which this display shows")
    return model


def prepared(estimator: Any, X: Any) -> Any:
    """X as the last step of a pipeline or search receives it."""
    model = best_estimator(estimator)
    while isinstance(model, Pipeline):
        if len(model.steps) > 1:
            X = model[:-1].transform(X)
        model = best_estimator(model[-1])
    return X


def check_left_out(model: Any, y: Any) -> npt.NDArray[Any]:
    """Labels as an array, if there is one for each leave-one-out prediction.

    Raises
    ------
    ValueError
        If their number differs from that of the rows of the last fit, or
        the model holds no predictions of single rows.
    """
    y = np.asarray(y)
    if model.loo_proba_ is None:
        raise ValueError(
            "the model was fitted to so many rows and classes that it holds no leave-one-out predictions "
            "of single rows (loo_proba_ is None); give predictions of rows held out instead"
        )
    n_rows = model.loo_proba_.shape[0]
    if y.shape != (n_rows,):
        raise ValueError(
            f"y has shape {y.shape}, but the model holds leave-one-out predictions of {n_rows} rows: "
            "give the labels of the last fit (or partial_fit)"
        )
    return y
