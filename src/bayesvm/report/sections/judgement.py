"""Which predictions a section speaks of, and what they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayesvm.report.wording import plural

if TYPE_CHECKING:
    from bayesvm.tables import Evaluation, TableFit

__all__ = ["baseline_log_loss", "described", "for_details", "for_headline"]

# With fewer held-out rows, what is said of them says more about chance than about the model:
# one number needs some, a figure of many parts needs many.
FEWEST_FOR_HEADLINE = 20
FEWEST_FOR_DETAILS = 200


def for_headline(fit: TableFit) -> Evaluation:
    """The held-out rows, which nobody can argue with, unless there are next to none."""
    return _held_out_or_all(fit, FEWEST_FOR_HEADLINE)


def for_details(fit: TableFit) -> Evaluation:
    """The held-out rows if they are many, else all rows, each predicted without itself."""
    return _held_out_or_all(fit, FEWEST_FOR_DETAILS)


def _held_out_or_all(fit: TableFit, fewest: int) -> Evaluation:
    if fit.heldout is not None and len(fit.heldout.labels) >= fewest:
        return fit.heldout
    return fit.leave_one_out


def described(evaluation: Evaluation) -> str:
    """The rows of an evaluation in words, as the end of a sentence."""
    rows = plural(len(evaluation.labels), "row")
    if evaluation.origin == "held out":
        return f"the {rows} that were held out"
    return f"the {rows}, each predicted as if the model had not seen it (leave-one-out)"


def baseline_log_loss(judged: Evaluation, known: Evaluation) -> float:
    """Log-loss on the judged rows of always giving every class its share among the known ones."""
    classes, counts = np.unique(known.labels, return_counts=True)
    share = counts / counts.sum()
    own = share[np.searchsorted(classes, judged.labels)]
    return float(-np.log(own).mean())
