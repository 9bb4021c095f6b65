"""What a likelihood tells the inference about a row: a value and Gaussian sites."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

__all__ = ["Likelihood", "Probabilities", "ProperLikelihood", "RowTerms", "expected"]


class RowTerms(NamedTuple):
    r"""Expected log-likelihood of rows and its derivatives at given moments.

    Attributes
    ----------
    value : Tensor of shape (N,)
        :math:`\ell_n = E_q[\log p(y_n \mid f_n)]`.
    slope : Tensor of shape (N, C)
        :math:`\partial \ell / \partial F`.
    W : Tensor of shape (N, C)
        Site precision, :math:`-2\, \partial \ell / \partial s^2 \ge 0` (eq. 3.3).
    """

    value: Tensor
    slope: Tensor
    W: Tensor


@runtime_checkable
class Likelihood(Protocol):
    """A (pseudo-)likelihood of a class given the latent functions of a row.

    One whose ``W`` may be negative says so with ``log_concave = False``.
    """

    @property
    def shift_invariant(self) -> bool:
        """Whether adding the same to all latents of a row changes nothing."""
        ...

    def n_latents(self, n_classes: int) -> int:
        """How many latent functions describe that many classes."""
        ...

    def row_terms(self, y: Tensor, F: Tensor, s2: Tensor) -> RowTerms:
        """Value and derivatives for class indices y (N,) at means F and variances s2 (N, C)."""
        ...

    def log_likelihood(self, y: Tensor, f: Tensor) -> Tensor:
        """Logarithm of p(y | f) at latents f (..., N, C), shape (..., N)."""
        ...


class Probabilities(NamedTuple):
    """Class probabilities of rows, and the entropy that known latents would leave.

    Attributes
    ----------
    proba : Tensor of shape (N, C)
    aleatoric : Tensor of shape (N,)
        Expected entropy of the classes given the latents, in nats.
    """

    proba: Tensor
    aleatoric: Tensor


@runtime_checkable
class ProperLikelihood(Protocol):
    """A likelihood that is a distribution over classes, and so has probabilities of its own."""

    def probabilities(self, F: Tensor, s2: Tensor) -> Probabilities:
        """Of the classes, at independent latents with means F and variances s2 (N, C)."""
        ...

    def conditional(self, f: Tensor) -> Tensor:
        """Class probabilities p(. | f) at latents f (..., C), shape (..., C)."""
        ...


class _Expected(torch.autograd.Function):
    @staticmethod
    def forward(ctx, F, s2, likelihood, y):  # type: ignore[no-untyped-def]
        terms = likelihood.row_terms(y, F, s2)
        ctx.save_for_backward(terms.slope, terms.W)
        ctx.mark_non_differentiable(terms.slope, terms.W)
        return terms.value, terms.slope, terms.W

    @staticmethod
    def backward(ctx, g, _slope, _W):  # type: ignore[no-untyped-def]
        slope, W = ctx.saved_tensors
        return g[:, None] * slope, -0.5 * g[:, None] * W, None, None


def expected(likelihood: Likelihood, y: Tensor, F: Tensor, s2: Tensor) -> RowTerms:
    """Row terms whose value carries gradients to F and s2 from the closed form."""
    return RowTerms(*_Expected.apply(F, s2, likelihood, y))  # type: ignore[no-untyped-call]
