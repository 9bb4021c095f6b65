"""What a fit has to say about its labels and about how it could be judged."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import Pipeline

from bayesvm.tables.errors import TableWarning
from bayesvm.tables.evaluation import Evaluation

__all__ = ["warn_of_judgement", "warn_of_labels"]

# What programs write where there is no value; the rest of the missing words are fair names of classes.
_MARKS = ("na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "?")


def warn_of_labels(labels: npt.NDArray[Any], target: str) -> None:
    """Classes with a single row, and classes that look like marks of missing labels."""
    classes, counts = np.unique(labels, return_counts=True)
    rare = classes[counts == 1].tolist()
    if rare:
        shown = ", ".join(repr(label) for label in rare[:3]) + (", ..." if len(rare) > 3 else "")
        _warn(
            f"{len(rare)} class(es) have a single row ({shown}): nobody can tell how well they are predicted"
        )
    for label, count in zip(classes.tolist(), counts, strict=True):
        if str(label).casefold() in _MARKS:
            _warn(
                f"{count} row(s) of the target {target!r} say {label!r}, which counts as a class; "
                "leave the field empty if there is no label"
            )


def warn_of_judgement(
    holdout: float, n_rows: int, heldout: Evaluation | None, judged: Pipeline | None
) -> None:
    """Splits that leave one side poor, and models that learned nothing."""
    if holdout > 0 and judged is None:
        _warn(
            f"a share of {holdout:g} of {n_rows} rows leaves none to hold out; the model is judged by "
            "leave-one-out only"
        )
    if judged is None or heldout is None:
        return
    columns = judged["columns"]
    if 2 * columns.n_rows_ < n_rows:
        _warn(
            f"the model that is judged learned from {columns.n_rows_} of {n_rows} rows only, so the held-out "
            "figures are worse than those of the final one; hold out less"
        )
    prior = np.asarray(columns.class_counts_) / columns.n_rows_
    without = float(-np.log(prior[np.searchsorted(heldout.classes, heldout.labels)]).mean())
    if heldout.log_loss.value >= without:
        _warn(
            f"the held-out log-loss, {heldout.log_loss.value:.3f}, is no better than without a model, "
            f"{without:.3f}: the columns may say nothing about {columns.target!r}, or the rows are too few"
        )


def _warn(message: str) -> None:
    warnings.warn(message, TableWarning, stacklevel=4)
