"""Leave-one-out turned into what users look at: probabilities, scores, the calibration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from bayesvm.calibration import Calibration, fit_calibration
from bayesvm.core.leave_one_out import MIN_REMAINING
from bayesvm.core.predictive import expected_softmax
from bayesvm.training import Trained, leave_one_out

__all__ = ["LeaveOneOutSummary", "summarise"]

FloatArray = npt.NDArray[np.floating]
_CALIBRATION_ROWS = 3000
_CALIBRATION_NUMBERS = 600_000
_BLOCK_NUMBERS = 1_000_000
_NODES = 128


@dataclass(frozen=True)
class LeaveOneOutSummary:
    """Closed-form leave-one-out of the distinct training rows.

    Attributes
    ----------
    proba : ndarray of shape (M, C)
    confidence, correct, weight : ndarray of shape (M,)
        Largest probability, whether it is the label's, weight of the row.
    score, log_loss : float
        Weighted accuracy and log-loss.
    calibration : Calibration
    clipped : float
        Share of the weight in rows that removing changes beyond recognition.
    """

    proba: FloatArray
    confidence: FloatArray
    correct: FloatArray
    weight: FloatArray
    score: float
    log_loss: float
    calibration: Calibration
    clipped: float


def summarise(trained: Trained) -> LeaveOneOutSummary:
    """Fit the calibration to the leave-one-out latents and score the result."""
    rows = trained.rows
    loo = leave_one_out(rows, trained.ascent)
    n = min(len(rows), _CALIBRATION_ROWS, _CALIBRATION_NUMBERS // rows.n_classes + 1)
    with torch.no_grad():
        calibration = fit_calibration(loo.F[:n], loo.s2[:n], rows.y[:n], rows.weight[:n])
        offset = loo.F.new_tensor(calibration.offset)
        size = max(1, _BLOCK_NUMBERS // (_NODES * rows.n_classes))
        proba = np.empty((len(rows), rows.n_classes))
        for i in range(0, len(rows), size):
            part = slice(i, i + size)
            variances = calibration.spread * loo.s2[part]
            p = expected_softmax(loo.F[part] + offset, variances, calibration.temperature, _NODES)
            proba[part] = p.cpu().numpy()
    y = rows.y.cpu().numpy()
    weight = rows.weight.to(torch.float64).cpu().numpy()
    total = weight.sum()
    correct = (proba.argmax(1) == y).astype(np.float64)
    own = np.maximum(proba[np.arange(len(y)), y], np.finfo(np.float64).tiny)
    return LeaveOneOutSummary(
        proba=proba,
        confidence=proba.max(1),
        correct=correct,
        weight=weight,
        score=float(weight @ correct / total),
        log_loss=float(-(weight @ np.log(own)) / total),
        calibration=calibration,
        clipped=float(weight @ (loo.remaining <= MIN_REMAINING).cpu().numpy() / total),
    )
