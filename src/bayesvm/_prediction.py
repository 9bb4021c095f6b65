"""Predictions of a fitted model, block by block so that memory stays bounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm._core import gaussian, linalg
from bayesvm._core.argmax import argmax_probability, log_variation_ratio
from bayesvm._core.likelihoods.base import dealt, dealt_latents
from bayesvm._core.predictive import expected_softmax, in_order_of, normal_nodes, predictive_moments
from bayesvm._model import LoadedModel

# --- Latent moments of rows under a model, and how they are dealt to classes.


def spread_of_draws(variance: Tensor, centred: bool) -> Tensor:
    """Variances of functions before their draws were centred, if they were (eq. 8.38).

    Centring takes the share 1/J of the variance of J independent functions
    away. A part common to all functions brings it back and leaves their
    differences as they are; ``common_part`` draws it.
    """
    J = variance.shape[-1]
    return variance + variance.mean(-1, keepdim=True) / (J - 1) if centred and J > 1 else variance


def common_part(deviations: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
    """Draws (P, n_samples) of what all J functions of centred draws have in common, mean zero.

    Deviations (S, J, P) of one function or another, taken at random, have the
    mean covariance of the functions; over J - 1 it is the one in ``spread_of_draws``.
    """
    S, J, _ = deviations.shape
    draw = torch.randint(S, (n_samples,), generator=generator)
    function = torch.randint(J, (n_samples,), generator=generator)
    return deviations[draw.to(deviations.device), function.to(deviations.device)].mT / (J - 1) ** 0.5


def latent_moments(
    model: LoadedModel, rows: Tensor, roots: gaussian.Roots | None = None
) -> tuple[Tensor, Tensor]:
    """Means and variances per class, shape (n, C), of standardised rows.

    From draws where there are any, else from q, with the local part if there is one.
    ``roots`` are those of q, for calls with many rows.
    """
    A, residual = model.features(rows)
    if model.draws is None:
        F = gaussian.mean(model.q, A)
        V = gaussian.variance(model.q, A) if roots is None else gaussian.root_variance(roots, A)
    else:
        mean = model.draws.mean(0)
        F = A @ mean.mT
        V = torch.stack([(A @ d.mT).square().mean(1) for d in (model.draws - mean).unbind(1)], 1)
        V = spread_of_draws(V, model.model.centred)
    s2 = V + residual[:, None]
    if model.local is not None:
        F = F + model.local.mean(rows)
    return dealt(F, s2.clamp_min(torch.finfo(s2.dtype).tiny ** 0.5))


# --- Predictions as averages over draws from the posterior (eq. 8.38).


FloatArray = npt.NDArray[np.floating]
_BLOCK_NUMBERS = 4_000_000
# A ratio that fewer draws than this bear witness to is read off Gaussian tails.
_FEWEST_WITNESSES = 10
_SMALLEST_SPREAD = 1e-10


def drawn_proba(model: LoadedModel, X: FloatArray) -> FloatArray:
    """Class probabilities, shape (N, C)."""
    return _map_draws(model, X, lambda f: (_probabilities(model, f).mean(0),))[0]


def drawn_entropies(model: LoadedModel, X: FloatArray) -> tuple[FloatArray, ...]:
    """Total, aleatoric and epistemic entropy of each row."""

    def entropies(f: Tensor) -> tuple[Tensor, ...]:
        p = _probabilities(model, f)
        total = torch.special.entr(p.mean(0)).sum(1)
        aleatoric = torch.minimum(torch.special.entr(p).sum(2).mean(0), total)
        return total, aleatoric, total - aleatoric

    return _map_draws(model, X, entropies)


def drawn_ratio(model: LoadedModel, X: FloatArray) -> FloatArray:
    """Share of the draws that disagree with the majority about the largest latent."""
    return _map_draws(model, X, lambda f: (_disagreement(f),))[0]


def drawn_log_ratio(model: LoadedModel, X: FloatArray) -> FloatArray:
    """Its logarithm; where hardly a draw disagrees, that of Gaussian differences with the draws' moments.

    With VR' the sum over rivals of the probability that such a difference
    changes its sign, the tail is 1 / (S / 10 + 1 / VR'): finite, strictly
    ordered, and below what ten of S draws would say. A difference that does
    not vary at all, as with a single draw, says no more than that none of S
    draws disagrees: 1 / (S + 1).
    """

    def ratio(f: Tensor) -> tuple[Tensor, ...]:
        S = f.shape[0]
        own = f.mean(0).argmax(1)[None, :, None].expand(S, -1, 1)
        lead = f.gather(2, own) - f
        spread = lead.std(0, correction=0)
        varies = spread > _SMALLEST_SPREAD
        gone = torch.special.log_ndtr(-lead.mean(0) / torch.where(varies, spread, 1.0))
        gone = torch.where(varies, gone, -math.log(S + 1.0)).scatter(1, own[0], -torch.inf)
        least = _FEWEST_WITNESSES / S
        odds = torch.logsumexp(gone, 1) - math.log(least)
        tail = math.log(least) - torch.nn.functional.softplus(-odds)
        tail = tail.clamp_max(math.log1p(-1.0 / f.shape[2]))  # no class has less than its share
        seen = _disagreement(f)
        return (torch.where(seen >= least, seen.clamp_min(least).log(), tail),)

    return _map_draws(model, X, ratio)[0]


def _map_draws(
    model: LoadedModel, X: FloatArray, function: Callable[[Tensor], tuple[Tensor, ...]]
) -> tuple[FloatArray, ...]:
    """A function of the draws of the latents (S, n, C), block by block.

    Every draw has one fixed node for the residual, the same for every row,
    so that results do not depend on batches.
    """
    assert model.draws is not None
    S, J, _ = model.draws.shape
    nodes = normal_nodes(S, J).to(model.draws)
    size = max(1, _BLOCK_NUMBERS // (S * model.model.n_classes))
    parts = []
    with torch.no_grad():
        for start in range(0, X.shape[0], size):
            features = model.features(model.rows(X[start : start + size]))
            f = (model.draws @ features.A.mT).mT + features.residual.sqrt()[:, None] * nodes[:, None, :]
            results = function(dealt_latents(f.to(torch.float64)))
            parts.append(tuple(t.to(torch.float64).cpu().numpy() for t in results))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _probabilities(model: LoadedModel, f: Tensor) -> Tensor:
    """Class probabilities at every draw, (S, n, C): the likelihood's own or the calibrated softmax."""
    return model.probabilities_at(f, f.mean(0))


def _disagreement(f: Tensor) -> Tensor:
    winner = f.argmax(2)
    votes = torch.stack([(winner == c).sum(0) for c in range(f.shape[2])], 1)
    return 1.0 - votes.amax(1).to(f.dtype) / f.shape[0]


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
