"""The protocol of likelihoods: the expected value of a row and its Gaussian site."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor


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
    """Class probabilities of rows, and their expected entropy given the latents.

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


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, F, s2, terms_of):  # type: ignore[no-untyped-def]
        terms = terms_of(F, s2)
        ctx.save_for_backward(terms.slope, terms.W)
        ctx.mark_non_differentiable(terms.slope, terms.W)
        return terms.value, terms.slope, terms.W

    @staticmethod
    def backward(ctx, g, _slope, _W):  # type: ignore[no-untyped-def]
        slope, W = ctx.saved_tensors
        return g[:, None] * slope, -0.5 * g[:, None] * W, None


def expected(likelihood: Likelihood, y: Tensor, F: Tensor, s2: Tensor) -> RowTerms:
    """Row terms of a likelihood whose value carries gradients to F and s2 from the closed form."""
    return with_gradient(lambda F, s2: likelihood.row_terms(y, F, s2), F, s2)


def with_gradient(terms_of: Callable[[Tensor, Tensor], RowTerms], F: Tensor, s2: Tensor) -> RowTerms:
    """Row terms at F and s2 whose value is differentiated by their own slope and W (eq. 3.3)."""
    return RowTerms(*_WithGradient.apply(F, s2, terms_of))  # type: ignore[no-untyped-call]


# --- Several likelihoods of the same labels, each with latent functions of its own (section 11).


@dataclass(frozen=True)
class Committee:
    r"""log p(y | f) = sum_m log p_m(y | f_m), the latents of all members side by side (eq. 11.1).

    The members share nothing but rows, kernel and inducing points, so the bound
    and the posterior are those of each alone, and one computation serves all. The first
    speaks for the latents of the model; the kernel is learned under the last.

    Parameters
    ----------
    members : tuple of Likelihood
        Each describes the classes by the same number of latent functions.
    """

    members: tuple[Likelihood, ...]

    @property
    def shift_invariant(self) -> bool:
        """Whether adding the same to all latents of a member changes nothing."""
        return all(member.shift_invariant for member in self.members)

    def n_latents(self, n_classes: int) -> int:
        return sum(member.n_latents(n_classes) for member in self.members)

    def log_likelihood(self, y: Tensor, f: Tensor) -> Tensor:
        parts = f.chunk(len(self.members), -1)
        terms = [member.log_likelihood(y, part) for member, part in zip(self.members, parts, strict=True)]
        return torch.stack(terms).sum(0)

    def row_terms(self, y: Tensor, F: Tensor, s2: Tensor) -> RowTerms:
        n = len(self.members)
        terms = [
            member.row_terms(y, mean, variance)
            for member, mean, variance in zip(self.members, F.chunk(n, 1), s2.chunk(n, 1), strict=True)
        ]
        value, slope, W = zip(*terms, strict=True)
        return RowTerms(torch.stack(value).sum(0), torch.cat(slope, 1), torch.cat(W, 1))


def members_of(likelihood: Likelihood) -> tuple[Likelihood, ...]:
    """The members of a committee; any other likelihood is its own only one."""
    return likelihood.members if isinstance(likelihood, Committee) else (likelihood,)


# --- The likelihood at points, without variances, for finding the mode.


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
        """Slopes (N, J), projected onto those that the log-likelihood can have."""
        ...

    def conjugate(self, y: Tensor, slope: Tensor, k: Tensor) -> Tensor:
        """What feasible slopes add to the dual objective, shape (N, G) (eq. 8.23)."""
        ...


# --- Two classes with one latent function, their difference, for likelihoods that see differences only.


def per_class_moments(F: Tensor, s2: Tensor) -> tuple[Tensor, Tensor]:
    """Moments per class (N, C): those of a difference (N, 1) are dealt to two, others stay (eq. 7.1).

    Predictions depend on differences alone, so a difference g is dealt
    evenly: means -g/2 and g/2, variances Var(g)/2 each.
    """
    if F.shape[1] > 1:
        return F, s2
    return torch.cat([-0.5 * F, 0.5 * F], 1), (0.5 * s2).expand(-1, 2)


def per_member_moments(F: Tensor, s2: Tensor, n_members: int) -> tuple[Tensor, Tensor]:
    """Moments per class of every member, (M, N, C), for functions of all members side by side (N, J)."""
    parts = zip(F.chunk(n_members, 1), s2.chunk(n_members, 1), strict=True)
    means, variances = zip(*(per_class_moments(*part) for part in parts), strict=True)
    return torch.stack(means), torch.stack(variances)


def per_class_latents(f: Tensor) -> Tensor:
    """Latents per class (..., C) for functions (..., J): a difference g becomes -g/2 and g/2."""
    return f if f.shape[-1] > 1 else torch.cat([-0.5 * f, 0.5 * f], -1)


def collected(terms: RowTerms) -> RowTerms:
    """Terms of two classes as those of their difference, by the chain rule of eq. 7.1."""
    value, slope, W = terms
    return RowTerms(value, 0.5 * (slope[:, 1:] - slope[:, :1]), 0.5 * (W[:, 1:] + W[:, :1]))
