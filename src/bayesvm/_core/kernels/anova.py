"""Products of one factor per column, which capture rules of few columns and interactions of many.

An exponential for every pair of rows and every column makes this the most
expensive kernel. Where a column takes few values, as pixels, counts and
encoded categories do, tables take the place of exponentials: ``AnovaOnRows``
while the kernel is learned, where rows stay and parameters change, and
``AnovaFromTables`` in passes over many rows, where parameters stay.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bayesvm._compiled.kernels import MOST_ALONE, Array, FactorsOfColumns
from bayesvm._core.kernels.base import Params, PlainCross
from bayesvm._core.linalg import LOG2_E

# Numbers of N × P × columns treated at once: few enough for the cache, many
# enough to avoid one call per column in small problems.
_CHUNK_NUMBERS = 128_000
_LN2 = math.log(2.0)


class _ProductOverColumns(torch.autograd.Function):
    r"""K = prod_d (1 - b_d + b_d (1 + u) exp(-u)), u = rho_d |x_d - z_d|, a few columns at a time.

    Written by hand because autograd would keep D matrices of N × P alive; a
    chunk fits into cache, so computing it again in the backward pass costs
    less than reading it back. Columns come first, so that the innermost
    loops run over neighbours in memory, and powers are those of two, which
    torch computes in half the time of exp.
    """

    @staticmethod
    def forward(ctx: Any, X: Tensor, Z: Tensor, b: Tensor, rho: Tensor) -> Tensor:
        K = X.new_ones(X.shape[0], Z.shape[0])
        for part, delta in _scaled_differences(X, Z, rho):
            delta.abs_()
            factors = _factors(_correlations(delta, _falling(delta)), b[part])
            K.mul_(factors[0] if len(factors) == 1 else factors.prod(0))
        ctx.save_for_backward(X, Z, b, rho, K)
        return K

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        X, Z, b, rho, K = ctx.saved_tensors
        gK = grads[0] * K
        needs_x, needs_z = ctx.needs_input_grad[:2]
        gb, gr = torch.empty_like(b), torch.empty_like(rho)
        gX = torch.empty_like(X) if needs_x else None
        gZ = torch.empty_like(Z) if needs_z else None
        tiny = torch.finfo(K.dtype).tiny
        for part, delta in _scaled_differences(X, Z, rho):
            size = delta.abs()
            falling = _falling(size)
            kappa = _correlations(size, falling)
            share = gK / _factors(kappa.clone(), b[part]).clamp_min_(tiny)
            gb[part] = torch.linalg.vecdot(share.flatten(1), kappa.sub_(1.0).flatten(1))
            share.mul_(falling)
            if gX is not None or gZ is not None:
                # d kappa / d x = -u exp(-u) rho sign(x - z), with u sign(x - z) = delta / log2(e)
                slope = share * delta
                rate = b[part] * rho[part] / LOG2_E
                if gX is not None:
                    gX[:, part] = -(slope.sum(2) * rate[:, None]).mT
                if gZ is not None:
                    gZ[:, part] = (slope.sum(1) * rate[:, None]).mT
            gr[part] = torch.linalg.vecdot(share.flatten(1), size.square_().flatten(1))
        return gX, gZ, gb, gr.mul_(b).div_(rho).mul_(-1.0 / LOG2_E**2)


def _scaled_differences(X: Tensor, Z: Tensor, rho: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Chunks of columns with (x_d - z_d) rho_d log2(e), shape (d, N, P) each."""
    scale = LOG2_E * rho
    U, V = (X * scale).mT.contiguous(), (Z * scale).mT.contiguous()
    size = max(1, _CHUNK_NUMBERS // max(1, X.shape[0] * Z.shape[0]))
    for start in range(0, X.shape[1], size):
        part = slice(start, min(start + size, X.shape[1]))
        yield part, U[part, :, None] - V[part, None, :]


def _falling(size: Tensor) -> Tensor:
    """exp(-u) from u log2(e)."""
    return size.neg().exp2_()


def _correlations(size: Tensor, falling: Tensor) -> Tensor:
    """(1 + u) exp(-u) from u log2(e) and exp(-u)."""
    return torch.addcmul(falling, size, falling, value=_LN2)


def _factors(kappa: Tensor, b: Tensor) -> Tensor:
    """1 - b + b kappa, in place."""
    b = b.view(-1, *[1] * (kappa.ndim - 1))
    return kappa.sub_(1.0).mul_(b).add_(1.0)


@dataclass(frozen=True)
class Anova:
    r"""A product of one-dimensional Matérn kernels that each leave a share alone (eq. 13.1).

    .. math:: k(x, z) = \sigma^2 \prod_d \bigl( 1 - b_d + b_d (1 + u_d) e^{-u_d} \bigr),
              \quad u_d = \sqrt3 |x_d - z_d| / l_d

    Multiplied out, it is a sum over all sets of columns: functions of one column,
    of two, and so on, the more columns the less variance (Stitson et al., 1999;
    Durrande et al., 2013).

    Parameters
    ----------
    variance, length_scale : float
        Starting values; length scales are in standard deviations of a column.
    order : float
        What the shares :math:`b_d` sum to at the start, but none is more than 0.7. About the number of
        columns on which a function depends.
    """

    variance: float = 1.0
    length_scale: float = 1.0
    order: float = 3.0

    # Wider than for stationary kernels: a share changes one factor, which never falls below 1 - b, and
    # of many columns few matter (penguins with 53 columns of text and numbers: log-loss of the island
    # .089 with 0.1, .032 with this; on noise no difference).
    deviation_scale = 0.3

    def init(self, X: Tensor) -> Params:
        D = X.shape[1]
        share = min(_LARGEST_SHARE, self.order / max(D, 1))
        return {
            "log_variance": X.new_tensor(math.log(self.variance)),
            "logits": X.new_full((D,), math.log(share / (1.0 - share))),
            "log_length_scale": X.new_full((D,), math.log(self.length_scale)),
        }

    def cross(self, params: Params, X: Tensor, Z: Tensor) -> Tensor:
        return params["log_variance"].exp() * product_over_columns(X, Z, *shares_and_rates(params))

    def diag(self, params: Params, X: Tensor) -> Tensor:
        return params["log_variance"].exp().expand(X.shape[0])

    def relevance(self, params: Params, n_features: int) -> Tensor:
        b, rho = shares_and_rates(params)
        return params["log_variance"].exp() * b * rho.square()

    def on_rows(self, X: Tensor) -> Anova | AnovaOnRows:
        return AnovaOnRows.of(self, X) or self

    def to_inducing(self, params: Params, Z: Tensor, X: Tensor) -> AnovaFromTables | PlainCross:
        plain = PlainCross(self, params, Z)
        return AnovaFromTables.of(plain, X) or plain

    def compiled(self, params: dict[str, Array], Z: Array, factor: float, dtype: str) -> FactorsOfColumns:
        return FactorsOfColumns.of(params, Z, factor, dtype)


_LARGEST_SHARE = 0.7


def shares_and_rates(params: Params) -> tuple[Tensor, Tensor]:
    r"""Shares b and rates :math:`\sqrt3 / l` of the columns, shape (D,) each."""
    return torch.sigmoid(params["logits"]).clamp_max(MOST_ALONE), math.sqrt(3.0) * torch.exp(
        -params["log_length_scale"]
    )


def product_over_columns(X: Tensor, Z: Tensor, b: Tensor, rho: Tensor) -> Tensor:
    """The kernel without its variance."""
    K: Tensor = _ProductOverColumns.apply(X, Z, b, rho)  # type: ignore[no-untyped-call]
    return K


def _product_over(columns: Tensor, X: Tensor, Z: Tensor, b: Tensor, rho: Tensor) -> Tensor:
    """The factors that some columns contribute."""
    return product_over_columns(X[:, columns], Z[:, columns], b[columns], rho[columns])


def _number_of_values(X: Tensor) -> Tensor:
    """How many distinct values each column has, shape (D,)."""
    ordered = X.sort(0).values
    return 1 + (ordered[1:] != ordered[:-1]).sum(0)


# A value costs a row of a matrix product instead of exponentials.
_MOST_VALUES_LEARNING = 24
_MOST_VALUES_TOGETHER = 4096
_FEWEST_COLUMNS = 2


@dataclass(frozen=True)
class AnovaOnRows:
    r"""The kernel on fixed rows, evaluated at every step of learning.

    Columns with few distinct values share a table of logarithms of factors,
    :math:`\log K = H T` with indicators H of the values of each row and
    :math:`T_{lp} = \log(1 - b_d + b_d \kappa(v_l, z_{pd}))`.

    Attributes
    ----------
    kernel : Anova
    X : Tensor of shape (N, D)
        The rows; any other tensor is passed on to ``kernel``.
    indicators : Tensor of shape (N, L)
    values, column : Tensor of shape (L,)
        Distinct values, and the columns that they belong to.
    rest : Tensor
        Columns with many values.
    """

    kernel: Anova
    X: Tensor
    indicators: Tensor
    values: Tensor
    column: Tensor
    rest: Tensor

    @classmethod
    def of(cls, kernel: Anova, X: Tensor) -> AnovaOnRows | None:
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
        b, rho = shares_and_rates(params)
        d = self.column
        u = rho[d, None] * (self.values[:, None] - Z.mT[d]).abs()
        logs = torch.log1p(b[d, None] * ((1.0 + u) * torch.exp(-u) - 1.0))
        K = torch.exp(torch.addmm(params["log_variance"], self.indicators, logs))
        return K * _product_over(self.rest, X, Z, b, rho) if self.rest.numel() else K

    def diag(self, params: Params, X: Tensor) -> Tensor:
        return self.kernel.diag(params, X)


# A column with more values than this is computed.
_MOST_VALUES_IN_PASSES = 32
# Rows whose values enter the tables; covariances of other values are computed when they occur.
_SAMPLE_ROWS = 4096
# Numbers in the table of columns that are looked up together: half a megabyte, which a cache holds.
_TABLE_NUMBERS = 65_536


@dataclass(frozen=True)
class AnovaFromTables:
    """Covariances with fixed inducing points, looked up for groups of columns.

    A table of the products over two to five columns with few values replaces their
    exponentials, which cost more than everything else in a pass.

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
        The tables of the groups, one below the other; the first has the variance of the kernel.
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
    def of(cls, plain: PlainCross, X: Tensor) -> AnovaFromTables | None:
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
            of_group = torch.tensor(group, device=Z.device)
            tables.append(_product_over(of_group, rows, Z, *shares_and_rates(params)))
            stride = places.shape[0]
            for d in group:  # as in the Cartesian product: the last column runs fastest
                stride //= len(values[d])
                columns.append(d)
                strides.append(stride)
                owner.append(g)
        tables[0] = params["log_variance"].exp() * tables[0]

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
            K.mul_(self.table.index_select(0, place))
        if self.rest.numel():
            K.mul_(_product_over(self.rest, X, self.plain.Z, *shares_and_rates(self.plain.params)))
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
