"""Leave-one-out turned into what users look at: probabilities, scores, the calibration."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm import defaults
from bayesvm.calibration import Calibration, Deviations, fit_calibration
from bayesvm.core.leave_one_out import MIN_REMAINING
from bayesvm.core.likelihoods import ProperLikelihood
from bayesvm.core.predictive import expected_softmax, in_order_of
from bayesvm.inference.blocks import TrainingRows
from bayesvm.inference.evaluate import Ascent
from bayesvm.leave_one_out import LeaveOneOut, leave_one_out
from bayesvm.local_part import LocalPart
from bayesvm.model import pooled
from bayesvm.short_classes import short_classes
from bayesvm.training import Trained

__all__ = ["LeaveOneOutSummary", "probabilities_left_out", "summarise"]

FloatArray = npt.NDArray[np.floating]
_CALIBRATION_ROWS = 3000
_CALIBRATION_NUMBERS = 600_000
_FEWEST_CALIBRATION_ROWS = 200
# Leave-one-out probabilities up to this many numbers are computed and kept;
# beyond it the first canonical rows, which are a random sample, speak for all.
MOST_PROBABILITIES = 20_000_000
_FEWEST_JUDGED = 256
_BLOCK_NUMBERS = 1_000_000
_NODES = 128


@dataclass(frozen=True)
class LeaveOneOutSummary:
    """Leave-one-out of the distinct training rows, or of the first of them where classes are many.

    Attributes
    ----------
    proba : ndarray of shape (M, C) or None
        None where there are more rows than were looked at.
    confidence, correct, weight : ndarray of shape (M,)
        Largest probability, whether it is the label's, weight of the row.
    score, log_loss : float
        Weighted accuracy and log-loss.
    calibration : Calibration
    clipped : float
        Share of the weight in rows that removing changes beyond recognition.
    """

    proba: FloatArray | None
    confidence: FloatArray
    correct: FloatArray
    weight: FloatArray
    score: float
    log_loss: float
    calibration: Calibration
    clipped: float


def summarise(
    trained: Trained,
    decides: bool = False,
    likelihood: ProperLikelihood | None = None,
    local: LocalPart | None = None,
) -> LeaveOneOutSummary:
    """Fit the calibration to the leave-one-out latents and score the result.

    Parameters
    ----------
    trained : Trained
    decides : bool
        Whether the largest latent mean is to be the most probable class:
        then there are no offsets, and the classes of a row share a variance.
    likelihood : ProperLikelihood or None
        One that has class probabilities of its own: they are used as they
        are, without calibration.
    local : LocalPart or None
        What the latents get from rows close by.
    """
    n_judged = max(_FEWEST_JUDGED, MOST_PROBABILITIES // trained.rows.n_classes)
    rows = trained.rows.head(n_judged)
    nearby = None if local is None else local.on(str(rows.X.device))
    # Where rows were elsewhere, those at hand do not say how many a class has.
    known = trained.taught is None and trained.elsewhere == 0.0
    short = short_classes(trained.rows, trained.ascent) if known else None
    loo = leave_one_out(rows, trained.ascent, nearby, short)
    if decides:
        loo = replace(loo, s2=pooled(loo.s2))
    affordable = max(_FEWEST_CALIBRATION_ROWS, _CALIBRATION_NUMBERS // rows.n_classes + 1)
    n = min(len(rows), _CALIBRATION_ROWS, affordable)
    with torch.no_grad():
        if likelihood is not None:
            calibration = Calibration(1.0, 1.0, (0.0,) * rows.n_classes)
        else:
            spread = loo.s2 if loo.deviations is None else Deviations(loo.deviations)
            calibration = fit_calibration(
                loo.F[:n],
                spread[:n],
                rows.y[:n],
                rows.weight[:n],
                not decides,
                short is not None,
                _enough(trained, n),
            )
        proba = _probabilities(loo, calibration, likelihood, decides)
    y = rows.y.cpu().numpy()
    weight = rows.weight.to(torch.float64).cpu().numpy()
    total = weight.sum()
    correct = (proba.argmax(1) == y).astype(np.float64)
    own = np.maximum(proba[np.arange(len(y)), y], np.finfo(np.float64).tiny)
    return LeaveOneOutSummary(
        proba=proba if len(rows) == len(trained.rows) else None,
        confidence=proba.max(1),
        correct=correct,
        weight=weight,
        score=float(weight @ correct / total),
        log_loss=float(-(weight @ np.log(own)) / total),
        calibration=calibration,
        clipped=float(weight @ (loo.remaining <= MIN_REMAINING).cpu().numpy() / total),
    )


def _enough(trained: Trained, n_rows: int) -> Tensor | None:
    """Which classes have enough rows for an offset, shape (C,), be they among the first ``n_rows`` or not.

    None, for those rows to tell, where they have few of all classes: then
    offsets would cost C^2 a row and follow their prior.
    """
    rows = trained.rows
    if n_rows < defaults.FEWEST_OF_CLASS * rows.n_classes:
        return None
    weight = rows.weight.double()
    seen = weight.new_zeros(rows.n_classes).index_add_(0, rows.y, weight)
    # What is at hand, with one row more for every class, says what is elsewhere.
    members = seen + (seen + 1.0) * (trained.elsewhere / float(weight.sum()))
    return members >= defaults.FEWEST_OF_CLASS


def probabilities_left_out(
    rows: TrainingRows,
    ascent: Ascent,
    calibration: Calibration,
    decides: bool = False,
    likelihood: ProperLikelihood | None = None,
) -> FloatArray:
    """Class probabilities of rows without themselves under a calibration that is known, shape (M, C).

    The rows are any of a fit. Those of weight zero took no part: theirs are predictions.
    """
    loo = leave_one_out(rows, ascent, complete=False)
    if decides:
        loo = replace(loo, s2=pooled(loo.s2))
    with torch.no_grad():
        return _probabilities(loo, calibration, likelihood, decides)


def _probabilities(
    loo: LeaveOneOut, calibration: Calibration, likelihood: ProperLikelihood | None, decides: bool
) -> FloatArray:
    """Class probabilities of every row without it, shape (M, C)."""
    offset = loo.F.new_tensor(calibration.offset)
    proba = np.empty(loo.F.shape)
    size = max(1, _BLOCK_NUMBERS // (_NODES * loo.F.shape[1]))
    for i in range(0, loo.F.shape[0], size):
        part = slice(i, i + size)
        if loo.deviations is not None:
            f = loo.F[part, :, None] + calibration.spread**0.5 * loo.deviations[part]
            p = _at_draws(f.permute(2, 0, 1), calibration, likelihood)
        elif likelihood is None:
            variances = calibration.spread * loo.s2[part]
            p = expected_softmax(loo.F[part] + offset, variances, calibration.temperature, _NODES)
            p = in_order_of(loo.F[part], p) if decides else p
        else:
            p = likelihood.probabilities(loo.F[part], loo.s2[part]).proba
        proba[part] = p.cpu().numpy()
    return proba


def _at_draws(f: Tensor, calibration: Calibration, likelihood: ProperLikelihood | None) -> Tensor:
    """Class probabilities averaged over equally likely latents (S, n, C)."""
    if likelihood is not None:
        return likelihood.conditional(f).mean(0)
    return torch.softmax(calibration.temperature * (f + f.new_tensor(calibration.offset)), 2).mean(0)
