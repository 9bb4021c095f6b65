"""The robust-max likelihood: the largest latent names the class, but for a share of errors.

Its expectation is the probability that the own class is the largest, a
one-dimensional integral over that class's latent (eqs. 8.10 to 8.12).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bayesvm._core.likelihoods.base import Probabilities, RowTerms, per_class_latents
from bayesvm._core.linalg import INV_SQRT_2PI, exp_, normal_cdf
from bayesvm._core.variation_ratio import argmax_probability

_TAIL = 5.0


@dataclass(frozen=True)
class RobustMax:
    r"""p(y | f) = 1 - eps if f_y is the largest, else eps / (C - 1), in exact expectation.

    It is not log-concave: W is negative where a row is on the wrong side, and
    far from the margin on either side a row has no say at all.

    Parameters
    ----------
    epsilon : float
        Share of labels that are wrong independently of the latents.
    n_nodes : int
        Trapezoid nodes over the latent of the own class. Largest errors of
        the 24, for three to ten classes and a standard deviation of one of
        the own class: where rivals have one as well 1e-6 in the value, 1e-6
        in the slope and 3e-5 in W; at a half 3e-6, 1e-4 and 7e-5; at a fifth
        4e-3, 5e-2 and .25, with slopes up to 4 and W up to 5. Twice the nodes
        serve rivals of half that standard deviation.
    """

    epsilon: float = 1e-3
    n_nodes: int = 24
    shift_invariant: ClassVar[bool] = True
    log_concave: ClassVar[bool] = False

    def n_latents(self, n_classes: int) -> int:
        return 1 if n_classes == 2 else n_classes

    def _levels(self, n_classes: int) -> tuple[float, float]:
        """Log p of a wrong class, and the increase for the largest."""
        wrong = math.log(self.epsilon / (n_classes - 1))
        return wrong, math.log1p(-self.epsilon) - wrong

    def log_likelihood(self, y: Tensor, f: Tensor) -> Tensor:
        f = per_class_latents(f)
        wrong, gain = self._levels(f.shape[-1])
        return wrong + gain * (f.argmax(-1) == y).to(f.dtype)

    def conditional(self, f: Tensor) -> Tensor:
        f = per_class_latents(f)
        is_largest = torch.nn.functional.one_hot(f.argmax(-1), f.shape[-1]).to(f.dtype)
        return self._mixed(is_largest)

    def _mixed(self, P: Tensor) -> Tensor:
        """Class probabilities when class j is the largest with probability P_j (eq. 8.10)."""
        return (1.0 - self.epsilon) * P + self.epsilon / (P.shape[-1] - 1) * (1.0 - P)

    def probabilities(self, F: Tensor, s2: Tensor) -> Probabilities:
        """Known latents leave the entropy of the errors, the same for every row (eq. 8.10)."""
        proba = self._mixed(argmax_probability(F, s2))
        wrong, gain = self._levels(F.shape[1])
        entropy = -(self.epsilon * wrong + (1.0 - self.epsilon) * (wrong + gain))
        whole = torch.special.entr(proba).sum(1)
        return Probabilities(proba, whole.clamp_max(entropy))

    def row_terms(self, y: Tensor, F: Tensor, s2: Tensor) -> RowTerms:
        r"""Expected log-likelihood and its derivatives, by quadrature (eqs. 8.11, 8.12).

        What is constant over the nodes is multiplied in after their sum.
        """
        if F.shape[1] == 1:
            return self._two_classes(y, F, s2)
        C = F.shape[1]
        wrong, gain = self._levels(C)
        own = y[None, :]
        rival = torch.arange(C - 1, device=y.device)[:, None]
        rival = rival + (rival >= own)
        F, s = F.mT, s2.mT.sqrt()  # [C, N]
        # The window in which both the own class and the maximum of the rivals have
        # mass. An empty one has length zero: the probability is zero.
        lower = (F - _TAIL * s).amax(0)
        F_y, s_y = F.gather(0, own), s.gather(0, own)  # [1, N]
        F_t, s_t = F.gather(0, rival), s.gather(0, rival)  # [C - 1, N]
        step = (torch.maximum(F_y + _TAIL * s_y, lower) - lower) / (self.n_nodes - 1)
        grid = torch.arange(self.n_nodes, dtype=F.dtype, device=F.device)
        x = torch.addcmul(lower, step, grid[:, None])  # [Q, N]
        u = (x - F_y) / s_y
        dP = exp_(u.square(), -0.5).mul_(step * INV_SQRT_2PI / s_y)

        # Nodes × rivals × rows, the only large arrays; z is scaled for erf.
        z = (x[:, None, :] - F_t).mul_(math.sqrt(0.5) / s_t)
        Phi = torch.erf(z).add_(1.0).mul_(0.5)
        dP.mul_(Phi.prod(1))
        density = exp_(z.square(), -1.0).div_(Phi).mul_(dP[:, None, :])  # times s_t sqrt(2 pi)
        by_rival = density.sum(0).mul_((-gain * INV_SQRT_2PI) / s_t)
        W_t = density.mul_(z).sum(0).mul_((gain * math.sqrt(2.0) * INV_SQRT_2PI) / s_t.square())
        W_y = (dP * (1.0 - u.square())).sum(0, keepdim=True).mul_(gain / s_y.square())

        slope, W = torch.empty_like(F), torch.empty_like(F)  # laid out by rows, as F was
        slope.scatter_(0, rival, by_rival).scatter_(0, own, -by_rival.sum(0, keepdim=True))
        W.scatter_(0, rival, W_t).scatter_(0, own, W_y)
        return RowTerms(wrong + gain * dP.sum(0), slope.mT, W.mT)

    def _two_classes(self, y: Tensor, F: Tensor, s2: Tensor) -> RowTerms:
        """The difference has the right sign with probability Phi(y F / s)."""
        wrong, gain = self._levels(2)
        s = s2.sqrt()
        sign = (2 * y - 1).to(F)[:, None]
        z = sign * F / s
        pdf = torch.exp(-0.5 * z * z) * (INV_SQRT_2PI * gain)
        return RowTerms((wrong + gain * normal_cdf(z))[:, 0], sign * pdf / s, z * pdf / s2)
