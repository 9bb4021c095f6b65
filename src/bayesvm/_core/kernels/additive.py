"""Sums of one-dimensional functions, which capture axis-aligned rules.

An exponential for every pair of rows and every feature makes this the most
expensive kernel. Where a column takes few values, as pixels, counts and
encoded categories do, tables take the place of exponentials: ``AdditiveOnRows``
while the kernel is learned, where rows stay and parameters change, and
``AdditiveFromTables`` in passes over many rows, where parameters stay.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bayesvm._compiled.kernels import Array, OneDimensionalTerms
from bayesvm._core.kernels.base import Params, PlainCross
from bayesvm._core.linalg import LOG2_E, exp_of

# Numbers of N × P × features treated at once: few enough for the cache, many
# enough to avoid one call per feature in small problems.
_CHUNK_NUMBERS = 128_000


class _WeightedSum(torch.autograd.Function):
    r"""K = sum_d w_d exp(-(x_d - z_d)^2 q_d / 2), a few features at a time.

    Written by hand because autograd would keep D matrices of N × P alive; a
    chunk fits into cache, so computing it again in the backward pass costs
    less than reading it back. Features come first, so that the innermost
    loops run over neighbours in memory, and powers are those of two, which
    torch computes in half the time of exp (measured together: 2.5 times
    faster than feature by feature at N = P = 124, D = 13 and at N = 1000,
    P = 64, D = 60).
    """

    @staticmethod
    def forward(ctx: Any, X: Tensor, Z: Tensor, w: Tensor, q: Tensor) -> Tensor:
        ctx.save_for_backward(X, Z, w, q)
        K = X.new_zeros(X.shape[0] * Z.shape[0])
        for part, delta in _scaled_differences(X, Z, q):
            E = delta.square_().neg_().exp2_()
            K.addmv_(E.flatten(1).mT, w[part])
        return K.reshape(X.shape[0], Z.shape[0])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        X, Z, w, q = ctx.saved_tensors
        g = grads[0].reshape(-1)
        needs_x, needs_z = ctx.needs_input_grad[:2]
        gw, gq = torch.empty_like(w), torch.empty_like(q)
        gX = torch.empty_like(X) if needs_x else None
        gZ = torch.empty_like(Z) if needs_z else None
        for part, delta in _scaled_differences(X, Z, q):
            r = delta.square().flatten(1)
            E = r.neg().exp2_()
            gw[part] = E @ g
            if gX is not None or gZ is not None:
                slope = (E * g).reshape(delta.shape).mul_(delta)
                # d r / d x = 2 delta sqrt(q log2(e) / 2), and d exp2(-r) / d r = -E log(2)
                rate = w[part] * (2.0 * q[part] / LOG2_E).sqrt()
                if gX is not None:
                    gX[:, part] = -(slope.sum(2) * rate[:, None]).mT
                if gZ is not None:
                    gZ[:, part] = (slope.sum(1) * rate[:, None]).mT
            gq[part] = E.mul_(r) @ g
        return gX, gZ, gw, gq.mul_(w).div_(q).div_(-LOG2_E)


def _scaled_differences(X: Tensor, Z: Tensor, q: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Chunks of features with (x_d - z_d) sqrt(q_d log2(e) / 2), shape (d, N, P) each."""
    scale = (0.5 * LOG2_E * q).sqrt()
    U, V = (X * scale).mT.contiguous(), (Z * scale).mT.contiguous()
    size = max(1, _CHUNK_NUMBERS // max(1, X.shape[0] * Z.shape[0]))
    for start in range(0, X.shape[1], size):
        part = slice(start, min(start + size, X.shape[1]))
        yield part, U[part, :, None] - V[part, None, :]


@dataclass(frozen=True)
class AdditiveRBF:
    r"""A learned convex combination of one-dimensional RBF kernels.

    .. math:: k(x, z) = \sigma^2 \sum_d \pi_d \exp(-(x_d - z_d)^2 / 2 l_d^2),
              \quad \pi = \mathrm{softmax}(\text{logits})

    Parameters
    ----------
    variance, length_scale : float
        Starting values; length scales are in standard deviations of a column.
    """

    variance: float = 1.0
    length_scale: float = 1.0

    # Wider than where columns multiply: here one has a D-th of the variance, and the same
    # deviation changes less. On 65 splits of small sets (seeds 104, 105) accuracy .7719 and
    # log-loss .535 with 0.1 in both places, .7807 and .527 with these; on noise no difference.
    deviation_scale = 0.3

    def init(self, X: Tensor) -> Params:
        D = X.shape[1]
        return {
            "log_variance": X.new_tensor(math.log(self.variance)),
            "logits": X.new_zeros(D),
            "log_length_scale": X.new_full((D,), math.log(self.length_scale)),
        }

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        return weighted_sum(X, Z, *weights(params))

    def diag(self, params: Params, X: Tensor) -> Tensor:
        return params["log_variance"].exp().expand(X.shape[0])

    def relevance(self, params: Params, n_features: int) -> Tensor:
        w, q = weights(params)
        return w * q

    def on_rows(self, X: Tensor) -> AdditiveRBF | AdditiveOnRows:
        return AdditiveOnRows.of(self, X) or self

    def to_inducing(self, params: Params, Z: Tensor, X: Tensor) -> AdditiveFromTables | PlainCross:
        plain = PlainCross(self, params, Z)
        return AdditiveFromTables.of(plain, X) or plain

    def compiled(self, params: dict[str, Array], Z: Array, factor: float, dtype: str) -> OneDimensionalTerms:
        return OneDimensionalTerms.of(params, Z, factor, dtype)


def weights(params: Params) -> tuple[Tensor, Tensor]:
    """Variances w and inverse squared length scales q of the features, shape (D,) each."""
    w = params["log_variance"].exp() * torch.softmax(params["logits"], 0)
    return w, torch.exp(-2.0 * params["log_length_scale"])


def weighted_sum(X: Tensor, Z: Tensor, w: Tensor, q: Tensor) -> Tensor:
    K: Tensor = _WeightedSum.apply(X, Z, w, q)  # type: ignore[no-untyped-call]
    return K


def _sum_over(columns: Tensor, X: Tensor, Z: Tensor, w: Tensor, q: Tensor) -> Tensor:
    """The part of the kernel that some columns contribute."""
    return weighted_sum(X[:, columns], Z[:, columns], w[columns], q[columns])


def _number_of_values(X: Tensor) -> Tensor:
    """How many distinct values each column has, shape (D,)."""
    ordered = X.sort(0).values
    return 1 + (ordered[1:] != ordered[:-1]).sum(0)


# A value costs a row of a matrix product instead of exponentials (measured with
# its gradient: 1/20 of the time at 2 values a column, 1/4 at 16, even at 60).
_MOST_VALUES_LEARNING = 24
_MOST_VALUES_TOGETHER = 4096
_FEWEST_COLUMNS = 2


@dataclass(frozen=True)
class AdditiveOnRows:
    r"""The additive kernel on fixed rows, evaluated at every step of learning.

    Columns with few distinct values share a table of covariances,
    :math:`K = H T` with indicators H of the values of each row and
    :math:`T_{lp} = w_d \exp(-(v_l - z_{pd})^2 q_d / 2)`.

    Attributes
    ----------
    kernel : AdditiveRBF
    X : Tensor of shape (N, D)
        The rows; any other tensor is passed on to ``kernel``.
    indicators : Tensor of shape (N, L)
    values, column : Tensor of shape (L,)
        Distinct values, and the columns that they belong to.
    rest : Tensor
        Columns with many values.
    """

    kernel: AdditiveRBF
    X: Tensor
    indicators: Tensor
    values: Tensor
    column: Tensor
    rest: Tensor

    @classmethod
    def of(cls, kernel: AdditiveRBF, X: Tensor) -> AdditiveOnRows | None:
        """The kernel prepared for the rows; None where too few columns have few values."""
        n_values = _number_of_values(X)
        few = (n_values <= _MOST_VALUES_LEARNING) & (n_values.cumsum(0) <= _MOST_VALUES_TOGETHER)
        chosen = few.nonzero()[:, 0]
        if chosen.numel() < _FEWEST_COLUMNS:
            return None
        values = [torch.unique(X[:, d]) for d in chosen]
        indicators = torch.cat([X[:, d, None] == v for d, v in zip(chosen, values, strict=True)], 1)
        column = chosen.repeat_interleave(torch.tensor([len(v) for v in values], device=X.device))
        return cls(kernel, X, indicators.to(X.dtype), torch.cat(values), column, (~few).nonzero()[:, 0])

    def init(self, X: Tensor) -> Params:
        return self.kernel.init(X)

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        if X is not self.X:
            return self.kernel.cross(params, X, Z)
        w, q = weights(params)
        d = self.column
        delta = self.values[:, None] - Z.mT[d]
        K = self.indicators @ (w[d, None] * exp_of(q[d, None] * delta.square(), -0.5))
        return K + _sum_over(self.rest, X, Z, w, q) if self.rest.numel() else K

    def diag(self, params: Params, X: Tensor) -> Tensor:
        return self.kernel.diag(params, X)


# A column with more values than this is computed.
_MOST_VALUES_IN_PASSES = 32
# Rows whose values enter the tables; covariances of other values are computed when they occur.
_SAMPLE_ROWS = 4096
# Numbers in the table of columns that are looked up together: half a megabyte, which a cache holds.
_TABLE_NUMBERS = 65_536


@dataclass(frozen=True)
class AdditiveFromTables:
    """Covariances of an additive kernel with fixed inducing points, looked up for groups of columns.

    A table of the sums over two to five columns with few values replaces their
    exponentials, which cost more than everything else in a pass (measured on
    ten columns of playing cards: a tenth of the time).

    Attributes
    ----------
    plain : PlainCross
        The kernel itself, for rows with a value that no table has.
    columns : Tensor of shape (d,)
        Columns with tables, group by group.
    values : Tensor of shape (d, L)
        Their values, increasing, then infinity.
    stride, group : Tensor of shape (d, 1) and (d,)
        A row's place in the table of a group is the sum of stride times index over its columns.
    table : Tensor of shape (all places, P)
        The tables of the groups, one below the other.
    offset : Tensor of shape (G, 1)
        Where each begins.
    rest : Tensor
        Columns without tables.
    """

    plain: PlainCross
    columns: Tensor
    values: Tensor
    stride: Tensor
    group: Tensor
    table: Tensor
    offset: Tensor
    rest: Tensor

    @classmethod
    def of(cls, plain: PlainCross, X: Tensor) -> AdditiveFromTables | None:
        """Tables for rows like X; None where every column has many values."""
        params, Z = plain.params, plain.Z
        sample = X[:_SAMPLE_ROWS]
        few = (_number_of_values(sample) <= _MOST_VALUES_IN_PASSES).nonzero()[:, 0].tolist()
        values = {d: torch.unique(sample[:, d]) for d in few}
        if not values:
            return None
        columns, strides, owner, tables = [], [], [], []
        groups = _groups({d: len(v) for d, v in values.items()}, _TABLE_NUMBERS // Z.shape[0])
        for g, group in enumerate(groups):
            places = torch.cartesian_prod(*(values[d] for d in group)).reshape(-1, len(group))
            rows = Z.new_zeros(places.shape[0], Z.shape[1])
            rows[:, group] = places
            tables.append(_sum_over(torch.tensor(group, device=Z.device), rows, Z, *weights(params)))
            stride = places.shape[0]
            for d in group:  # as in the Cartesian product: the last column runs fastest
                stride //= len(values[d])
                columns.append(d)
                strides.append(stride)
                owner.append(g)

        def integers(numbers: list[int]) -> Tensor:
            return torch.tensor(numbers, dtype=torch.int64, device=Z.device)

        padded = Z.new_full((len(columns), max(len(v) for v in values.values())), torch.inf)
        for i, d in enumerate(columns):
            padded[i, : len(values[d])] = values[d]
        ends = integers([len(t) for t in tables]).cumsum(0)
        return cls(
            plain,
            integers(columns),
            padded,
            integers(strides)[:, None],
            integers(owner),
            torch.cat(tables),
            torch.cat([ends.new_zeros(1), ends[:-1]])[:, None],
            integers([d for d in range(Z.shape[1]) if d not in values]),
        )

    def __call__(self, X: Tensor) -> Tensor:
        given = X.mT.index_select(0, self.columns)
        index = torch.searchsorted(self.values, given).clamp_max_(self.values.shape[1] - 1)
        if not bool((self.values.gather(1, index) == given).all()):
            return self.plain(X)
        places = self.offset.expand(-1, X.shape[0]).index_add(0, self.group, index.mul_(self.stride))
        first, *others = places.unbind()
        K = self.table.index_select(0, first)
        for place in others:
            K.add_(self.table.index_select(0, place))
        if self.rest.numel():
            K.add_(_sum_over(self.rest, X, self.plain.Z, *weights(self.plain.params)))
        return K


def _groups(sizes: dict[int, int], most: int) -> list[list[int]]:
    """Columns whose tables have at most that many places together: the largest first, where it fits."""
    places: list[int] = []
    members: list[list[int]] = []
    for d in sorted(sizes, key=lambda d: (-sizes[d], d)):
        fits = next((g for g, n in enumerate(places) if n * sizes[d] <= most), None)
        if fits is None:
            places.append(sizes[d])
            members.append([d])
        else:
            places[fits] *= sizes[d]
            members[fits].append(d)
    return members
