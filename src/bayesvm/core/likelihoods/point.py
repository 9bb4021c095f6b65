"""What a likelihood tells about latents that are numbers, not distributions: the way to the mode."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor

__all__ = ["PointLikelihood", "PointTerms"]


class PointTerms(NamedTuple):
    r"""A smoothed log-likelihood of rows, its slope and its curvature (eq. 8.21).

    The negative Hessian of a row is :math:`\mathrm{diag}(w) - u u^\top`.

    Attributes
    ----------
    value : Tensor of shape (N, G)
        One column per latent function where each has a problem of its own, else one.
    slope, w : Tensor of shape (N, J)
    u : Tensor of shape (N, J) or None
        None: the Hessian is diagonal.
    """

    value: Tensor
    slope: Tensor
    w: Tensor
    u: Tensor | None

    @property
    def curvature(self) -> Tensor:
        """The diagonal of the negative Hessian, shape (N, J)."""
        return self.w if self.u is None else self.w - self.u.square()

    def bent(self, dF: Tensor) -> Tensor:
        """The negative Hessian times a change of latents: by how much slopes fall, shape (N, J)."""
        change = self.w * dF
        return change if self.u is None else change - self.u * (self.u * dF).sum(1, keepdim=True)


class PointLikelihood(Protocol):
    """A concave log-likelihood with corners, and how to round them.

    ``k`` (N,) is the residual of a row times its weight; zero leaves it out.
    """

    @property
    def separable(self) -> bool:
        """Whether every latent function has a problem of its own."""
        ...

    @property
    def takes_residual(self) -> bool:
        """Whether ``k`` may be other than zero."""
        ...

    def at(self, y: Tensor, F: Tensor, k: Tensor) -> Tensor:
        """The log-likelihood itself at latents F (N, J), shape (N, G)."""
        ...

    def smoothed(self, y: Tensor, F: Tensor, k: Tensor, width: Tensor) -> PointTerms:
        """With corners rounded over that width (G,); never above the log-likelihood itself."""
        ...

    def feasible(self, y: Tensor, slope: Tensor) -> Tensor:
        """Slopes (N, J) moved to where the log-likelihood can have them."""
        ...

    def conjugate(self, y: Tensor, slope: Tensor, k: Tensor) -> Tensor:
        """What feasible slopes add to the dual objective, shape (N, G) (eq. 8.23)."""
        ...
