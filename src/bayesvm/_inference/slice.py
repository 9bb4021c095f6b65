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

from bayesvm._core import gaussian, linalg
from bayesvm._core.gaussian import Gaussian, Natural
from bayesvm._core.likelihoods import Likelihood
from bayesvm._inference.rivals import MIN_VARIANCE
from bayesvm._inference.sampling import is_centred, sample
from bayesvm._inference.task import Ascent, Method, Outcome, Task
from bayesvm._progress import Progress

# --- A Gaussian that resembles the posterior of all latent functions together, to sample around (eq. 8.37).


# Up to this many inducing values of all functions one covariance is computed;
# beyond, one that the functions share.
_MOST_JOINT = 4000
# Differences are taken over this share of a latent's standard deviation.
_DIFFERENCE = 1e-2
_BLOCK_ROWS = 4096


class Moves:
    """Deviations from the mean of the reference in K chains, one row of ``packed`` each.

    Everything an ellipse needs is linear in the deviation, so a point of the
    ellipse is one combination of two rows.

    Attributes
    ----------
    white : Tensor of shape (K, D)
        Standard normal under the reference.
    v, pull : Tensor of shape (K, J, P)
        Of the inducing values, and times their prior precision.
    eps, f : Tensor of shape (K, N, J)
        Of the standardised residuals and of the latents.
    """

    def __init__(self, packed: Tensor, shapes: tuple[tuple[int, ...], ...]) -> None:
        self.packed, self._shapes = packed, shapes
        sizes = [int(torch.Size(shape).numel()) for shape in shapes]
        parts = packed.split(sizes, 1)
        self.white, self.v, self.pull, self.eps, self.f = (
            part.reshape(packed.shape[0], *shape) for part, shape in zip(parts, shapes, strict=True)
        )

    @classmethod
    def of(cls, *parts: Tensor) -> Moves:
        """From white, v, pull, eps and f."""
        return cls(torch.cat([part.flatten(1) for part in parts], 1), tuple(p.shape[1:] for p in parts))

    def scaled(self, factor: Tensor) -> Moves:
        """Times a number per chain."""
        return Moves(factor[:, None] * self.packed, self._shapes)

    def at(self, other: Moves, cosine: Tensor, sine: Tensor) -> Moves:
        """The point of the ellipse through both at an angle per chain."""
        return Moves(cosine[:, None] * self.packed + sine[:, None] * other.packed, self._shapes)


class Reference:
    r"""Mean and factors of the Gaussian (eq. 8.37).

    Parameters
    ----------
    A, residual : Tensor of shape (N, P) and (N,)
        Features of the rows; a residual of zero leaves the latents to the inducing values.
    Omega, linear : Tensor of shape (N, J, J) and (N, J)
        Quadratics of the rows, weights inside: exp(-f' Omega f / 2 + linear' f).
    base : Natural
        The Gaussian that the inducing values have without the rows.
    centred : bool
        Whether deviations have mean zero over the functions.
    """

    def __init__(
        self, A: Tensor, residual: Tensor, Omega: Tensor, linear: Tensor, base: Natural, centred: bool
    ) -> None:
        N, J = linear.shape
        P = A.shape[1]
        self._A, self._spread, self._base, self._centred = A, residual.sqrt()[:, None], base, centred
        self._has_residual = bool((residual > 0.0).any())
        values, U = torch.linalg.eigh(Omega)
        values = values.clamp_min(0.0)
        shrink = 1.0 / (1.0 + residual[:, None] * values)
        # Omega (I + k Omega)^{-1} and what the residuals do given the inducing values.
        outer = (U * (values * shrink)[:, None]) @ U.mT
        self._root = (U * shrink.sqrt()[:, None]) @ U.mT
        self._response = self._spread[..., None] * outer
        inner = (((U * shrink[:, None]) @ U.mT) @ linear[..., None])[..., 0]
        h = base.linear + inner.mT @ A
        self._joint = J * P <= _MOST_JOINT
        if self._joint:
            H = torch.block_diag(*base.precision.unbind())
            for j in range(J):
                for k in range(J):
                    rows, columns = slice(j * P, (j + 1) * P), slice(k * P, (k + 1) * P)
                    H[rows, columns] += (A * outer[:, j, k, None]).mT @ A
        else:
            share = outer.diagonal(dim1=1, dim2=2).sum(1) / (J - 1 if centred else J)
            H = base.precision.mean(0) + (A * share[:, None]).mT @ A
        self._R = linalg.cholesky_precision(H)
        mean = torch.cholesky_solve(h.reshape(-1, H.shape[0]).mT, self._R).mT.reshape(J, P)
        self.v = mean - mean.mean(0) if centred else mean
        F = A @ self.v.mT
        self.eps = self._spread * (inner - (outer @ F[..., None])[..., 0])
        self.f = F + self._spread * self.eps
        self.pull = base.linear - self._times_prior(self.v)
        self.dimension = (J - int(centred)) * (P + (N if self._has_residual else 0))

    def draw(self, n_chains: int, generator: torch.Generator) -> Moves:
        """Deviations of K chains from the mean."""
        J, P = self.v.shape
        white = self._normal(generator, n_chains, J, P)
        rows = white.reshape(-1, self._R.shape[0])
        v = linalg.solve_lower_transposed(self._R, rows.mT).mT.reshape(white.shape)
        if self._centred:
            v = v - v.mean(1, keepdim=True)
            white = (v.reshape(rows.shape) @ self._R).reshape(white.shape)
        f = (v @ self._A.mT).mT
        eps = torch.zeros_like(f[:, :0])
        parts = [white.flatten(1)]
        if self._has_residual:
            noise = self._normal(generator, *f.shape)
            if self._centred:
                noise = noise - noise.mean(2, keepdim=True)
            eps = (self._root @ noise[..., None] - self._response @ f[..., None])[..., 0]
            f = f + self._spread * eps
            parts.append(noise.flatten(1))
        return Moves.of(torch.cat(parts, 1), v, self._times_prior(v), eps, f)

    def _times_prior(self, v: Tensor) -> Tensor:
        return (self._base.precision @ v[..., None])[..., 0]

    def _normal(self, generator: torch.Generator, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(self.v)


def row_quadratics(
    likelihood: Likelihood, y: Tensor, weight: Tensor, q: Gaussian, A: Tensor, residual: Tensor, centred: bool
) -> tuple[Tensor, Tensor]:
    """Curvature and linear part of every row's expected log-likelihood at q, shapes (N, J, J), (N, J).

    The curvature is the derivative of the slope, by central differences; a
    reference need not be exact.
    """
    parts = []
    for i in torch.arange(len(y), device=y.device).split(_BLOCK_ROWS):
        F = gaussian.mean(q, A[i])
        s2 = (gaussian.variance(q, A[i]) + residual[i, None]).clamp_min(MIN_VARIANCE)
        J = F.shape[1]
        step = _DIFFERENCE * s2.sqrt()
        columns = []
        for j in range(J):
            shift = torch.zeros_like(F).index_copy(1, torch.tensor([j], device=F.device), step[:, j : j + 1])
            up = likelihood.row_terms(y[i], F + shift, s2).slope
            down = likelihood.row_terms(y[i], F - shift, s2).slope
            columns.append((down - up) / (2.0 * step[:, j : j + 1]))
        Omega = torch.stack(columns, 2)
        Omega = 0.5 * weight[i, None, None] * (Omega + Omega.mT)
        if centred:
            Omega = Omega - Omega.mean(1, keepdim=True)
            Omega = Omega - Omega.mean(2, keepdim=True)
        slope = weight[i, None] * likelihood.row_terms(y[i], F, s2).slope
        parts.append((Omega, slope + (Omega @ F[..., None])[..., 0]))
    return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])


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
