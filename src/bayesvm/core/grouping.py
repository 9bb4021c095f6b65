"""Rows that touch only a few classes each, sorted by class so that work does not grow with C."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from bayesvm.core import linalg
from bayesvm.core.gaussian import Gaussian

__all__ = ["ClassGroups"]


@dataclass(frozen=True)
class ClassGroups:
    """Features of (row, class) pairs, gathered class by class.

    Attributes
    ----------
    A : Tensor of shape (N K, P)
        Features of the rows, sorted by the class they touch.
    order : Tensor of shape (N K,)
        Position of each sorted pair among the pairs row by row.
    counts : list of int
        Pairs of each class.
    """

    A: Tensor
    order: Tensor
    counts: list[int]
    n_columns: int

    @classmethod
    def of(cls, A: Tensor, classes: Tensor, n_classes: int) -> ClassGroups:
        """Group the pairs (n, classes[n, k]) of K classes per row."""
        K = classes.shape[1]
        flat = classes.reshape(-1)
        order = flat.argsort(stable=True)
        counts = torch.bincount(flat, minlength=n_classes).tolist()
        rows = order.div(K, rounding_mode="floor")
        return cls(A.index_select(0, rows), order, counts, K)

    def moments(self, q: Gaussian) -> tuple[Tensor, Tensor]:
        """Means a_n^T m_j and explained variances a_n^T S_j a_n, shape (N, K) each (eq. 1.4)."""
        out = self.A.new_empty(2, self.A.shape[0])
        for j, pairs in self._segments():
            A = self.A[pairs]
            torch.mv(A, q.m[j], out=out[0, pairs])
            out[1, pairs] = linalg.inverse_quadratic(q.R[j], A.mT)
        rows = torch.empty_like(out)
        rows[:, self.order] = out
        mean, variance = rows.reshape(2, -1, self.n_columns)
        return mean, variance

    def statistics(self, W: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
        """Sums of W a a^T, shape (C, P, P), and of G a, shape (C, P) (eq. 3.1)."""
        P = self.A.shape[1]
        w = W.reshape(-1)[self.order]
        g = G.reshape(-1)[self.order]
        precision = self.A.new_zeros(len(self.counts), P, P)
        linear = self.A.new_zeros(len(self.counts), P)
        for j, pairs in self._segments():
            A = self.A[pairs]
            torch.mm((A * w[pairs, None]).mT, A, out=precision[j])
            torch.mv(A.mT, g[pairs], out=linear[j])
        return precision, linear

    def _segments(self) -> Iterator[tuple[int, slice]]:
        start = 0
        for j, n in enumerate(self.counts):
            if n:
                yield j, slice(start, start + n)
                start += n
