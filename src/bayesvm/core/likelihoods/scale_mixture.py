"""Likelihoods that are Gaussian once local scales are known: what Gibbs sampling needs (eq. 1.2)."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

__all__ = ["DrawnSites", "ScaleMixture", "mixture_scales"]

# Smaller scales would pin a latent to its target beyond what a precision matrix
# can hold: 2e-10 in double and 5e-5 in single precision.
_SMALLEST_POWER = 0.625


class DrawnSites(NamedTuple):
    """What rows say about their latents given drawn scales: f ~ N(target, variance) (eq. 8.31).

    Both of shape (..., N, J), the weights of the rows inside.
    """

    target: Tensor
    variance: Tensor


@runtime_checkable
class ScaleMixture(Protocol):
    """A likelihood p(y | f) that is a mixture of Gaussians in f over local scales."""

    def drawn_sites(self, y: Tensor, f: Tensor, weight: Tensor, generator: torch.Generator) -> DrawnSites:
        """Draw the scales given latents f (..., N, J), and say what they make of the rows.

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
