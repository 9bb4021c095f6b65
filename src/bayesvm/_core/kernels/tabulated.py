"""Covariances of many rows with the same inducing points: looked up where columns take few values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from bayesvm._core.kernels.additive import AdditiveRBF
from bayesvm._core.kernels.base import Kernel, Params
from bayesvm._core.kernels.compose import Scaled, Sum, child

# A column with more values than this is computed.
_MOST_LEVELS = 32
# Rows in which the values of the columns are looked for; others are computed when they turn up.
_SAMPLE_ROWS = 4096
# Numbers in the table of columns that are looked up together: half a megabyte, which a cache holds.
_TABLE_NUMBERS = 65_536


class CrossToInducing(Protocol):
    """Covariances with fixed inducing points; can be pickled."""

    def __call__(self, X: Tensor) -> Tensor:
        """Covariances of the rows with the inducing points, shape (N, P)."""
        ...


def cross_to_inducing(kernel: Kernel, params: Params, Z: Tensor, X: Tensor) -> CrossToInducing:
    """``kernel.cross(params, ., Z)`` for many rows like X, to rounding.

    An additive kernel costs D exponentials a pair, which is more than
    everything else in a sweep. Counts, ranks and codes take few values: a
    table of the sums over two to five such columns replaces them (measured on
    ten columns of playing cards: a tenth of the time).
    """
    if isinstance(kernel, Sum):
        parts = enumerate(kernel.kernels)
        return _SumOf(tuple(cross_to_inducing(k, child(params, i), Z, X) for i, k in parts))
    if isinstance(kernel, Scaled):
        return _Multiple(cross_to_inducing(kernel.kernel, params, Z, X), kernel.factor)
    if isinstance(kernel, AdditiveRBF):
        levels = _levels(X[:_SAMPLE_ROWS])
        if levels:
            return _tabulated(kernel, params, Z, levels)
    return _Computed(kernel, params, Z)


@dataclass(frozen=True)
class _Computed:
    kernel: Kernel
    params: Params
    Z: Tensor

    def __call__(self, X: Tensor) -> Tensor:
        return self.kernel.cross(self.params, X, self.Z)


@dataclass(frozen=True)
class _SumOf:
    parts: tuple[CrossToInducing, ...]

    def __call__(self, X: Tensor) -> Tensor:
        K = self.parts[0](X)
        for part in self.parts[1:]:
            K = K + part(X)  # in place is not safe: a kernel may give a view
        return K


@dataclass(frozen=True)
class _Multiple:
    part: CrossToInducing
    factor: float

    def __call__(self, X: Tensor) -> Tensor:
        return self.factor * self.part(X)


@dataclass(frozen=True)
class _Tabulated:
    """An additive kernel with tables for groups of columns.

    Attributes
    ----------
    computed : _Computed
        The kernel itself, for rows with a value that no table knows.
    columns : Tensor of shape (d,)
        Columns with tables, group by group.
    levels : Tensor of shape (d, L)
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

    computed: _Computed
    columns: Tensor
    levels: Tensor
    stride: Tensor
    group: Tensor
    table: Tensor
    offset: Tensor
    rest: Tensor

    def __call__(self, X: Tensor) -> Tensor:
        values = X.mT.index_select(0, self.columns)
        index = torch.searchsorted(self.levels, values).clamp_max_(self.levels.shape[1] - 1)
        if not bool((self.levels.gather(1, index) == values).all()):
            return self.computed(X)
        places = self.offset.expand(-1, X.shape[0]).index_add(0, self.group, index.mul_(self.stride))
        first, *others = places.unbind()
        K = self.table.index_select(0, first)
        for place in others:
            K.add_(self.table.index_select(0, place))
        if self.rest.numel():
            K.add_(_columns_of(self.computed, X, self.rest))
        return K


def _columns_of(computed: _Computed, X: Tensor, columns: Tensor) -> Tensor:
    """The part of an additive kernel that some columns make, X holding all columns."""
    assert isinstance(computed.kernel, AdditiveRBF)
    w, q = computed.kernel.weights(computed.params)
    return AdditiveRBF.weighted_sum(X[:, columns], computed.Z[:, columns], w[columns], q[columns])


def _levels(X: Tensor) -> dict[int, Tensor]:
    """The distinct values of the columns that have few."""
    ordered = X.sort(0).values
    n_levels = 1 + (ordered[1:] != ordered[:-1]).sum(0)
    return {int(d): torch.unique(X[:, d]) for d in (n_levels <= _MOST_LEVELS).nonzero()[:, 0]}


def _tabulated(kernel: AdditiveRBF, params: Params, Z: Tensor, levels: dict[int, Tensor]) -> CrossToInducing:
    computed = _Computed(kernel, params, Z)
    columns, strides, owner, tables = [], [], [], []
    for g, group in enumerate(_groups({d: len(v) for d, v in levels.items()}, _TABLE_NUMBERS // Z.shape[0])):
        values = torch.cartesian_prod(*(levels[d] for d in group)).reshape(-1, len(group))
        rows = Z.new_zeros(values.shape[0], Z.shape[1])
        rows[:, group] = values
        tables.append(_columns_of(computed, rows, torch.tensor(group, device=Z.device)))
        stride = values.shape[0]
        for d in group:  # as in the Cartesian product: the last column runs fastest
            stride //= len(levels[d])
            columns.append(d)
            strides.append(stride)
            owner.append(g)
    device = Z.device
    padded = Z.new_full((len(columns), max(len(v) for v in levels.values())), torch.inf)
    for i, d in enumerate(columns):
        padded[i, : len(levels[d])] = levels[d]
    ends = torch.tensor([len(t) for t in tables], device=device).cumsum(0)
    offset = torch.cat([ends.new_zeros(1), ends[:-1]])[:, None]
    rest = torch.tensor([d for d in range(Z.shape[1]) if d not in levels], dtype=torch.int64, device=device)
    return _Tabulated(
        computed,
        torch.tensor(columns, device=device),
        padded,
        torch.tensor(strides, device=device)[:, None],
        torch.tensor(owner, device=device),
        torch.cat(tables),
        offset,
        rest,
    )


def _groups(sizes: dict[int, int], most: int) -> Iterator[list[int]]:
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
    yield from members
