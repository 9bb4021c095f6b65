"""The few most probable classes of each row, without the variances of all classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm import _prediction
from bayesvm._core import gaussian
from bayesvm._core.top_k import (
    N_BOUNDS,
    Candidates,
    candidate_probabilities,
    candidates,
    largest_growth,
    pair_variances,
)
from bayesvm._model import LoadedModel

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int64]

# Candidates of the first attempt; each further one has as many times more, unless so much was
# left out that all classes will be needed, or these are too many for all classes: a variance of
# its own costs a row about as much as eight where all classes of many rows are one product.
_FEWEST_CANDIDATES = 64
_MORE = 4
_HOPELESS = 0.05
_CLASSES_PER_CANDIDATE = 8
# Rows whose candidates' variances are computed together, class by class.
_CHUNK_ROWS = 4096
_BLOCK_NUMBERS = 4_000_000
# Largest deviations are rounded up to so many steps per factor of two, so
# that rows can share what depends on them and no row depends on the others.
_LEVELS = 16
# More than rounding can add to a bound.
_ROUNDING = 1e-6
# Probabilities closer than this, twice the error of an integral, are ranked by computing all classes.
_TIE = 2e-4


class TopK(NamedTuple):
    """The most probable classes of each row.

    Attributes
    ----------
    classes : ndarray of shape (n_rows, k)
        Labels, the most probable first.
    probabilities : ndarray of shape (n_rows, k)
        Those of ``predict_proba`` lie between this less ``left_out`` and this, to
        the 1e-4 to which integrals are computed.
    left_out : ndarray of shape (n_rows,)
        Upper bound on the probability of all classes together that were
        not computed.
    """

    classes: npt.NDArray[Any]
    probabilities: FloatArray
    left_out: FloatArray


class _Best(NamedTuple):
    """Class indices, probabilities (n, k) and what is left out (n,)."""

    best: IntArray
    proba: FloatArray
    left_out: FloatArray


def top_k(model: LoadedModel, X: FloatArray, k: int, max_left_out: float) -> _Best:
    """The k most probable classes, with candidates added until at most ``max_left_out`` is left out."""
    # Candidates always leave out some probability.
    attempts = _has_bound(model) and max_left_out > 0.0
    return _best(model, X, k, lambda p, left: left <= max_left_out, attempts)


def largest_probability(model: LoadedModel, X: FloatArray) -> FloatArray:
    """That of the most probable class of each row, shape (N,)."""
    return np.concatenate([p.max(1) for _, p in _of_all_classes(model, X)])


def most_probable(model: LoadedModel, X: FloatArray) -> IntArray:
    """The most probable class of each row, shape (N,): the argmax of all class probabilities."""

    def decided(p: FloatArray, left: FloatArray) -> npt.NDArray[np.bool_]:
        """Whether neither the second nor a class left out can have more than the first."""
        return np.asarray(p[:, 0] - left > np.maximum(p[:, 1], left) + _TIE)

    if not _has_bound(model):
        return np.concatenate([p.argmax(1) for _, p in _of_all_classes(model, X)])
    return _best(model, X, 2, decided).best[:, 0]


def _best(
    model: LoadedModel,
    X: FloatArray,
    k: int,
    enough: Callable[[FloatArray, FloatArray], npt.NDArray[np.bool_]],
    attempts: bool = True,
) -> _Best:
    """The k most probable classes, with more candidates until probabilities and what is left out suffice."""
    N, C = X.shape[0], model.model.n_classes
    out = _Best(np.empty((N, k), np.int64), np.empty((N, k)), np.empty(N))
    pending, everything = np.arange(N), np.arange(0)
    n_candidates = max(_FEWEST_CANDIDATES, 2 * k)
    with torch.no_grad():
        while attempts and len(pending) and _CLASSES_PER_CANDIDATE * n_candidates <= C:
            for rows in np.array_split(pending, -(-len(pending) // _CHUNK_ROWS)):
                found = _among_candidates(model, X[rows], k, n_candidates)
                for into, values in zip(out, found, strict=True):
                    into[rows] = values
            pending = pending[~enough(out.proba[pending], out.left_out[pending])]
            hopeless = out.left_out[pending] > _HOPELESS
            everything, pending = np.append(everything, pending[hopeless]), pending[~hopeless]
            n_candidates *= _MORE
    everything = np.append(everything, pending)
    for part, p in _of_all_classes(model, X[everything]):
        rows = everything[part]
        out.best[rows] = np.argsort(-p, axis=1, kind="stable")[:, :k]
        out.proba[rows] = np.take_along_axis(p, out.best[rows], 1)
        out.left_out[rows] = 0.0
    return out


def _of_all_classes(model: LoadedModel, X: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
    """Probabilities of all classes, for consecutive blocks of rows that fit into memory."""
    size = max(1, _BLOCK_NUMBERS // model.model.n_classes)
    for start in range(0, X.shape[0], size):
        rows = slice(start, start + size)
        yield rows, _prediction.proba(model, X[rows])


def _has_bound(model: LoadedModel) -> bool:
    """Whether class probabilities are the softmax of independent Gaussian latents of this model's q."""
    return (
        model.draws is None
        and model.local is None
        and model.model.likelihood is None
        and not model.model.pooled
        and len(model.model.calibration) == 1
    )


def _among_candidates(model: LoadedModel, X: FloatArray, k: int, n_candidates: int) -> _Best:
    """The k most probable of the candidates of each row, and what all others have at most (eq. 6.12)."""
    A, residual = model.features(model.rows(X))
    T, spread = model.model.calibration[0].temperature, model.model.calibration[0].spread
    root, factor = (torch.as_tensor(a).to(A) for a in model.model.envelope)
    mean_variance = (A @ root).square().sum(1) + residual
    deviation = T * (spread * (1.0 + _ROUNDING) * mean_variance).sqrt()
    chosen = _candidates(model, A, factor, deviation, n_candidates)
    V = pair_variances(model.q, A, chosen.classes) + residual[:, None]
    s = T * (spread * V.clamp_min(torch.finfo(V.dtype).tiny ** 0.5)).sqrt()
    p, left_out = candidate_probabilities(chosen, s)
    p, order = p.sort(dim=1, descending=True, stable=True)
    index = chosen.classes.gather(1, order[:, :k])
    return _Best(index.cpu().numpy(), p[:, :k].double().cpu().numpy(), left_out.double().cpu().numpy())


def _candidates(
    model: LoadedModel, A: Tensor, factor: Tensor, deviation: Tensor, n_candidates: int
) -> Candidates:
    """The candidates of rows with largest deviations of their own."""
    n = A.shape[0]
    calibration = model.model.calibration[0]
    classes = torch.empty(n, n_candidates, dtype=torch.int64, device=A.device)
    mean, rest = A.new_empty(n, n_candidates), A.new_empty(n, N_BOUNDS)
    level = torch.ceil(_LEVELS * deviation.double().log2())
    size = max(1, _BLOCK_NUMBERS // model.model.n_classes)
    for value in torch.unique(level).tolist():
        growth = largest_growth(factor, 2.0 ** (value / _LEVELS))
        for part in torch.nonzero(level == value)[:, 0].split(size):
            u = calibration.mean(gaussian.mean(model.q, A[part])).mul_(calibration.temperature)
            classes[part], mean[part], rest[part] = candidates(u, growth, n_candidates)
    return Candidates(classes, mean, rest)
