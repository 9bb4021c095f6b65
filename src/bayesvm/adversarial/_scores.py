"""How suspicious an image is: scores of what a model says about it, the larger the more suspicious."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bayesvm.adversarial._model import (
    ImageModel,
    Rows,
    in_double,
    log_odds_against,
    log_probabilities,
    member_log_probabilities,
)

# --- Coarser copies of an image: attacks hide in details that the class does not need.


_BATCH = 1000


def fewer_levels(images: Tensor, bits: int) -> Tensor:
    """Pixels rounded to 2^bits grey levels.

    The gradient is that of the images themselves (straight through): an
    attacker who knows of the rounding does not stop at its steps.
    """
    top = 2.0**bits - 1.0
    return images + ((images * top).round() / top - images).detach()


def smoothed(images: Tensor) -> Tensor:
    """Mean of every pixel and its eight neighbours with weights 1, 2, 1 along rows and columns."""
    w = images.new_tensor([0.25, 0.5, 0.25])
    channels = images.shape[1]
    kernel = (w[:, None] * w).expand(channels, 1, 3, 3)
    around = torch.nn.functional.pad(images, (1, 1, 1, 1), mode="reflect")
    return torch.nn.functional.conv2d(around, kernel, groups=channels)


def _response(rows: Rows, squeeze: Callable[[Tensor], Tensor]) -> Tensor | None:
    """Rise of the log odds against the favourite class of the image, when it is squeezed."""
    if rows.images is None or rows.model is None:
        return None
    parts = [rows.model.rows(squeeze(batch)) for batch in rows.images.split(_BATCH)]
    before, after = (log_probabilities(r.output).double() for r in (rows, Rows.joined(parts)))
    return log_odds_against(after, rows.favourite) - log_odds_against(before, rows.favourite)


# By name, as ``SCORES``; none of them is large for all attacks: where the image is still in its own
# class the odds against it fall. They are for detectors that use both tails.
SQUEEZING: dict[str, Callable[[Rows], Tensor | None]] = {
    "one_bit": partial(_response, squeeze=partial(fewer_levels, bits=1)),
    "three_bits": partial(_response, squeeze=partial(fewer_levels, bits=3)),
    "smoothing": partial(_response, squeeze=smoothed),
}

# Numbers that a score may have in memory at once.
_BLOCK_NUMBERS = 2**25
# Nodes of their quadratures.
_NODES = 128


def log_variation_ratio(rows: Rows) -> Tensor:
    """Logarithm of the variation ratio, ordered where the ratio itself is zero (eq. 6.3)."""
    found: Tensor = rows.output.log_variation_ratio()
    return found


def variation_ratio(rows: Rows) -> Tensor:
    """The variation ratio (eq. 6.2), from its logarithm: zero below exp(-745) only."""
    return log_variation_ratio(rows).exp()


def entropy(rows: Rows) -> Tensor:
    """Entropy of the class probabilities in nats (eq. 6.6).

    The term of the favourite comes from the sum of the others: the
    logarithm of a probability that rounds to one would be zero.
    """
    log_p = _log_mean(*member_log_probabilities(rows.output))
    best = log_p.argmax(1, keepdim=True)
    others = log_p.scatter(1, best, -torch.inf).exp()
    rest = others.sum(1).clamp_max(1.0 - 1e-16)
    return torch.special.entr(others).sum(1) - (1.0 - rest) * torch.log1p(-rest)


def mutual_information(rows: Rows) -> Tensor | None:
    r"""Mean divergence of the averaged distributions from their mean, in nats (eq. 6.6).

    .. math:: \sum_s w_s \sum_j p_{sj} \log(p_{sj} / \bar p_j) - p_{sj} + \bar p_j

    Every term is positive, so nothing cancels where a row is certain, as it
    would in a difference of entropies. None where one distribution is averaged.
    """
    members, w = member_log_probabilities(rows.output)
    if members.shape[1] == 1:
        return None
    mean = _log_mean(members, w)[:, None]
    r = members - mean
    terms = mean.exp() * (r * r.exp() - torch.expm1(r))
    return torch.linalg.vecdot(terms.sum(2), w[None].to(terms)).clamp_min(0.0)


def _log_mean(members: Tensor, w: Tensor) -> Tensor:
    """Logarithms of the mean probabilities, (N, C)."""
    return torch.logsumexp(members + w.log()[None, :, None], 1)


def standardised_margin(rows: Rows) -> Tensor:
    """Minus the lead of the favourite, in standard deviations; of softmax layers, in log probabilities."""
    found: Tensor = rows.output.margin()
    return -found


def latent_variance(rows: Rows) -> Tensor | None:
    """Mean variance of the classes' latent functions (eq. 1.4); None without latent functions."""
    variance = getattr(rows.output, "variance", None)
    return None if variance is None else variance.mean(1)


def inducing_distance(rows: Rows) -> Tensor | None:
    """Distance to the nearest inducing point in length scales, where the head has them."""
    if rows.features is None or not hasattr(rows.head, "points"):
        return None
    head, X = rows.head, rows.features
    if head.normalise:
        X = torch.nn.functional.layer_norm(X, (head.in_features,))
    length = head.log_length_scale.detach().to(X.dtype).exp()
    # The exact differences: the short way by inner products loses the digits of near points.
    apart = torch.cdist(X, head.points.detach().to(X.dtype), compute_mode="donot_use_mm_for_euclid_dist")
    return apart.amin(1) / length


def step_response(rows: Rows) -> Tensor | None:
    """Rise of the favourite's log odds after a small step towards it; None without images."""
    if rows.stepped is None:
        return None
    before, after = (log_probabilities(part.output) for part in (rows, rows.stepped))
    return log_odds_against(before, rows.favourite) - log_odds_against(after, rows.favourite)


def feature_shift(rows: Rows) -> Tensor | None:
    """How far that step moves the network's features, relative to their length; None without a head."""
    if rows.features is None or rows.stepped is None or rows.stepped.features is None:
        return None
    moved = torch.linalg.vector_norm(rows.stepped.features.to(rows.features.dtype) - rows.features, dim=1)
    length = torch.linalg.vector_norm(rows.features, dim=1)
    return moved / length.clamp_min(torch.finfo(length.dtype).tiny)


SCORES: dict[str, Callable[[Rows], Tensor | None]] = {
    "variation_ratio": variation_ratio,
    "log_variation_ratio": log_variation_ratio,
    "entropy": entropy,
    "mutual_information": mutual_information,
    "standardised_margin": standardised_margin,
    "latent_variance": latent_variance,
    "inducing_distance": inducing_distance,
    "step_response": step_response,
    "feature_shift": feature_shift,
}


@torch.no_grad()
def score_rows(rows: Rows, names: Iterable[str] | None = None) -> dict[str, Tensor]:
    """Scores of images, by name, in double precision; the larger, the more suspicious.

    Parameters
    ----------
    rows : Rows
    names : iterable of str, optional
        Keys of ``SCORES``. All, if not given.

    Returns
    -------
    dict of str to Tensor of shape (N,)
        Without those that the model does not have: a softmax layer has no
        latent variance, one distribution no mutual information.

    Examples
    --------
    >>> import torch
    >>> from bayesvm.adversarial._model import Rows
    >>> from bayesvm.nn import HeadOutput
    >>> mean = torch.tensor([[9.0, 0.0], [1.0, 0.0]])
    >>> output = HeadOutput(mean, torch.full((2, 2), 0.1), torch.tensor(2.0))
    >>> found = score_rows(Rows(output), ["log_variation_ratio", "inducing_distance"])
    >>> list(found), bool(found["log_variation_ratio"][0] < found["log_variation_ratio"][1])
    (['log_variation_ratio'], True)
    """
    chosen = list(SCORES) if names is None else list(names)
    known = {**SCORES, **SQUEEZING}
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise ValueError(f"unknown scores {unknown}; there are {list(known)}")
    parts: dict[str, list[Tensor]] = {name: [] for name in chosen}
    for block in _blocks(rows):
        exact = replace(block, output=in_double(block.output), features=_double(block.features))
        for name in chosen:
            value = known[name](exact)
            if value is not None:
                parts[name].append(value)
    return {name: torch.cat(values) for name, values in parts.items() if values}


@torch.no_grad()
def score_images(
    model: ImageModel, images: Tensor, names: Iterable[str] | None = None, batch_size: int = 1000
) -> dict[str, Tensor]:
    """Scores of images with pixels in [0, 1], as ``score_rows`` gives them.

    Parameters
    ----------
    model : ImageModel
    images : Tensor of shape (N, channels, height, width)
        Moved to the model's device batch by batch.
    names : iterable of str, optional
    batch_size : int
    """
    chosen = None if names is None else list(names)
    parts = [score_rows(model.rows(batch.to(model.device)), chosen) for batch in images.split(batch_size)]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _double(features: Tensor | None) -> Tensor | None:
    return None if features is None else features.double()


def _blocks(rows: Rows) -> list[Rows]:
    """Rows a block at a time, so that what scores need in between stays small."""
    n_rows, n_classes = _shape(rows.output)
    size = max(1, _BLOCK_NUMBERS // (_NODES * n_classes))
    return [rows] if n_rows <= size else [rows[i : i + size] for i in range(0, n_rows, size)]


def _shape(output: Any) -> tuple[int, int]:
    """Numbers of rows and of classes."""
    values = [output] if isinstance(output, Tensor) else [getattr(output, f.name) for f in fields(output)]
    first = next(value for value in values if value.ndim)
    return first.shape[0], first.shape[-1]
