"""Heads in double precision on small problems, beside the core's own machinery."""

from __future__ import annotations

import torch
from torch import Tensor

from bayesvm._core.gaussian import Natural
from bayesvm._core.likelihoods import pair_bound
from bayesvm._inference.blocks import TrainingRows
from bayesvm.nn import BayesianSVMHead
from bayesvm.nn._bound import inverse_factor, whitened


def head_on(rows: TrainingRows, **options) -> BayesianSVMHead:
    """A head with the kernel and the inducing points of training rows, which take over its factor."""
    P, D = rows.Z.shape
    head = BayesianSVMHead(D, rows.n_classes, P, normalise=False, **options).double()
    with torch.no_grad():
        head.points.copy_(rows.Z)
        head.log_variance.copy_(rows.params["log_variance"])
        # One length scale for all features, as the head has.
        head.log_length_scale.copy_(rows.params["log_length_scale"][:1])
        head.started.fill_(True)
    head.load_state_dict(head.state_dict())  # which tells the head that it was started
    with torch.no_grad():
        object.__setattr__(rows, "Lz", torch.linalg.inv(inverse_factor(head.kernel, head._params(), rows.Z)))
    rows._cache.clear()
    return head


def set_natural(head: BayesianSVMHead, state: Natural) -> None:
    """Give a natural head these natural parameters."""
    eye = torch.eye(head.n_inducing, dtype=torch.float64)
    head.q.excess.copy_(state.precision - eye)
    head.q.linear.copy_(state.linear)


def classes_of(head: BayesianSVMHead) -> list[Tensor]:
    """A list that gets the classes that rows touch, step by step."""
    seen: list[Tensor] = []
    advance = head.q.advance

    def spy(pending, *args):
        seen.append(torch.cat([p.sites.classes for p in pending]))
        advance(pending, *args)

    head.q.advance = spy
    return seen


def values_of(head: BayesianSVMHead) -> list[Tensor]:
    """A list that gets the row terms, loss by loss."""
    seen: list[Tensor] = []
    terms = head.q.terms

    def spy(*args):
        found = terms(*args)
        seen.append(found[0].value.detach())
        return found

    head.q.terms = spy
    return seen


def plain_value(A: Tensor, residual: Tensor, m: Tensor, S: Tensor, classes: Tensor) -> Tensor:
    """Row terms against given rivals, in the plainest way there is."""
    F = A @ m.mT
    s2 = torch.einsum("np,cpq,nq->nc", A, S, A) + residual[:, None]
    F, s2 = F.gather(1, classes), s2.gather(1, classes)
    return pair_bound(F, s2).value


def plain_features(head: BayesianSVMHead, X: Tensor) -> tuple[Tensor, Tensor]:
    rows = whitened(head.kernel, head._params(), head.points, X, head._factor())
    return rows.A, rows.residual


def posterior_of(head: BayesianSVMHead) -> tuple[Tensor, Tensor]:
    q = head.q.posterior()
    return q.m.detach(), q.S.detach()
