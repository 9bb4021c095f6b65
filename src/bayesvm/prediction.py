"""Predictions of a fitted model, block by block so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm.core import gaussian, linalg
from bayesvm.core.argmax import argmax_probability, log_variation_ratio
from bayesvm.core.predictive import expected_softmax, in_order_of, predictive_moments
from bayesvm.latents import common_part, latent_moments, latents_of_classes
from bayesvm.model import LoadedModel
from bayesvm.prediction_from_draws import drawn_entropies, drawn_log_ratio, drawn_proba, drawn_ratio

__all__ = [
    "Uncertainty",
    "latent_blocks",
    "latents_of_classes",
    "map_rows",
    "sample_latents",
    "sample_probabilities",
]

FloatArray = npt.NDArray[np.floating]
_BLOCK_NUMBERS = 4_000_000
NODES = 128
# From so many rows on inverting the factors of q pays: products are faster than solves.
_ROWS_FOR_ROOTS = 2000
_FEWEST_AT_ONCE = 64


class Uncertainty(NamedTuple):
    """Predictive entropy in nats, split into its two causes (eq. 6.6).

    Attributes
    ----------
    total : ndarray of shape (N,)
        Entropy of the class probabilities.
    aleatoric : ndarray of shape (N,)
        What would remain if the latent functions were known.
    epistemic : ndarray of shape (N,)
        What more data could remove: the mutual information.
    """

    total: FloatArray
    aleatoric: FloatArray
    epistemic: FloatArray


def latent_blocks(
    model: LoadedModel, X: FloatArray, numbers_per_row: int
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Means and variances per class, for consecutive blocks of rows.

    With thousands of classes a block that fits into memory has few rows, and
    a pass over all factors for each of them would take longest: several
    blocks share one.
    """
    J, P = model.q.m.shape
    n_draws = 0 if model.draws is None else model.draws.shape[0]
    size = max(1, _BLOCK_NUMBERS // max(numbers_per_row, J * P, n_draws))
    at_once = max(size, min(_FEWEST_AT_ONCE, _BLOCK_NUMBERS // max(J + P, n_draws)))
    is_worth_roots = X.shape[0] >= _ROWS_FOR_ROOTS and size == at_once and model.draws is None
    roots = gaussian.roots(model.q) if is_worth_roots else None
    for first in range(0, X.shape[0], at_once):
        F, s2 = latent_moments(model, model.rows(X[first : first + at_once]), roots)
        for start in range(0, F.shape[0], size):
            rows = slice(start, min(start + size, F.shape[0]))
            yield slice(first + rows.start, first + rows.stop), F[rows], s2[rows]


def map_rows(
    model: LoadedModel,
    X: FloatArray,
    function: Callable[[Tensor, Tensor], tuple[Tensor, ...]],
    numbers_per_row: int,
) -> tuple[FloatArray, ...]:
    """Apply a function of the latent moments to all rows and join the results."""
    with torch.no_grad():
        parts = [
            tuple(t.to(torch.float64).cpu().numpy() for t in function(F, s2))
            for _, F, s2 in latent_blocks(model, X, numbers_per_row)
        ]
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def proba(model: LoadedModel, X: FloatArray) -> FloatArray:
    """Class probabilities (eq. 6.4), or the likelihood's own."""
    if model.draws is not None:
        return drawn_proba(model, X)
    likelihood = model.model.likelihood

    def softmax(F: Tensor, s2: Tensor) -> tuple[Tensor, ...]:
        if likelihood is not None:
            return (likelihood.probabilities(F, s2).proba,)
        p = expected_softmax(*model.calibrated(F, s2), NODES)
        return (in_order_of(F, p) if model.model.pooled else p,)

    return map_rows(model, X, softmax, 2 * NODES * model.model.n_classes)[0]


def uncertainty(model: LoadedModel, X: FloatArray) -> Uncertainty:
    """Entropies of the class probabilities (eq. 6.6)."""
    if model.draws is not None:
        return Uncertainty(*drawn_entropies(model, X))
    likelihood = model.model.likelihood

    def entropies(F: Tensor, s2: Tensor) -> tuple[Tensor, ...]:
        if likelihood is None:
            _, total, aleatoric = predictive_moments(*model.calibrated(F, s2), NODES)
        else:
            proba, aleatoric = likelihood.probabilities(F, s2)
            total = torch.special.entr(proba).sum(1)
            aleatoric = torch.minimum(aleatoric, total)
        return total, aleatoric, total - aleatoric

    return Uncertainty(*map_rows(model, X, entropies, 4 * NODES * model.model.n_classes))


def variation_ratio(model: LoadedModel, X: FloatArray) -> FloatArray:
    """1 - max_c P(argmax f = c), by quadrature (eq. 6.2)."""
    if model.draws is not None:
        return drawn_ratio(model, X)

    def ratio(F: Tensor, s2: Tensor) -> tuple[Tensor, ...]:  # single precision has no tails
        return (1.0 - argmax_probability(F.double(), s2.double()).amax(1).clamp_max(1.0),)

    return map_rows(model, X, ratio, 256 * model.model.n_classes)[0]


def log_ratio(model: LoadedModel, X: FloatArray) -> FloatArray:
    """Logarithm of the variation ratio, accurate in the tail (eq. 6.3)."""
    if model.draws is not None:
        return drawn_log_ratio(model, X)

    def ratio(F: Tensor, s2: Tensor) -> tuple[Tensor, ...]:
        return (log_variation_ratio(F.double(), s2.double()),)

    return map_rows(model, X, ratio, 400 * model.model.n_classes)[0]


def sample_latents(
    model: LoadedModel, X: FloatArray, n_samples: int, generator: torch.Generator
) -> FloatArray:
    """Draws of the latent functions, joint over rows up to the residual, shape (S, N, C).

    The part of the functions that the inducing points explain is one draw
    for all rows; the residual of each row is independent, as in the model.
    """
    q = model.q
    J, P = q.m.shape
    N, C = X.shape[0], model.model.n_classes

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(q.m)

    # A second function, independent and as uncertain, stands for the sum of
    # two classes whose difference is the first.
    copies = 2 if J == 1 else 1
    if model.draws is None:
        v = linalg.solve_lower_transposed(q.R.repeat(copies, 1, 1), normal(J * copies, P, n_samples))
        mean = q.m
    else:
        mean = model.draws.mean(0)
        chosen = torch.randint(model.draws.shape[0], (copies, n_samples), generator=generator)
        v = torch.cat([(model.draws[i] - mean).permute(1, 2, 0) for i in chosen.to(mean.device)])
        if model.model.centred:
            v = v + common_part(model.draws - mean, n_samples, generator)
    if copies == 1:
        v = v + mean[:, :, None]
    else:
        v[0] += mean[0, :, None]
    out = np.empty((n_samples, N, C))
    size = max(1, _BLOCK_NUMBERS // (n_samples * max(C, J * copies) + P))
    with torch.no_grad():
        for start in range(0, N, size):
            rows = slice(start, min(start + size, N))
            standardised = model.rows(X[rows])
            A, residual = model.features(standardised)
            f = torch.einsum("np,jps->snj", A, v)
            f += residual.sqrt()[:, None] * normal(n_samples, A.shape[0], J * copies)
            if model.local is not None:
                f[..., :J] += model.local.mean(standardised)
            if copies == 2:
                g, total = f[..., 0], f[..., 1]
                f = torch.stack([0.5 * (total - g), 0.5 * (total + g)], 2)
            out[:, rows] = f.cpu().numpy()
    return out


def sample_probabilities(
    model: LoadedModel, X: FloatArray, n_samples: int, generator: torch.Generator
) -> FloatArray:
    """Draws of the class probabilities, shape (S, N, C)."""
    f = torch.as_tensor(sample_latents(model, X, n_samples, generator))
    mean = torch.as_tensor(map_rows(model, X, lambda F, _: (F,), 1)[0])
    out = np.empty(f.shape)
    with torch.no_grad():
        size = max(1, _BLOCK_NUMBERS // (n_samples * f.shape[2]))
        for start in range(0, X.shape[0], size):
            rows = slice(start, start + size)
            out[:, rows] = model.probabilities_at(f[:, rows], mean[rows]).cpu().numpy()
    return out
