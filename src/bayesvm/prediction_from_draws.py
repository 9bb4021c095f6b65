"""Predictions as averages over draws from the posterior (eq. 8.38)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm.core.predictive import normal_nodes
from bayesvm.latents import dealt_latents
from bayesvm.model import LoadedModel

__all__ = ["drawn_entropies", "drawn_log_ratio", "drawn_proba", "drawn_ratio"]

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
