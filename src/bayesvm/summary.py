"""Leave-one-out turned into what users look at: probabilities, scores, the temperature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from bayesvm.core.predictive import expected_softmax
from bayesvm.temperature import loss_curve, pick_temperature
from bayesvm.training import Trained, leave_one_out

__all__ = ["LeaveOneOutSummary", "summarise"]

FloatArray = npt.NDArray[np.floating]
_TEMPERATURE_ROWS = 5000
_BLOCK_NUMBERS = 4_000_000
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
    temperature : float
    """

    proba: FloatArray
    confidence: FloatArray
    correct: FloatArray
    weight: FloatArray
    score: float
    log_loss: float
    temperature: float


def summarise(trained: Trained) -> LeaveOneOutSummary:
    """Fit the temperature to the leave-one-out latents and score the result."""
    rows = trained.rows
    loo = leave_one_out(rows, trained.ascent)
    n = min(len(rows), _TEMPERATURE_ROWS)
    with torch.no_grad():
        curve = loss_curve(loo.F[:n], loo.s2[:n], rows.y[:n], rows.weight[:n])
        T = pick_temperature(curve, float(rows.weight[:n].sum()))
        size = max(1, _BLOCK_NUMBERS // (_NODES * rows.n_classes))
        blocks = [
            expected_softmax(loo.F[i : i + size], loo.s2[i : i + size], T, _NODES)
            for i in range(0, len(rows), size)
        ]
        proba = torch.cat(blocks).to(torch.float64).cpu().numpy()
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
        temperature=T,
    )
