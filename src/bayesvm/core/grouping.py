"""Rows that touch only a few classes each, sorted by class so that work does not grow with C."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bayesvm.core import linalg
from bayesvm.core.gaussian import Gaussian
from bayesvm.core.sites import Statistics

__all__ = ["ClassGroups"]

# From here on a product per class is mostly overhead and one gathered sum is faster.
_MANY_CLASSES = 64


@dataclass(frozen=True)
class ClassGroups:
    """Features of (row, class) pairs, gathered class by class.

    One solve and one product per class, everything else for all pairs at once.

    Attributes
    ----------
    A : Tensor of shape (N K, P)
        Features of the rows, sorted by the class they touch.
    label, order : Tensor of shape (N K,)
        Class of each sorted pair, and its position among the pairs row by row.
    counts : list of int
        Pairs of each class.
    n_columns : int
        Classes per row, K.
    """

    A: Tensor
    label: Tensor
    order: Tensor
    counts: list[int]
    n_columns: int

    @classmethod
    def of(cls, A: Tensor, classes: Tensor, n_classes: int) -> ClassGroups:
        """Group the pairs (n, classes[n, k]) of K classes per row."""
        K = classes.shape[1]
        label, order = classes.reshape(-1).sort(stable=True)
        counts = torch.bincount(label, minlength=n_classes).tolist()
        rows = order.div(K, rounding_mode="floor")
        return cls(A.index_select(0, rows), label, order, counts, K)

    def moments(self, q: Gaussian) -> tuple[Tensor, Tensor]:
        """Means a_n^T m_j and explained variances a_n^T S_j a_n, shape (N, K) each (eq. 1.4)."""
        A = self.A.split(self.counts)
        out = self.A.new_empty(2, self.A.shape[0])
        # A small solution per class stays in memory that is already mapped;
        # one for all pairs would spend as long in page faults as in solves.
        for R_j, A_j, V_j in zip(q.R.unbind(), A, out[1].split(self.counts), strict=True):
            if len(A_j):
                V_j.copy_(linalg.inverse_quadratic(R_j, A_j.mT))
        if len(A) < _MANY_CLASSES:
            for m_j, A_j, F_j in zip(q.m.unbind(), A, out[0].split(self.counts), strict=True):
                torch.mv(A_j, m_j, out=F_j)
        else:
            out[0] = torch.einsum("np,np->n", self.A, q.m.index_select(0, self.label))
        rows = torch.empty_like(out).scatter_(1, self.order.expand(2, -1), out)
        mean, variance = rows.reshape(2, -1, self.n_columns)
        return mean, variance

    def add_statistics(self, W: Tensor, G: Tensor, into: Statistics) -> None:
        """Add the sums of W a a^T and of G a over the pairs of each class (eq. 3.1).

        The features are scaled by the roots of the precisions where they lie,
        since another copy would cost as much as the products: call this last.
        """
        root = W.reshape(-1).index_select(0, self.order).sqrt_()
        g = G.reshape(-1).index_select(0, self.order).div_(root)
        A = self.A.mul_(root[:, None]).split(self.counts)
        for precision, linear, A_j, g_j in zip(
            into.precision.unbind(), into.linear.unbind(), A, g.split(self.counts), strict=True
        ):
            if len(A_j):
                # Not addmm_, so that the sums may have more digits than the products.
                precision.add_(A_j.mT @ A_j)
                linear.add_(A_j.mT @ g_j)
