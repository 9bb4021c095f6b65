r"""A Gaussian that resembles the posterior of all latent functions together, to sample around (eq. 8.37).

Under q the classes are independent. Here every row has a quadratic in all its
latents at once, with the curvature of its expected log-likelihood at q.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bayesvm.core import gaussian, linalg
from bayesvm.core.gaussian import Gaussian
from bayesvm.core.likelihoods import Likelihood
from bayesvm.inference.natural_parameters import Natural
from bayesvm.inference.rivals import MIN_VARIANCE

__all__ = ["Moves", "Reference", "row_quadratics"]

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
