"""How much a label of a row would tell, from what a model says about the row. Higher: ask first."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import entr, log_softmax

from bayesvm.core.argmax import argmax_probability

__all__ = [
    "entropy_scores",
    "margin_scores",
    "mutual_information_scores",
    "softmax_entropy_scores",
    "variation_ratio_scores",
    "vote_scores",
]

FloatArray = npt.NDArray[np.floating]
# Rows whose probabilities are integrated at a time: what they need stays in a processor's cache.
_BLOCK_NUMBERS = 2_000_000
_NODES = 64


def variation_ratio_scores(mean: Any, variance: Any) -> FloatArray:
    r"""Variation ratio :math:`1 - \max_c P(\arg\max_j f_j = c)` of independent Gaussian latents (eq. 6.2).

    The limit of the paper's :math:`1 - F/S` for infinitely many draws.

    Parameters
    ----------
    mean, variance : array-like of shape (n_rows, n_classes)
        Of each class's latent function.

    Returns
    -------
    ndarray of shape (n_rows,)
        Between 0 and 1 - 1/n_classes.

    Examples
    --------
    >>> variation_ratio_scores([[0.0, 0.0], [3.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]]).round(3).tolist()
    [0.5, 0.017]
    """
    mean, variance = checked_moments(mean, variance)
    out = np.empty(len(mean))
    size = max(1, _BLOCK_NUMBERS // (_NODES * mean.shape[1]))
    with torch.no_grad():
        for start in range(0, len(mean), size):
            rows = slice(start, start + size)
            F, s2 = torch.as_tensor(mean[rows]), torch.as_tensor(variance[rows])
            best = argmax_probability(F, s2, _NODES).amax(1)
            out[rows] = (1.0 - best.clamp_max(1.0)).numpy()
    return out


def softmax_entropy_scores(mean: Any) -> FloatArray:
    """Entropy in nats of the softmax over latent means: the rival in the paper, blind to variances.

    Examples
    --------
    >>> softmax_entropy_scores([[1.0, 1.0], [50.0, 0.0]]).round(3).tolist()
    [0.693, 0.0]
    """
    log_p = log_softmax(_matrix("mean", mean), axis=1)
    return np.asarray(-(np.exp(log_p) * log_p).sum(1))


def margin_scores(probabilities: Any) -> FloatArray:
    """One minus the lead of the most probable class over the second.

    Examples
    --------
    >>> margin_scores([[0.5, 0.5, 0.0], [0.8, 0.1, 0.1]]).round(3).tolist()
    [1.0, 0.3]
    """
    p = _probabilities(probabilities, 2)
    top = np.partition(p, p.shape[1] - 2, axis=1)[:, -2:] if p.shape[1] > 1 else np.pad(p, ((0, 0), (1, 0)))
    return np.asarray(1.0 - (top[:, 1] - top[:, 0]))


def entropy_scores(probabilities: Any) -> FloatArray:
    """Entropy in nats of class probabilities.

    Examples
    --------
    >>> entropy_scores([[0.5, 0.5], [1.0, 0.0]]).round(3).tolist()
    [0.693, 0.0]
    """
    return np.asarray(entr(_probabilities(probabilities, 2)).sum(1))


def mutual_information_scores(probabilities: Any) -> FloatArray:
    """What the label would tell about the model (BALD), from class probabilities of several draws of it.

    Parameters
    ----------
    probabilities : array-like of shape (n_draws, n_rows, n_classes)

    Returns
    -------
    ndarray of shape (n_rows,)
        Entropy of the mean minus mean of the entropies, in nats; never negative.

    Examples
    --------
    Draws that agree have nothing to learn, draws that contradict each other have.

    >>> mutual_information_scores([[[0.5, 0.5], [1.0, 0.0]], [[0.5, 0.5], [0.0, 1.0]]]).round(3).tolist()
    [0.0, 0.693]
    """
    p = _probabilities(probabilities, 3)
    return np.maximum(entr(p.mean(0)).sum(1) - entr(p).sum(2).mean(0), 0.0)


def vote_scores(probabilities: Any) -> FloatArray:
    """Variation ratio of a committee: one minus the share of votes for the winner.

    Parameters
    ----------
    probabilities : array-like of shape (n_members, n_rows, n_classes)
        Each member votes for its most probable class.

    Examples
    --------
    >>> vote_scores([[[0.9, 0.1]], [[0.6, 0.4]], [[0.2, 0.8]]]).round(3).tolist()
    [0.333]
    """
    p = _probabilities(probabilities, 3)
    winners = p.argmax(2)
    counts = np.stack([(winners == c).sum(0) for c in range(p.shape[2])], 1)
    return np.asarray(1.0 - counts.max(1) / len(p))


def checked_moments(mean: Any, variance: Any) -> tuple[FloatArray, FloatArray]:
    """Means and variances as finite matrices of one shape, variances positive."""
    mean, variance = _matrix("mean", mean), _matrix("variance", variance)
    if mean.shape != variance.shape:
        raise ValueError(f"mean has shape {mean.shape} and variance {variance.shape}; they must be the same")
    if not (variance > 0).all():
        raise ValueError("variance must be positive; predict_latent gives standard deviations: square them")
    return mean, variance


def _matrix(name: str, values: Any) -> FloatArray:
    a = np.asarray(values, dtype=np.float64)
    if a.ndim != 2 or not a.shape[1]:
        raise ValueError(f"{name} has shape {a.shape}; give one row per row of data, one column per class")
    if not np.isfinite(a).all():
        raise ValueError(f"{name} has values that are not finite")
    return a


def _probabilities(values: Any, ndim: int) -> FloatArray:
    p = np.asarray(values, dtype=np.float64)
    if p.ndim != ndim or 0 in (p.shape[0] if ndim == 3 else 1, p.shape[-1]):
        wanted = "(n_rows, n_classes)" if ndim == 2 else "(n_draws, n_rows, n_classes)"
        raise ValueError(f"probabilities have shape {p.shape}, not {wanted}")
    # NaN fails the comparison as well.
    if not ((p >= 0).all() and (np.abs(p.sum(-1) - 1.0) <= 1e-6).all()):
        raise ValueError("probabilities must be non-negative and sum to one over the classes")
    return p
