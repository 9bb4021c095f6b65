"""Which rows to hand to a person (eq. 6.8)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["confidence_threshold"]

FloatArray = npt.NDArray[np.floating]


def confidence_threshold(
    confidence: FloatArray, correct: FloatArray, weight: FloatArray, max_error: float
) -> float:
    """Smallest confidence at which accepted rows keep the error in leave-one-out.

    Rows are accepted from the most confident down, as long as the weighted
    error among them, counted with one error more than was seen, stays within
    ``max_error``; that extra error makes the promise hold on average for the
    next row rather than only on the rows it was read off. Infinity if not
    even the most confident rows can promise it.

    Parameters
    ----------
    confidence : ndarray of shape (N,)
        Largest leave-one-out class probability of each row.
    correct : ndarray of shape (N,)
        Whether that class is the label.
    weight : ndarray of shape (N,)
    max_error : float
    """
    order = np.argsort(-confidence, kind="stable")
    sorted_confidence = confidence[order]
    mass = np.cumsum(weight[order])
    wrong = np.cumsum(weight[order] * (1.0 - correct[order]))
    # A threshold accepts all rows that share its confidence.
    last_of_ties = np.append(sorted_confidence[1:] < sorted_confidence[:-1], True)
    promised = last_of_ties & (wrong + 1.0 <= max_error * (mass + 1.0))
    kept = np.flatnonzero(promised)
    return float(sorted_confidence[kept[-1]]) if kept.size else float("inf")
