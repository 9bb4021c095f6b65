"""Predictions of a fitted model: class probabilities, entropies, variation ratio, samples.

Every prediction is a function of latents. Where the model is a Gaussian q
these are means and variances per class; where it is a set of draws, the
prediction is an average over them (eq. 8.38); a committee has moments of every
member, and predictions are mixtures (section 11). Rows come block by block, so that
memory stays bounded; what a row is integrated over depends on that row alone,
so results do not depend on blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm._core import gaussian, linalg, predictive
from bayesvm._core import variation_ratio as ratios
from bayesvm._core.likelihoods.base import per_class_latents, per_member_moments
from bayesvm._model import LoadedModel

FloatArray = npt.NDArray[np.floating]

_BLOCK_NUMBERS = 4_000_000
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


class Latents(NamedTuple):
    """Latent moments of rows under one member of a committee.

    Attributes
    ----------
    member : int
    weight : float
        Of the member in the mixture (eq. 11.2).
    F, s2 : Tensor of shape (n, C)
    """

    member: int
    weight: float
    F: Tensor
    s2: Tensor


def proba(model: LoadedModel, X: FloatArray) -> FloatArray:
    """Class probabilities, shape (N, C) (eqs. 6.4, 11.2), or the likelihood's own."""
    likelihood = model.model.likelihood

    def of_member(at: Latents) -> Tensor:
        if likelihood is not None:
            return likelihood.probabilities(at.F, at.s2).proba
        return predictive.expected_softmax(*model.calibrated(at.F, at.s2, at.member))

    def of_moments(latents: list[Latents]) -> Tensor:
        return _mixture(of_member, latents)

    def of_draws(f: Tensor) -> Tensor:
        return model.probabilities_at(f, f.mean(0)).mean(0)

    return _one(model, X, of_moments, of_draws, 256)


def _mixture(of_member: Callable[[Latents], Tensor], latents: list[Latents]) -> Tensor:
    """The weighted mean of what each member says."""
    if len(latents) == 1:
        return of_member(latents[0])
    return torch.stack([at.weight * of_member(at) for at in latents]).sum(0)


def uncertainty(model: LoadedModel, X: FloatArray) -> Uncertainty:
    """Entropies of the class probabilities (eqs. 6.6, 11.4)."""
    likelihood = model.model.likelihood

    def parts(moments: predictive.PredictiveMoments) -> tuple[Tensor, ...]:
        return moments.total, moments.aleatoric, moments.total - moments.aleatoric

    def of_member(at: Latents) -> predictive.PredictiveMoments:
        if likelihood is not None:
            return predictive.entropies(*likelihood.probabilities(at.F, at.s2))
        return predictive.predictive_moments(*model.calibrated(at.F, at.s2, at.member))

    def of_moments(latents: list[Latents]) -> tuple[Tensor, ...]:
        each = [of_member(at) for at in latents]
        if len(each) == 1:
            return parts(each[0])
        proba, aleatoric = (
            torch.stack([at.weight * one[column] for at, one in zip(latents, each, strict=True)]).sum(0)
            for column in (0, 2)
        )
        return parts(predictive.entropies(proba, aleatoric))

    def of_draws(f: Tensor) -> tuple[Tensor, ...]:
        p = model.probabilities_at(f, f.mean(0))
        return parts(predictive.entropies(p.mean(0), torch.special.entr(p).sum(2).mean(0)))

    return Uncertainty(*_map(model, X, of_moments, of_draws, 512))


def variation_ratio(model: LoadedModel, X: FloatArray) -> FloatArray:
    """Probability that another latent function than the favourite is the largest (eqs. 6.2, 11.5)."""

    def of_moments(latents: list[Latents]) -> Tensor:
        return 1.0 - _mixture(_largest, latents).amax(1).clamp_max(1.0)

    return _one(model, X, of_moments, ratios.variation_ratio_of_draws, 256)


def _largest(at: Latents) -> Tensor:
    """P(argmax = c) under a member, (n, C), in double precision: single has no tails."""
    return ratios.argmax_probability(at.F.double(), at.s2.double())


def sampled_variation_ratio(
    model: LoadedModel, X: FloatArray, n_samples: int, generator: torch.Generator
) -> FloatArray:
    """The same from draws of the latents, as in the paper."""
    f = np.empty((n_samples, X.shape[0], model.model.n_classes))
    for member, draws in _shares(model, n_samples, generator):
        f[draws] = sample_latents(model, X, len(draws), generator, member)
    return ratios.variation_ratio_of_draws(torch.as_tensor(f)).numpy()


def log_variation_ratio(model: LoadedModel, X: FloatArray) -> FloatArray:
    """Logarithm of the variation ratio, accurate in the tail (eqs. 6.3, 11.5)."""

    def of_moments(latents: list[Latents]) -> Tensor:
        wins = [_largest(at) for at in latents]
        whole = sum(at.weight * p for at, p in zip(latents, wins, strict=True))
        favourite = torch.as_tensor(whole).argmax(1, keepdim=True)
        logs = [
            ratios.log_not_largest(at.F.double(), at.s2.double(), favourite, p.gather(1, favourite)[:, 0])
            + math.log(at.weight)
            for at, p in zip(latents, wins, strict=True)
        ]
        return torch.logsumexp(torch.stack(logs), 0)

    return _one(model, X, of_moments, ratios.log_variation_ratio_of_draws, 400)


def _shares(
    model: LoadedModel, n_samples: int, generator: torch.Generator
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Which of so many draws are of each member, drawn at random by the weights."""
    if len(model.members) == 1:
        yield model.members[0], np.arange(n_samples)
        return
    weights = torch.tensor([calibration.weight for calibration in model.model.calibration])
    drawn = torch.multinomial(weights, n_samples, replacement=True, generator=generator).numpy()
    for member in model.members:
        if (draws := np.flatnonzero(drawn == member)).size:
            yield member, draws


def sample_latents(
    model: LoadedModel, X: FloatArray, n_samples: int, generator: torch.Generator, member: int = 0
) -> FloatArray:
    """Draws of the latent functions of a member, joint over rows up to the residual, shape (S, N, C).

    The part of the functions that the inducing points explain is one draw
    for all rows; the residual of each row is independent, as in the model.
    """
    q = model.q_of([member])
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
                f[..., :J] += model.local.mean(standardised)[:, model.functions([member])]
            if copies == 2:
                g, total = f[..., 0], f[..., 1]
                f = torch.stack([0.5 * (total - g), 0.5 * (total + g)], 2)
            out[:, rows] = f.cpu().numpy()
    return out


def sample_probabilities(
    model: LoadedModel, X: FloatArray, n_samples: int, generator: torch.Generator
) -> FloatArray:
    """Draws of the class probabilities, shape (S, N, C): first of a member, then of its latents."""
    out = np.empty((n_samples, X.shape[0], model.model.n_classes))
    with torch.no_grad():
        for member, draws in _shares(model, n_samples, generator):
            f = torch.as_tensor(sample_latents(model, X, len(draws), generator, member))
            mean = torch.as_tensor(map_rows(model, X, lambda latents: (latents[0].F,), 1, [member])[0])
            size = max(1, _BLOCK_NUMBERS // (len(draws) * f.shape[2]))
            for start in range(0, X.shape[0], size):
                rows = slice(start, start + size)
                found = model.probabilities_at(f[:, rows], mean[rows], member).cpu().numpy()
                out[draws, rows] = found
    return out


def latent_moments(
    model: LoadedModel, rows: Tensor, members: list[int], q: gaussian.Gaussian | gaussian.Roots
) -> list[Latents]:
    """Means and variances per class, shape (n, C), of standardised rows, under some members.

    From draws where there are any, else from q, which is that of these members, or its
    roots for calls with many rows; with the local part if there is one.
    """
    A, residual = model.features(rows)
    if model.draws is None:
        F = A @ q.m.mT
        V = gaussian.variance(q, A) if isinstance(q, gaussian.Gaussian) else gaussian.root_variance(q, A)
    else:
        mean = model.draws.mean(0)
        F = A @ mean.mT
        V = torch.stack([(A @ d.mT).square().mean(1) for d in (model.draws - mean).unbind(1)], 1)
        V = spread_of_draws(V, model.model.centred)
    s2 = V + residual[:, None]
    if model.local is not None:
        F = F + model.local.mean(rows)[:, model.functions(members)]
    means, variances = per_member_moments(F, s2.clamp_min(torch.finfo(s2.dtype).tiny ** 0.5), len(members))
    weights = [model.model.calibration[i].weight for i in members]
    return [Latents(*each) for each in zip(members, weights, means, variances, strict=True)]


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


def latent_blocks(
    model: LoadedModel, X: FloatArray, numbers_per_row: int, members: list[int] | None = None
) -> Iterator[tuple[slice, list[Latents]]]:
    """Means and variances per class under each member, for consecutive blocks of rows.

    With thousands of classes a block that fits into memory has few rows, and
    a pass over all factors for each of them would take longest: several
    blocks share one. ``members`` are all that have weight, unless given.
    """
    members = model.members if members is None else members
    q: gaussian.Gaussian | gaussian.Roots = model.q_of(members)
    J, P = q.m.shape
    n_draws = 0 if model.draws is None else model.draws.shape[0]
    size = max(1, _BLOCK_NUMBERS // max(len(members) * numbers_per_row, J * P, n_draws))
    at_once = max(size, min(_FEWEST_AT_ONCE, _BLOCK_NUMBERS // max(J + P, n_draws)))
    if X.shape[0] >= _ROWS_FOR_ROOTS and size == at_once and model.draws is None:
        q = gaussian.roots(model.q_of(members))
    for first in range(0, X.shape[0], at_once):
        found = latent_moments(model, model.rows(X[first : first + at_once]), members, q)
        n = found[0].F.shape[0]
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            block = [at._replace(F=at.F[rows], s2=at.s2[rows]) for at in found]
            yield slice(first + rows.start, first + rows.stop), block


def map_rows(
    model: LoadedModel,
    X: FloatArray,
    function: Callable[[list[Latents]], tuple[Tensor, ...]],
    numbers_per_row: int,
    members: list[int] | None = None,
) -> tuple[FloatArray, ...]:
    """Apply a function of the latent moments to all rows and join the results."""
    with torch.no_grad():
        parts = [
            tuple(t.to(torch.float64).cpu().numpy() for t in function(latents))
            for _, latents in latent_blocks(model, X, numbers_per_row, members)
        ]
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _map_draws(
    model: LoadedModel, X: FloatArray, function: Callable[[Tensor], tuple[Tensor, ...]]
) -> tuple[FloatArray, ...]:
    """A function of the draws of the latents (S, n, C), block by block (eq. 8.38).

    Every draw has one fixed node for the residual, the same for every row,
    so that results do not depend on batches.
    """
    assert model.draws is not None
    S, J, _ = model.draws.shape
    nodes = predictive.normal_nodes(S, J).to(model.draws)
    size = max(1, _BLOCK_NUMBERS // (S * model.model.n_classes))
    parts = []
    with torch.no_grad():
        for start in range(0, X.shape[0], size):
            features = model.features(model.rows(X[start : start + size]))
            f = (model.draws @ features.A.mT).mT + features.residual.sqrt()[:, None] * nodes[:, None, :]
            results = function(per_class_latents(f.to(torch.float64)))
            parts.append(tuple(t.to(torch.float64).cpu().numpy() for t in results))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _map(
    model: LoadedModel,
    X: FloatArray,
    of_moments: Callable[[list[Latents]], tuple[Tensor, ...]],
    of_draws: Callable[[Tensor], tuple[Tensor, ...]],
    numbers_per_class: int,
) -> tuple[FloatArray, ...]:
    """Apply the function that suits the model's latents, and join the results."""
    if model.draws is not None:
        return _map_draws(model, X, of_draws)
    return map_rows(model, X, of_moments, numbers_per_class * model.model.n_classes)


def _one(
    model: LoadedModel,
    X: FloatArray,
    of_moments: Callable[[list[Latents]], Tensor],
    of_draws: Callable[[Tensor], Tensor],
    numbers_per_class: int,
) -> FloatArray:
    """The same for functions with a single result."""
    return _map(model, X, lambda at: (of_moments(at),), lambda f: (of_draws(f),), numbers_per_class)[0]
