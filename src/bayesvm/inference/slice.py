"""Elliptical slice sampling: the posterior of any likelihood, all functions at once (eqs. 8.36, 8.37).

Ellipses go around a reference that resembles the posterior, not around the
prior (Murray, Adams and MacKay, 2010; Nishihara, Murray and Adams, 2014).
Either way the draws are from the posterior itself; see docs/theory.md for how
much it saves.

It is for a few hundred rows. A transition of a chain costs J P (N + J P)
multiplications, and ten thousand or more are common; with residuals it moves
N J further numbers at once, and chains mix more slowly the more they are. The
features of all rows are kept in memory. Nothing is refused: progress says how
long it will take, and ending it early keeps the draws so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from bayesvm.inference.evaluate import Ascent
from bayesvm.inference.reference import Moves, Reference, row_quadratics
from bayesvm.inference.sampling import is_centred, sample
from bayesvm.inference.task import Method, Outcome, Task
from bayesvm.progress import Progress

__all__ = ["METHOD", "SliceChains"]

# Chains start this many times as far from the mean as draws of the reference.
_OVERDISPERSION = 2.0
# Degrees of freedom of the reference: a Student t does not lose the tails of a
# posterior that is wider than it, and its scale adapts to where a chain is.
_FREEDOM = 50.0
# A bracket shrinks by half on average; after this many times it is a point.
_MOST_TRIALS = 200


class SliceChains:
    """Chains of generalised elliptical slice sampling, all of them at once."""

    def __init__(self, task: Task, ascent: Ascent) -> None:
        rows, settings = task.rows, task.settings
        A, residual = next(rows.blocks(len(rows))).features
        if not settings.fitc:
            residual = torch.zeros_like(residual)
        self._likelihood, self._y, self._weight = task.member.likelihood, rows.y, rows.weight
        centred = is_centred(task)
        quadratics = row_quadratics(self._likelihood, rows.y, rows.weight, ascent.q, A, residual, centred)
        self._reference = Reference(A, residual, *quadratics, task.base, centred)
        self._generator = torch.Generator().manual_seed(settings.seed)
        start = self._reference.draw(settings.n_chains, self._generator)
        self._now = start.scaled(torch.full_like(start.packed[:, 0], _OVERDISPERSION))

    @property
    def v(self) -> Tensor:
        """Whitened inducing values, shape (K, J, P)."""
        return self._reference.v + self._now.v

    @property
    def f(self) -> Tensor:
        """Latents of the training rows, shape (K, N, J)."""
        return self._reference.f + self._now.f

    def advance(self) -> None:
        """One transition: a level under the density, an ellipse, and a point of it above the level."""
        now = self._now
        K = now.packed.shape[0]
        other = self._reference.draw(K, self._generator)
        # Given where a chain is, the scale of the Student t is inverse gamma (eq. 8.36).
        size = now.white.square().sum(1)
        shape = torch.full((K,), 0.5 * (_FREEDOM + self._reference.dimension), dtype=torch.float64)
        gamma = torch._standard_gamma(shape, generator=self._generator).to(size)
        scale = (0.5 * (_FREEDOM + size) / gamma).sqrt()
        other = other.scaled(scale)
        density = self._density_on(now, other)
        zero = torch.zeros_like(size)
        level = density(torch.ones_like(size), zero) + self._uniform(size).log()
        angle = 2.0 * math.pi * self._uniform(size)
        low, high = angle - 2.0 * math.pi, angle
        found = torch.zeros_like(size, dtype=torch.bool)
        for _ in range(_MOST_TRIALS):
            found = found | (density(angle.cos(), angle.sin()) >= level)
            if bool(found.all()):
                break
            low = torch.where(~found & (angle < 0.0), angle, low)
            high = torch.where(~found & (angle >= 0.0), angle, high)
            angle = torch.where(found, angle, low + self._uniform(size) * (high - low))
        angle = torch.where(found, angle, zero)
        self._now = now.at(other, angle.cos(), angle.sin())

    def _density_on(self, a: Moves, b: Moves) -> Callable[[Tensor, Tensor], Tensor]:
        """Log posterior over reference on an ellipse, a function of cosine and sine.

        All of it but the likelihood is quadratic: a trial costs no product with features.
        """
        ref = self._reference

        def dot(x: Tensor, y: Tensor) -> Tensor:
            return (x.flatten(1) * y.flatten(1)).sum(1)

        def quadratic(x: Moves, y: Moves) -> Tensor:
            return -0.5 * (dot(x.v, y.pull) + dot(x.eps, y.eps))

        def linear(x: Moves) -> Tensor:
            mean_eps = ref.eps if x.eps.shape[1] else ref.eps[:0]
            return (x.v * ref.pull).sum((1, 2)) - (x.eps * mean_eps).sum((1, 2))

        la, lb = linear(a), linear(b)
        qaa, qab, qbb = quadratic(a, a), quadratic(a, b), quadratic(b, b)
        waa, wab, wbb = dot(a.white, a.white), dot(a.white, b.white), dot(b.white, b.white)
        half = 0.5 * (_FREEDOM + ref.dimension)

        def density(c: Tensor, s: Tensor) -> Tensor:
            f = ref.f + c[:, None, None] * a.f + s[:, None, None] * b.f
            value = self._likelihood.log_likelihood(self._y, f) @ self._weight
            prior = c * la + s * lb + c * c * qaa + 2.0 * c * s * qab + s * s * qbb
            size = c * c * waa + 2.0 * c * s * wab + s * s * wbb
            return value + prior + half * torch.log1p(size / _FREEDOM)

        return density

    def _uniform(self, like: Tensor) -> Tensor:
        return torch.rand(like.shape, generator=self._generator, dtype=torch.float64).to(like)


def _run(task: Task, progress: Progress) -> Outcome:
    return sample(task, SliceChains, progress)


METHOD = Method(_run, max_iter=50_000, approximations=("fitc", "dtc"))
