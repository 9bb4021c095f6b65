"""The hinge of the Bayesian SVM: exact expectations, the augmented bound, scale mixtures.

``MulticlassHinge`` is Crammer and Singer's hinge against all rivals (eqs. 4.1, 4.2),
``pair_bound`` its augmented bound against one (eq. 2.3). ``BinaryHinge`` and
``AugmentedBinaryHinge`` are the same for two classes with one latent function,
and ``OneVsRest`` makes one of them a likelihood of many classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from bayesvm._core.likelihoods.base import Likelihood, RowTerms
from bayesvm._core.linalg import INV_SQRT_2PI, exp_, normal_cdf

# --- Crammer and Singer's hinge in exact expectation.
#
# The expectation over the maximum M of the rivals' latents is a one-dimensional
# integral. Written against the density of M it is smooth and lives on the few
# standard deviations where M can be.


_TAIL = 5.0
# A rival this many standard deviations below is negligible; beyond it densities
# become denormal numbers, which are many times slower.
_NEGLIGIBLE = 12.0


@dataclass(frozen=True)
class MulticlassHinge:
    r"""log p(y | f) = -2 max(0, 1 + max_{t != y} f_t - f_y), in exact expectation.

    Parameters
    ----------
    n_nodes : int
        Trapezoid nodes. The integrand is analytic and decays at both ends, so
        the error falls exponentially in their number. 24 give 5e-6 where the
        classes of a row are about equally uncertain, as they are in fits; the
        widest sets the step, so a class ten times as sure as another costs
        digits (see tests).
    """

    n_nodes: int = 24
    shift_invariant: ClassVar[bool] = True

    def n_latents(self, n_classes: int) -> int:
        return n_classes

    def log_likelihood(self, y: Tensor, f: Tensor) -> Tensor:
        """Log pseudo-likelihood at given latents, shape (..., N) (eq. 1.1)."""
        own = y.expand(f.shape[:-1])[..., None]
        rival = f.scatter(-1, own, -torch.inf).amax(-1)
        return -2.0 * (1.0 + rival - f.gather(-1, own)[..., 0]).clamp_min(0.0)

    def row_terms(self, y: Tensor, F: Tensor, s2: Tensor) -> RowTerms:
        r"""Expected log-likelihood and its derivatives, by quadrature (eqs. 4.1, 4.2).

        On the window every rival has Phi > 3e-7, because the window starts at
        the largest of F_t - 5 s_t: neither logarithms nor the tail of Phi are
        needed. Nodes come first and rows last, so that sums and products over
        nodes and classes run over whole rows of memory.
        """
        own = y[None, :]
        F, s = F.mT.contiguous(), s2.mT.sqrt().contiguous()  # [C, N]
        F_y, s_y = F.gather(0, own), s.gather(0, own)  # [1, N]
        # The own class is shifted so far down that Phi = 1 and its density is negligible.
        F_rival = F.scatter(0, own, -torch.inf)
        lower = (F_rival - _TAIL * s).amax(0)
        upper = (F_rival + _TAIL * s).amax(0)
        step = (upper - lower) / (self.n_nodes - 1)
        grid = torch.arange(self.n_nodes, dtype=F.dtype, device=F.device)
        x = lower + step * grid[:, None]  # [Q, N]

        # Nodes × classes × rows, the only large arrays.
        z = (x[:, None, :] - F_rival).div_(s).clamp_max_(_NEGLIGIBLE)
        Phi = torch.erf(z * math.sqrt(0.5)).add_(1.0).mul_(0.5)
        hazard = exp_(z.square_(), -0.5).mul_(INV_SQRT_2PI / s).div_(Phi)
        mass = Phi.prod(1)  # P(M <= x)
        total = hazard.sum(1)

        u = (x + 1.0 - F_y) / s_y
        c = normal_cdf(u)
        pdf = torch.exp(-0.5 * u * u) * INV_SQRT_2PI
        p = pdf / s_y
        h = s_y * (pdf + u * c)  # E max(0, 1 + x - f_y) in closed form

        dx = step * mass
        value = -2.0 * (dx * total * h).sum(0)
        # W_t = 2 int e^L hz_t (p + c (H - hz_t)) and dl/dF_t = -2 int c e^L hz_t
        cd = dx * c
        slope = hazard * cd[:, None, :]
        W = 2.0 * ((dx * p + cd * total)[:, None, :] - slope).mul_(hazard).sum(0)
        slope = -2.0 * slope.sum(0)
        W_y = 2.0 * (dx * p * total).sum(0, keepdim=True)
        slope = slope.scatter(0, own, 0.0)
        slope = slope.scatter(0, own, -slope.sum(0, keepdim=True))
        W = W.scatter(0, own, W_y)
        return RowTerms(value, slope.mT.contiguous(), W.clamp_min_(0.0).mT.contiguous())


# --- The augmented bound, for one latent function or for two classes of many.


class AugmentedTerms(NamedTuple):
    """The augmented bound of rows and its derivatives, all of one shape.

    Attributes
    ----------
    value : Tensor
        The bound.
    slope : Tensor
        Its derivative in -b: by how much the margin is to be widened.
    w : Tensor
        Site precision, minus twice its derivative in the variance.
    """

    value: Tensor
    slope: Tensor
    w: Tensor


def augmented_hinge(b: Tensor, s2: Tensor) -> AugmentedTerms:
    r"""Bound of E[-2 max(0, b)] at the best local parameter, for mean b and variance s2 (eqs. 2.1, 2.3, 3.2).

    With :math:`A = b^2 + s^2` it is :math:`-(\sqrt A + b)`; its slope in -b is :math:`1 + b / \sqrt A`.
    """
    root = (b * b + s2).sqrt()
    return AugmentedTerms(-(root + b), 1.0 + b / root, 1.0 / root)


def pair_bound(F: Tensor, s2: Tensor) -> RowTerms:
    r"""Row terms against one rival: two sites for any number of classes (eqs. 2.3, 3.2).

    Parameters
    ----------
    F, s2 : Tensor of shape (N, 2)
        Means and variances of the own class and of the rival; :math:`b = 1 + F_t - F_y`.
    """
    value, slope, w = augmented_hinge(1.0 - (F[:, 0] - F[:, 1]), s2.sum(1))
    return RowTerms(value, torch.stack([slope, -slope], 1), torch.stack([w, w], 1))


# --- The binary hinge: two classes described by one latent function.


def signs(y: Tensor, like: Tensor) -> Tensor:
    """Labels -1 and 1, shape (N, 1), for class indices 0 and 1."""
    return (2 * y - 1).to(like.dtype)[:, None]


def log_hinge(y: Tensor, f: Tensor) -> Tensor:
    """-2 max(0, 1 - y f) at latents f (..., N, 1), shape (..., N) (eq. 7.1)."""
    return -2.0 * (1.0 - signs(y, f) * f).clamp_min(0.0)[..., 0]


def hinge_given_scales(y: Tensor, f: Tensor, weight: Tensor, generator: torch.Generator) -> DrawnSites:
    r"""Sites of the hinge given drawn scales, for any weights (eqs. 8.30, 8.31).

    A row of weight c has the hinge of c b: :math:`f \sim N(y (1 + \lambda / c), \lambda / c^2)`.
    """
    sign, c = signs(y, f), weight[:, None]
    scale = mixture_scales(c * (1.0 - sign * f), generator) / c
    return DrawnSites(sign * (1.0 + scale), scale / c)


@dataclass(frozen=True)
class BinaryHinge:
    r"""log p(y | f) = -2 max(0, 1 - y f) for y in {-1, 1}, in exact expectation (eq. 4.3)."""

    shift_invariant: ClassVar[bool] = False

    def n_latents(self, n_classes: int) -> int:
        return 1

    def log_likelihood(self, y: Tensor, f: Tensor) -> Tensor:
        return log_hinge(y, f)

    def drawn_sites(self, y: Tensor, f: Tensor, weight: Tensor, generator: torch.Generator) -> DrawnSites:
        return hinge_given_scales(y, f, weight, generator)

    def row_terms(self, y: Tensor, F: Tensor, s2: Tensor) -> RowTerms:
        """The expectation of the hinge and its derivatives, in closed form (eqs. 2.4, 4.3)."""
        sign, s = signs(y, F), s2.sqrt()
        b = 1.0 - sign * F
        z = b / s
        Phi = normal_cdf(z)
        phi = torch.exp(-0.5 * z * z) * INV_SQRT_2PI
        value = -2.0 * (s * phi + b * Phi)
        return RowTerms(value[:, 0], 2.0 * sign * Phi, 2.0 * phi / s)


@dataclass(frozen=True)
class AugmentedBinaryHinge:
    r"""The augmented bound of the binary hinge, -(sqrt(A) + b) (eqs. 2.3, 7.1)."""

    shift_invariant: ClassVar[bool] = False

    def n_latents(self, n_classes: int) -> int:
        return 1

    def log_likelihood(self, y: Tensor, f: Tensor) -> Tensor:
        return log_hinge(y, f)

    def drawn_sites(self, y: Tensor, f: Tensor, weight: Tensor, generator: torch.Generator) -> DrawnSites:
        return hinge_given_scales(y, f, weight, generator)

    def row_terms(self, y: Tensor, F: Tensor, s2: Tensor) -> RowTerms:
        sign = signs(y, F)
        value, slope, w = augmented_hinge(1.0 - sign * F, s2)
        return RowTerms(value[:, 0], sign * slope, w)


# --- One against the rest: a binary likelihood for every class, all of them at once.


@dataclass(frozen=True)
class OneVsRest:
    r"""log p(y | f) = sum_j log p_j([y = j] | f_j): C binary problems that share nothing but rows (eq. 8.1).

    Parameters
    ----------
    binary : Likelihood
        A likelihood of two classes with one latent function.
    """

    binary: Likelihood
    shift_invariant: ClassVar[bool] = False

    def n_latents(self, n_classes: int) -> int:
        return n_classes

    def row_terms(self, y: Tensor, F: Tensor, s2: Tensor) -> RowTerms:
        """The binary terms of all rows and classes in one call."""
        is_own = _is_own(y, F.shape[1]).reshape(-1)
        value, slope, W = self.binary.row_terms(is_own, F.reshape(-1, 1), s2.reshape(-1, 1))
        return RowTerms(value.reshape(F.shape).sum(1), slope.reshape(F.shape), W.reshape(F.shape))

    def log_likelihood(self, y: Tensor, f: Tensor) -> Tensor:
        is_own = _is_own(y, f.shape[-1]).reshape(-1)
        flat = f.reshape(*f.shape[:-2], -1, 1)
        return self.binary.log_likelihood(is_own, flat).reshape(f.shape).sum(-1)

    def drawn_sites(self, y: Tensor, f: Tensor, weight: Tensor, generator: torch.Generator) -> DrawnSites:
        """Those of the binary problems; the binary likelihood must be a scale mixture itself."""
        if not isinstance(self.binary, ScaleMixture):
            raise TypeError(f"{type(self.binary).__name__} is not a scale mixture of Gaussians")
        C = f.shape[-1]
        flat, is_own = f.reshape(*f.shape[:-2], -1, 1), _is_own(y, C).reshape(-1)
        sites = self.binary.drawn_sites(is_own, flat, weight.repeat_interleave(C), generator)
        return DrawnSites(sites.target.reshape(f.shape), sites.variance.reshape(f.shape))


def _is_own(y: Tensor, n_classes: int) -> Tensor:
    """1 where the column is a row's own class, 0 elsewhere, shape (N, C)."""
    return (y[:, None] == torch.arange(n_classes, device=y.device)).long()


# --- Likelihoods that are Gaussian once local scales are known: what Gibbs sampling needs (eq. 1.2).


# Smaller scales would pin a latent to its target beyond what a precision matrix
# can hold: 2e-10 in double and 5e-5 in single precision.
_SMALLEST_POWER = 0.625


class DrawnSites(NamedTuple):
    """Gaussian observations of the latents given drawn scales: f ~ N(target, variance) (eq. 8.31).

    Both of shape (..., N, J), the weights of the rows inside.
    """

    target: Tensor
    variance: Tensor


@runtime_checkable
class ScaleMixture(Protocol):
    """A likelihood p(y | f) that is a mixture of Gaussians in f over local scales (eq. 1.2)."""

    def drawn_sites(self, y: Tensor, f: Tensor, weight: Tensor, generator: torch.Generator) -> DrawnSites:
        """Draw the scales given latents f (..., N, J), and return the sites that they imply.

        Parameters
        ----------
        y, weight : Tensor of shape (N,)
            A row of weight c has the likelihood p(y | f)^c.
        f : Tensor of shape (..., N, J)
        generator : torch.Generator
            On the CPU: draws do not depend on the device.
        """
        ...


def mixture_scales(b: Tensor, generator: torch.Generator) -> Tensor:
    r"""Draw :math:`\lambda` with :math:`1/\lambda \sim \mathrm{InverseGaussian}(1/|b|, 1)` (eq. 8.30).

    The method of Michael, Schucany and Haas (1976) written for the reciprocal:
    its larger root :math:`|b| + w/2 + \sqrt{|b| w + w^2/4}`, for w the square
    of a standard normal, is free of cancellation and of division by b. At
    b = 0 it is w, a draw of the limit.
    """
    size, smallest = b.abs(), torch.finfo(b.dtype).eps ** _SMALLEST_POWER
    z = torch.randn(b.shape, generator=generator, dtype=torch.float64).to(b)
    u = torch.rand(b.shape, generator=generator, dtype=torch.float64).to(b)
    half = 0.5 * z * z
    root = (size + half + (half * (2.0 * size + half)).sqrt()).clamp_min(smallest)
    scale = torch.where(u * (root + size) <= root, root, size * (size / root))
    return scale.clamp_min(smallest)
