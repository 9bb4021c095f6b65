"""Attacks on whole test sets where they are: FGSM, PGD, and one that knows the detector.

The first two are those of adversarial-robustness-toolbox, equal to 1e-6.
They exist because a study asks for many strengths of one attack: the sign of
the gradient is the same for all of them, and is computed once here, where the
images are, in batches of any size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm.adversarial._model import ImageModel, Rows, log_odds_against, log_probabilities
from bayesvm.adversarial._scores import SCORES, SQUEEZING
from bayesvm.nn._output import HeadOutput

# --- What pixels alone give away: no model is asked.


# What rounding may add to a pixel that was clipped.
_ROUNDING = 1e-6


def check_pixels(images: Tensor) -> None:
    """Raise ValueError unless these are images with pixels in [0, 1]."""
    if images.ndim != 4 or len(images) == 0:
        raise ValueError(
            "images must have shape (N, channels, height, width), with N at least 1; "
            f"got {tuple(images.shape)}"
        )
    low, high = float(images.min()), float(images.max())
    if not (low >= -_ROUNDING and high <= 1.0 + _ROUNDING):
        raise ValueError(f"pixels must be in [0, 1], got values from {low:g} to {high:g}; divide by 255?")


def roughness(images: Tensor) -> Tensor:
    r"""Lower quartile of the absolute second differences of an image, (N,), in double precision.

    .. math:: |d * d^\top * x| / 6, \quad d = (1, -2, 1)

    of the only channel, or of the differences of neighbouring channels:
    edges are in all colours of a photograph at the same place, what was added
    pixel by pixel is not. Where a photograph is smooth it is nearly zero.

    This sees that something was added, not what for: noise of the same size
    is as rough as an attack or rougher, and a photograph that was resized or
    compressed is another thing again.

    Parameters
    ----------
    images : Tensor of shape (N, channels, height, width)
    """
    if images.ndim != 4 or min(images.shape[2:]) < 3:
        raise ValueError(
            f"images must have shape (N, channels, height, width), at least 3 x 3, got {tuple(images.shape)}"
        )
    x = images.detach().double()
    x = x.diff(dim=1) if x.shape[1] > 1 else x
    second = x.diff(n=2, dim=2).diff(n=2, dim=3).abs() / 6.0
    return torch.quantile(second.flatten(1), 0.25, dim=1)


# --- Scores with gradients, for an attacker who knows the detector.


def _standardised_leads(output: HeadOutput) -> Tensor:
    """Lead of the largest mean over each other class, in standard deviations of the difference."""
    F, s2 = output.mean.double(), output.variance.double()
    best = F.detach().argmax(1, keepdim=True)
    z = (F.gather(1, best) - F) * (s2.gather(1, best) + s2).rsqrt()
    return z.scatter(1, best, torch.inf)


def log_variation_ratio(rows: Rows) -> Tensor:
    r"""Bound on the log variation ratio, :math:`\log \sum_{j \ne c} \Phi(-z_j)`; exact for softmax layers.

    z_j is the standardised lead over class j: of two classes one is larger
    with probability Phi(-z_j), so the sum bounds the ratio and its logarithm
    follows (6.3) far into the tail.
    """
    if not isinstance(rows.output, HeadOutput):
        found: Tensor = rows.output.log_variation_ratio()
        return found
    return torch.logsumexp(torch.special.log_ndtr(-_standardised_leads(rows.output)), 1)


def variation_ratio(rows: Rows) -> Tensor:
    """The same as its logarithm: the gradient of the ratio itself vanishes."""
    return log_variation_ratio(rows)


def standardised_margin(rows: Rows) -> Tensor:
    """The score itself, with gradient: minus the lead over the next largest mean."""
    if not isinstance(rows.output, HeadOutput):
        found: Tensor = -rows.output.margin()
        return found
    best, classes = rows.output.mean.double().topk(2, dim=1)
    s2 = rows.output.variance.double().gather(1, classes).sum(1)
    return (best[:, 1] - best[:, 0]) * s2.rsqrt()


def entropy(rows: Rows) -> Tensor:
    """Entropy of the closed form of the class probabilities (eq. 6.5)."""
    log_p = log_probabilities(rows.output)
    return -(log_p.exp() * log_p).sum(1)


# The others are differentiable as they are.
SURROGATES: dict[str, Callable[[Rows], Tensor | None]] = {
    **SCORES,
    "variation_ratio": variation_ratio,
    "log_variation_ratio": log_variation_ratio,
    "standardised_margin": standardised_margin,
    "entropy": entropy,
}

_BATCH = 1000


def class_numbers(y: npt.ArrayLike) -> Tensor:
    """Numbers of classes, (N,), from numbers or one-hot rows, as the toolbox gives them."""
    labels = np.asarray(y)
    return torch.as_tensor(labels.argmax(1) if labels.ndim == 2 else labels).long()


def gradient_signs(model: ImageModel, images: Tensor, y: Tensor, batch_size: int = _BATCH) -> Tensor:
    """Signs of the gradient of the loss with respect to the pixels, of the shape of the images.

    The loss is the log odds against the true class; see ``log_odds_against``.
    """
    batches = zip(images.split(batch_size), y.split(batch_size), strict=True)
    return torch.cat([_gradient(_loss(model, rows), x).sign() for x, rows in batches])


def step_along(images: Tensor, signs: Tensor, epsilon: float) -> Tensor:
    """Every pixel moved by epsilon, then clipped to [0, 1]."""
    return (images + epsilon * signs).clamp(0.0, 1.0)


def fgsm(model: ImageModel, images: Tensor, y: Tensor, epsilon: float, *, batch_size: int = _BATCH) -> Tensor:
    """One step of length epsilon along the signs of the gradient (Goodfellow et al., 2015).

    For many strengths take ``gradient_signs`` once and ``step_along`` for each.

    Parameters
    ----------
    model : ImageModel
    images : Tensor of shape (N, channels, height, width)
        Pixels in [0, 1], on the model's device.
    y : Tensor of shape (N,)
        True classes.
    epsilon : float
    batch_size : int
    """
    _check(images, y, epsilon)
    return step_along(images, gradient_signs(model, images, y, batch_size), epsilon)


def pgd(
    model: ImageModel,
    images: Tensor,
    y: Tensor,
    epsilon: float,
    *,
    n_steps: int = 20,
    step: float | None = None,
    batch_size: int = _BATCH,
) -> Tensor:
    """Many short steps along the signs of the gradient, never further than epsilon (Madry et al., 2018).

    Parameters
    ----------
    model, images, y, epsilon, batch_size : as for ``fgsm``
    n_steps : int
    step : float, optional
        Length of a step; 2.5 epsilon / n_steps, if not given.
    """
    _check(images, y, epsilon)
    length = 2.5 * epsilon / n_steps if step is None else step
    done = []
    for start, rows in zip(images.split(batch_size), y.split(batch_size), strict=True):
        x = start
        for _ in range(n_steps):
            signs = _gradient(_loss(model, rows), x).sign()
            x = _projected(start, step_along(x, signs, length), epsilon)
        done.append(x)
    return torch.cat(done)


class AdaptiveAttack:
    """PGD by someone who knows the detector: past the boundary it lowers the score instead.

    While an image is classified rightly, a step raises the log odds against
    its class; once it is not, a step lowers the score. Of all images on the
    way the wrong one with the lowest score is returned; where there was none,
    the last.

    Parameters
    ----------
    model : ImageModel or ArtClassifier
    eps : float
        Largest change of a pixel.
    score : str
        A key of ``SCORES``, or "mimic": the distance of all scores from those
        of the clean image, each in units of its standard deviation over the
        images. That is the attack on a detector that combines the scores.
    n_steps : int
    step : float, optional
        Length of a step; 2.5 eps / n_steps, if not given.
    batch_size : int

    Notes
    -----
    Scores whose tail-accurate form has no gradient are lowered through a
    bound of the same order (``SURROGATES``).
    """

    def __init__(
        self,
        model: Any,
        eps: float,
        *,
        score: str = "log_variation_ratio",
        n_steps: int = 40,
        step: float | None = None,
        batch_size: int = _BATCH,
    ) -> None:
        if score != "mimic" and score not in SURROGATES:
            raise ValueError(f"score must be 'mimic' or one of {list(SURROGATES)}, got {score!r}")
        if n_steps < 1:
            raise ValueError(f"n_steps must be at least 1, got {n_steps}")
        self.model: ImageModel = model if isinstance(model, ImageModel) else model.image_model
        self.eps, self.score, self.n_steps, self.step, self.batch_size = eps, score, n_steps, step, batch_size

    def generate(self, x: npt.ArrayLike, y: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Adversarial images for arrays, as attacks of the toolbox give them.

        Parameters
        ----------
        x : array-like of shape (N, channels, height, width)
            Pixels in [0, 1].
        y : array-like of shape (N,) or (N, C)
            True classes, or one-hot.
        """
        device = self.model.device
        images = torch.as_tensor(np.asarray(x, np.float32), device=device)
        found = self.attack(images, class_numbers(y).to(device))
        return found.cpu().numpy()

    def attack(self, images: Tensor, y: Tensor) -> Tensor:
        """Adversarial images, on the model's device."""
        _check(images, y, self.eps)
        widths = self._widths(images) if self.score == "mimic" else {}
        batches = zip(images.split(self.batch_size), y.split(self.batch_size), strict=True)
        return torch.cat([self._of_batch(x, rows, widths) for x, rows in batches])

    def _of_batch(self, start: Tensor, y: Tensor, widths: dict[str, float]) -> Tensor:
        length = 2.5 * self.eps / self.n_steps if self.step is None else self.step
        score = self._mimicry(start, widths) if widths else self._plain
        lowest = torch.full(y.shape, torch.inf, dtype=torch.float64, device=y.device)
        best, x = start, start
        for k in range(self.n_steps + 1):
            moving = x.detach().requires_grad_(True)
            rows = self.model.rows(moving)
            log_p = log_probabilities(rows.output)
            value = score(rows)
            wrong = log_p.detach().argmax(1) != y
            better = wrong & (value.detach() < lowest)
            lowest = torch.where(better, value.detach().double(), lowest)
            # Rows that were never wrong keep what was found last.
            replaced = better | ~torch.isfinite(lowest)
            best = torch.where(replaced[:, None, None, None], x, best)
            if k < self.n_steps:
                objective = torch.where(wrong, -value, log_odds_against(log_p, y))
                (slope,) = torch.autograd.grad(objective.sum(), moving)
                x = _projected(start, step_along(x, slope.sign(), length), self.eps)
        return best

    def _plain(self, rows: Rows) -> Tensor:
        value = SURROGATES[self.score](rows)
        if value is None:
            raise ValueError(f"this model has no score {self.score!r}; choose another one")
        return value

    def _values(self, rows: Rows) -> dict[str, Tensor]:
        """All scores that the model has; the ratio is left to its logarithm."""
        found = {name: function(rows) for name, function in SURROGATES.items() if name != "variation_ratio"}
        return {name: value for name, value in found.items() if value is not None}

    @torch.no_grad()
    def _widths(self, images: Tensor) -> dict[str, float]:
        parts = [self._values(self.model.rows(x)) for x in images.split(self.batch_size)]
        widths = {name: float(torch.cat([part[name] for part in parts]).std()) for name in parts[0]}
        return {name: max(width, 1e-12) for name, width in widths.items()}

    def _mimicry(self, start: Tensor, widths: dict[str, float]) -> Callable[[Rows], Tensor]:
        with torch.no_grad():
            clean = self._values(self.model.rows(start))

        def distance(rows: Rows) -> Tensor:
            now = self._values(rows)
            return torch.stack([(now[k] - clean[k]).abs() / width for k, width in widths.items()]).mean(0)

        return distance


def _loss(model: ImageModel, y: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: log_odds_against(model(x), y)


def _gradient(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Gradient of the sum over rows; weights get none, so nothing of the model changes."""
    moving = x.detach().requires_grad_(True)
    (slope,) = torch.autograd.grad(function(moving).sum(), moving)
    return slope


def _projected(start: Tensor, x: Tensor, epsilon: float) -> Tensor:
    return start + (x - start).clamp(-epsilon, epsilon)


def _check(images: Tensor, y: Tensor, epsilon: float) -> None:
    if images.ndim != 4 or len(images) != len(y) or len(y) == 0:
        raise ValueError(
            f"images must have shape (N, channels, height, width) and y (N,), with N at least 1; got "
            f"{tuple(images.shape)} and {tuple(y.shape)}"
        )
    check_pixels(images)
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon must not be negative, got {epsilon}")


# --- The attack that knows of squeezing.


class SqueezingAwareAttack(AdaptiveAttack):
    """The attack that imitates all scores of the clean image, those of squeezed copies too.

    Parameters
    ----------
    model, eps, n_steps, step, batch_size : as for ``AdaptiveAttack``
    """

    def __init__(
        self,
        model: object,
        eps: float,
        *,
        n_steps: int = 40,
        step: float | None = None,
        batch_size: int = _BATCH,
    ) -> None:
        super().__init__(model, eps, score="mimic", n_steps=n_steps, step=step, batch_size=batch_size)

    def _values(self, rows: Rows) -> dict[str, Tensor]:
        found = {name: function(rows) for name, function in SQUEEZING.items()}
        return {**super()._values(rows), **{name: v for name, v in found.items() if v is not None}}
