"""Natural parameters of q and the moves between them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm.core import gaussian, linalg
from bayesvm.core.gaussian import Gaussian

__all__ = ["Natural"]


class Natural(NamedTuple):
    """Natural parameters of q: precisions (C, P, P) and linear parts (C, P)."""

    precision: Tensor
    linear: Tensor

    @classmethod
    def prior(cls, n_latents: int, like: Tensor) -> Natural:
        """Those of N(0, I), for P x P matrices like ``like``."""
        P = like.shape[-1]
        eye = torch.eye(P, dtype=like.dtype, device=like.device)
        return cls(eye.expand(n_latents, P, P), like.new_zeros(n_latents, P))

    @classmethod
    def of(cls, q: Gaussian) -> Natural:
        """Those of a Gaussian."""
        return cls(q.R @ q.R.mT, (q.R @ (q.R.mT @ q.m.unsqueeze(-1))).squeeze(-1))

    def plus(self, precision: Tensor, linear: Tensor) -> Natural:
        """With the statistics of rows added (eq. 3.1)."""
        return Natural(self.precision + precision, self.linear + linear)

    def towards(self, other: Natural, rho: float) -> Natural:
        """The damped step (1 - rho) self + rho other (eq. 3.4)."""
        return Natural(
            torch.lerp(self.precision, other.precision, rho), torch.lerp(self.linear, other.linear, rho)
        )

    def posterior(self, centre: bool) -> tuple[Natural, Gaussian]:
        """The Gaussian, centred if asked, with its natural parameters (eqs. 3.1, 3.5)."""
        q = gaussian.rooted(self.precision, self.linear)
        if not centre:
            return self, q
        q = gaussian.centred(q)
        return Natural(self.precision, (self.precision @ q.m.unsqueeze(-1)).squeeze(-1)), q

    def carried(self, cross: Tensor, L_old: Tensor, L_new: Tensor) -> Natural:
        r"""The same sites under other inducing points (eq. 7.2).

        :math:`T = L_{old}^{-1} K_{old,new} L_{new}^{-\top}`; precisions beyond
        the prior become :math:`T^\top (\cdot) T` and linear parts :math:`T^\top h`.

        Parameters
        ----------
        cross : Tensor of shape (P_old, P_new)
            Covariances of the old inducing points with the new ones.
        """
        T = linalg.solve_lower(L_new, linalg.solve_lower(L_old, cross).mT).mT
        eye_old = torch.eye(T.shape[0], dtype=T.dtype, device=T.device)
        eye_new = torch.eye(T.shape[1], dtype=T.dtype, device=T.device)
        beyond = self.precision - eye_old
        return Natural(T.mT @ beyond @ T + eye_new, self.linear @ T)
