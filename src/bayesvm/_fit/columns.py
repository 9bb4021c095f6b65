"""What training rows say of a user's columns: levels, gaps, target means; and their standardisation.

Everything behind it sees numbers: codes of levels are columns like others until a row is standardised,
where they become blocks of indicators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from bayesvm._compiled.columns import (
    ColumnEncoder,
    Levels,
    as_table,
    column,
    not_numbers,
    numbers_of,
    one_hot,
    spelled,
)
from bayesvm._core.kernels.nominal import Blocks
from bayesvm._fit.engine import Chunk
from bayesvm._fit.rows import CanonicalRows, Extent, Scaler, mix, row_keys
from bayesvm._fit.validation import check_some_weight, check_weights

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int64]

# Above so many levels a column is described by its target means.
MOST_LEVELS = 30
# Rows with the class frequencies that may be added to those of a level.
_PRIOR_ROWS = 2.0 ** np.arange(-1, 11)
# What the levels must tell, in nats of evidence: noise does in one column of a hundred.
_LEAST_EVIDENCE = 3.0
# Folds whose rows get the target means of the other folds.
_FOLDS = 10


@dataclass(frozen=True)
class Encoded:
    """Rows that are numbers already, in place of X.

    Attributes
    ----------
    values : ndarray of shape (n_rows, width)
    encoder : ColumnEncoder or None
        What made them; None: they were numbers from the start.
    """

    values: FloatArray
    encoder: ColumnEncoder | None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape


def takes_categories(e: Any) -> bool:
    """Whether an estimator has ``categorical_features``, and takes missing numbers too."""
    return hasattr(e, "categorical_features")


def has_gaps(X: Any) -> bool:
    """Whether an array or a data frame in memory lacks a number; memory maps are not searched."""
    if isinstance(X, np.ndarray):
        return X.dtype.kind == "f" and not isinstance(X, np.memmap) and bool(np.isnan(X.sum(0)).any())
    if hasattr(X, "iloc"):
        return bool(X.isna().any(axis=None))
    return hasattr(X, "null_count") and any(count for count in X.null_count().row(0))


# --- Which columns are nominal.


def nominal_columns(X: Any, categorical_features: Any) -> IntArray:
    """Positions of the nominal columns, from ``"from_dtype"``, a mask, positions or names.

    Raises
    ------
    ValueError
        If they name columns that X does not have.
    """
    none = np.empty(0, dtype=np.int64)
    if categorical_features is None:
        return none
    if isinstance(categorical_features, str):
        if categorical_features != "from_dtype":
            raise ValueError(_not_valid(categorical_features))
        return np.flatnonzero([_is_category(kind) for kind in _dtypes(X)])
    declared = np.asarray(categorical_features)
    n_features = as_table(X).shape[1]
    if declared.ndim != 1 or declared.dtype.kind not in "biuOUT":
        if declared.size == 0:
            return none
        raise ValueError(_not_valid(categorical_features))
    if declared.dtype.kind == "b":
        if len(declared) != n_features:
            raise ValueError(
                f"categorical_features is a mask of {len(declared)} columns, and X has {n_features}"
            )
        return np.flatnonzero(declared)
    if declared.dtype.kind in "iu":
        outside = declared[(declared < -n_features) | (declared >= n_features)]
        if outside.size:
            raise ValueError(f"categorical_features names column {outside[0]}, and X has {n_features}")
        return np.unique(declared % n_features).astype(np.int64)
    names = getattr(X, "columns", None)
    if names is None:
        raise ValueError(
            "categorical_features holds names, and X is not a data frame: give positions or a mask"
        )
    names = list(names)
    unknown = [name for name in declared.tolist() if name not in names]
    if unknown:
        raise ValueError(f"categorical_features names {unknown[:5]}; X has the columns {names[:10]}")
    return np.unique([names.index(name) for name in declared.tolist()]).astype(np.int64)


def _not_valid(given: Any) -> str:
    return (
        f"categorical_features={given!r} is not valid; it must be 'from_dtype', None, a mask, or positions "
        "or names of columns"
    )


def _dtypes(X: Any) -> Sequence[Any]:
    found = getattr(X, "dtypes", None)
    return [] if found is None or not hasattr(X, "columns") else list(found)


def _is_category(dtype: Any) -> bool:
    """Whether a data type of pandas or polars is that of categories."""
    return type(dtype).__name__ == "CategoricalDtype" or str(dtype).startswith(("Categorical", "Enum"))


# --- Rows at the boundary of a fit.


def checked_rows(
    e: Any, X: Any, y: Any, sample_weight: Any, reset: bool, classes: Any = None
) -> tuple[Chunk, ColumnEncoder | None]:
    """Rows of an array or data frame as numbers, and how they were made; None: they are numbers.

    Parameters
    ----------
    e : estimator
        Notes number and names of the columns, or compares them with those of the last fit.
    X, y, sample_weight : the arguments of its fit
    reset : bool
        Whether levels and gaps are learned anew.
    classes : ndarray or None
        All labels, where y need not hold them; then rows that are not ``reset`` are new ones.
    """
    if isinstance(X, Encoded):
        e.n_features_in_ = X.values.shape[1] if X.encoder is None else X.encoder.n_features
        return Chunk(X.values, np.asarray(y), check_weights(sample_weight, len(X.values))), X.encoder
    known: ColumnEncoder | None = None if reset else e._columns
    nominal = nominal_columns(X, e.categorical_features) if reset else np.empty(0, dtype=np.int64)
    if known is None and not len(nominal):
        X, y = _as_numbers(e, X, y, reset)
        check_classification_targets(y)
        weight = check_weights(sample_weight, X.shape[0])
        if not np.isnan(X).any():
            return Chunk(X, np.asarray(y), weight), None
        if not reset:
            return Chunk(filled(X, e.model_.scaler), np.asarray(y), weight), None
    else:
        validate_data(e, X, reset=reset, skip_check_array=True)
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        X = as_table(X)
        if X.shape[0] != len(y):
            raise ValueError(f"X has {X.shape[0]} rows, and y has {len(y)} labels")
        weight = check_weights(sample_weight, X.shape[0])
    y = np.asarray(y)
    check_some_weight(weight)
    if known is not None and classes is not None:
        return Chunk(known(X), y, weight), known
    labels = np.unique(y) if classes is None else classes
    index = np.minimum(np.searchsorted(labels, y), len(labels) - 1)  # other labels are refused later
    if known is None:
        known = _learned(X, nominal, index, len(labels), weight)
    numbers, encoder = _with_means(known, X, index, len(labels), weight)
    return Chunk(numbers, y, weight), encoder


def rows_to_predict(e: Any, X: Any) -> FloatArray:
    """Validated rows as the numbers that the model was fitted to."""
    if isinstance(X, Encoded):
        return X.values
    encoder: ColumnEncoder | None = e._columns
    if encoder is None:
        X = _as_numbers(e, X, "no_validation", False)
        return filled(X, e.model_.scaler) if np.isnan(X).any() else X
    validate_data(e, X, reset=False, skip_check_array=True)
    return encoder(X)


def _as_numbers(e: Any, X: Any, y: Any, reset: bool) -> Any:
    try:
        return validate_data(e, X, y, dtype=np.float64, reset=reset, ensure_all_finite="allow-nan")
    except ValueError as error:
        j = _not_numeric(X) if "could not convert" in str(error) or "to float" in str(error) else None
        if j is None:
            raise
        raise ValueError(not_numbers(X, j)) from error


def _not_numeric(X: Any) -> int | None:
    """The first column of a table that does not hold numbers."""
    X = as_table(X)
    for j in range(X.shape[1]):
        try:
            numbers_of(X, j)
        except ValueError:
            return j
    return None


def filled(X: FloatArray, scaler: Scaler) -> FloatArray:
    """Rows with means for missing numbers, where no training row lacked one: they then say nothing."""
    return np.where(np.isnan(X), scaler.mean, X)


# --- Learning levels, gaps and medians.


def _learned(X: Any, nominal: IntArray, y: IntArray, n_classes: int, weight: FloatArray) -> ColumnEncoder:
    """Everything but target means, from the rows of positive weight."""
    X = as_table(X)
    n_features, used = X.shape[1], weight > 0
    numeric = np.setdiff1d(np.arange(n_features), nominal)
    given = [numbers_of(X, j)[used] for j in numeric]
    y, weight = y[used], weight[used]
    fill = np.array([_median(x, weight) for x in given])
    gaps = np.array([j for j, x in zip(numeric, given, strict=True) if np.isnan(x).any()], dtype=np.int64)
    texts, index = [], []
    for j in nominal:
        words, place = spelled(column(X, j))
        present, level = np.unique(place[used], return_inverse=True)
        texts.append([None if i < 0 else words[i] for i in present.tolist()])
        index.append(level)
    filled = [np.where(np.isnan(x), middle, x) for x, middle in zip(given, fill, strict=True)]
    ranks = _canonical(filled, index, y, n_classes, weight)
    levels = [_levels(words, rank) for words, rank in zip(texts, ranks, strict=True)]
    is_many = np.array([len(words) > MOST_LEVELS for words in texts], dtype=np.bool_)
    return ColumnEncoder(
        n_features,
        numeric,
        gaps,
        nominal[is_many],
        nominal[~is_many],
        fill,
        tuple(found for found, many in zip(levels, is_many, strict=True) if many),
        tuple(found for found, many in zip(levels, is_many, strict=True) if not many),
        (),
    )


def _median(x: FloatArray, weight: FloatArray) -> float:
    """The weighted median of the numbers that are there, the middle of two; zero where there is none."""
    there = ~np.isnan(x)
    order = np.argsort(x[there])
    x, total = x[there][order], np.cumsum(weight[there][order])
    if not x.size:
        return 0.0
    half = 0.5 * total[-1]
    low, high = np.searchsorted(total, half), np.searchsorted(total, half, side="right")
    return float(0.5 * x[low] + 0.5 * x[min(high, len(x) - 1)])


def _levels(words: list[str | None], rank: IntArray) -> Levels:
    ordered = [words[i] for i in np.argsort(rank)]
    return Levels(np.array([word for word in ordered if word is not None], dtype=np.str_), None in words)


def _canonical(
    numbers: list[FloatArray], index: list[IntArray], y: IntArray, n_classes: int, weight: FloatArray
) -> list[IntArray]:
    """Codes of the levels of every nominal column, which their names have no part in.

    Levels are in the order of the weights of their classes; those that agree in these, in the order
    of the least hash among their rows. So renaming levels changes no fit, as other units of
    numbers change none.
    """
    masses, profiles = [], []
    for level in index:
        n = int(level.max(initial=-1)) + 1
        mass = np.bincount(level * n_classes + y, weight, n * n_classes).reshape(n, n_classes)
        masses.append(np.round(mass / weight.sum(), 9))
        profiles.append(np.unique(masses[-1], axis=0, return_inverse=True)[1].ravel()[level])
    X = np.stack(numbers, 1) if numbers else np.empty((len(y), 0))
    key = row_keys(np.column_stack([Extent.of(X).position(X), *profiles]).astype(np.float64), y)
    ranks = []
    for level, mass in zip(index, masses, strict=True):
        least = np.full(len(mass), np.iinfo(np.int64).max)
        np.minimum.at(least, level, key)
        rank = np.empty(len(mass), dtype=np.int64)
        rank[np.lexsort((least, *mass.T))] = np.arange(len(mass))
        ranks.append(rank)
    return ranks


# --- Target means of columns with many levels.


def _with_means(
    known: ColumnEncoder, X: Any, y: IntArray, n_classes: int, weight: FloatArray
) -> tuple[FloatArray, ColumnEncoder]:
    """The numbers of training rows, and the encoder with the target means of all of them."""
    codes = [levels.of(column(X, j)) for j, levels in zip(known.many, known.many_levels, strict=True)]
    sums = [
        level_sums(code, y, weight, levels.unknown + 1, n_classes)
        for code, levels in zip(codes, known.many_levels, strict=True)
    ]
    priors = [prior_rows(sum_) for sum_ in sums]
    means = (shrunken_means(sum_, sum_.sum(0), rows) for sum_, rows in zip(sums, priors, strict=True))
    encoder = replace(known, means=tuple(means))
    numbers = encoder(X)
    if not codes:
        return numbers, encoder
    fold = _folds(np.column_stack([numbers[:, encoder.plain], *codes]), y, weight)
    start = len(known.numeric)
    for code, sum_, rows, mean in zip(codes, sums, priors, encoder.means, strict=True):
        out = numbers[:, start : start + mean.shape[1]]
        for k in range(_FOLDS):
            here = (fold == k) & (weight > 0)
            gone = level_sums(code[here], y[here], weight[here], *sum_.shape)
            out[here] = shrunken_means(sum_ - gone, sum_.sum(0), rows)[code[here]]
        start += mean.shape[1]
    return numbers, encoder


def level_sums(code: IntArray, y: IntArray, weight: FloatArray, n_levels: int, n_classes: int) -> FloatArray:
    """Weights by level and class."""
    sums = np.bincount(code * n_classes + y, weight, n_levels * n_classes)
    return sums.reshape(n_levels, n_classes).astype(np.float64)


def prior_rows(sums: FloatArray) -> float:
    """How many rows of the class frequencies make the counts of the levels most probable (eq. 12.4).

    Infinitely many where the levels differ no more than by chance, as those of a name or a number do.
    """
    counts = torch.as_tensor(sums)
    size, total = counts.sum(1), counts.sum(0)
    prior = total / total.sum()
    counts, prior = counts[:, total > 0], prior[total > 0]

    def evidence(rows: float) -> float:
        own = torch.lgamma(rows * prior + counts) - torch.lgamma(rows * prior)
        every = torch.lgamma(size.new_tensor(rows)) - torch.lgamma(rows + size)
        return float(own.sum() + every.sum())

    best = max(_PRIOR_ROWS.tolist(), key=evidence)
    gain = evidence(best) - float((counts.sum(0) * prior.log()).sum())
    return best if gain > _LEAST_EVIDENCE else np.inf


def shrunken_means(sums: FloatArray, total: FloatArray, rows: float) -> FloatArray:
    """Class frequencies of every level, shrunken to those of all rows (eq. 12.3).

    With two classes those of the second, otherwise those of each.

    Parameters
    ----------
    sums : ndarray of shape (L, C)
        Weights by level and class.
    total : ndarray of shape (C,)
        Weights of the classes.
    rows : float
        What their frequencies weigh.
    """
    prior = total / total.sum()
    # From the prior on, so that without evidence there is nothing but the prior.
    size = sums.sum(1, keepdims=True)
    mean: FloatArray = prior + (sums - size * prior) / (size + rows)
    return mean[:, 1:] if len(total) == 2 else mean


def _folds(X: FloatArray, y: IntArray, weight: FloatArray) -> IntArray:
    """The fold of each row, by its content; equal rows go to different ones.

    The number of a copy is part of its hash, so that neither all copies of a row are in one fold nor
    every fold has the same share of them: either would tell a row its own label.
    """
    key = row_keys(Extent.of(X).position(X), y)
    order = np.lexsort((weight, key))
    starts = np.flatnonzero(np.concatenate([[True], np.diff(key[order]) != 0]))
    copy = np.empty(len(key), dtype=np.int64)
    copy[order] = np.arange(len(key)) - np.repeat(starts, np.diff(np.append(starts, len(key))))
    scattered = mix(key.astype(np.uint64) + mix(copy.astype(np.uint64)))
    return (scattered % np.uint64(_FOLDS)).astype(np.int64)


# --- Standardised rows with blocks of indicators.


@dataclass(frozen=True)
class BlockScaler(Scaler):
    r"""Standardised numbers, then scaled indicators of the levels of every nominal column.

    The scale gives a block of L levels the variance :math:`\sqrt{L - 1}`: that of a standardised column
    where there are two, so that these are the same as numbers and as levels. The last column of a block
    stands for unknown levels; in training it is zero (eq. 12.1).

    Attributes
    ----------
    n_numbers : int
        The columns before the codes.
    sizes : ndarray of shape (G,)
        Levels of the nominal columns.
    height : ndarray of shape (G,)
        What an indicator is where it is not zero.
    """

    n_numbers: int
    sizes: IntArray
    height: FloatArray

    @classmethod
    def of(cls, scaler: Scaler, encoder: ColumnEncoder, rows: CanonicalRows) -> Self:
        """From the scaler of all columns, codes included, and rows for the frequencies of the levels."""
        n, sizes = encoder.n_numbers, np.asarray(encoder.sizes, dtype=np.int64)
        mean, scale = scaler.mean.copy(), scaler.scale.copy()
        mean[n:], scale[n:] = 0.0, 1.0
        height = np.ones(len(sizes))
        for g, size in enumerate(sizes):
            share = np.bincount(rows.X[:, n + g].astype(np.int64), rows.weight, size + 1)
            spread = 1.0 - np.square(share / share.sum()).sum()
            # The L - 1 contrasts of a column count for more than one column and for less than so many.
            height[g] = (size - 1) ** 0.25 / np.sqrt(spread) if spread > 0 else 1.0
        numbers = np.arange(len(mean)) < n
        curves = None if scaler.curves is None else scaler.curves.of(numbers)
        return cls(mean, scale, scaler.kept, n, sizes, np.round(height, 12), curves=curves)

    @property
    def blocks(self) -> Blocks:
        """How the standardised columns belong together."""
        kept = self.kept[self.n_numbers :]
        sizes, squares = self.sizes[kept] + 1, np.square(self.height[kept])
        n_numbers = int(self.kept[: self.n_numbers].sum())
        return Blocks(n_numbers, tuple(sizes.tolist()), tuple(squares.tolist()))

    def transform(self, X: FloatArray) -> FloatArray:
        n, kept = self.n_numbers, self.kept[self.n_numbers :]
        levels = one_hot(X[:, n:][:, kept], self.sizes[kept], self.height[kept])
        return np.concatenate([self.numbers.transform(X[:, :n]), levels], 1)

    def inverse_transform(self, Z: FloatArray) -> FloatArray:
        """Rows as numbers and codes: that of the level with the largest indicator."""
        blocks, n = self.blocks, self.n_numbers
        X = np.concatenate(
            [self.numbers.inverse_transform(Z[:, : blocks.n_numbers]), np.zeros((len(Z), len(self.sizes)))], 1
        )
        ends = np.cumsum((blocks.n_numbers, *blocks.sizes))
        for g, start, end in zip(np.flatnonzero(self.kept[n:]), ends[:-1], ends[1:], strict=True):
            X[:, n + g] = Z[:, start:end].argmax(1)
        return X

    def of_features(self, values: FloatArray) -> FloatArray:
        return values[self.blocks.first]

    @property
    def numbers(self) -> Scaler:
        """The scaler of the columns before the codes."""
        n = self.n_numbers
        return Scaler(self.mean[:n], self.scale[:n], self.kept[:n], curves=self.curves)
