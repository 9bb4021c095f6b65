"""The paper's augmented bound with one rival per row: two sites whatever the number of classes."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

__all__ = ["PairTerms", "augmented_pair"]


class PairTerms(NamedTuple):
    """Bound and sites of rows that touch their own class and one rival (eq. 3.2).

    All of shape (N,): the value, the precision shared by both sites and the
    two linear parts.
    """

    value: Tensor
    w: Tensor
    G_y: Tensor
    G_t: Tensor


def augmented_pair(F_y: Tensor, F_t: Tensor, s2_y: Tensor, s2_t: Tensor) -> PairTerms:
    r"""Row term -(sqrt(A) + b) at the optimal local parameters, with its sites.

    :math:`A = b^2 + s_t^2 + s_y^2`, :math:`b = 1 + F_t - F_y` (eqs. 2.1, 2.3, 3.2).
    """
    b = 1.0 + F_t - F_y
    root = (b * b + s2_t + s2_y).sqrt()
    w = 1.0 / root
    return PairTerms(-(root + b), w, w * (1.0 + F_t) + 1.0, -(w * (1.0 - F_y) + 1.0))
