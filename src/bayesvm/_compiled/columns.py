"""A user's columns as numbers, with numpy alone: categories become codes, gaps a fact about the row.

What is learned from training rows is learned in ``_fit.columns``.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesvm._compiled.kernels import Brief

Array = npt.NDArray[Any]
# Types of pandas for values that are not there; comparing them gives neither true nor false.
_NOTHING = ("NAType", "NaTType")


def as_table(X: Any) -> Any:
    """A data frame as it is, anything else as an array whose columns keep their values."""
    if hasattr(X, "toarray"):
        raise TypeError("X is sparse, and dense data is required; use X.toarray()")
    table = X if hasattr(X, "columns") or isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
    if len(table.shape) != 2:
        raise ValueError(f"Expected 2D array, got the shape {table.shape} instead")
    return table


def column(X: Any, j: int) -> Any:
    """Column j of an array or of a data frame of pandas or polars."""
    if hasattr(X, "iloc"):
        return X.iloc[:, j]
    return X.to_series(j) if hasattr(X, "to_series") else X[:, j]


def name_of(X: Any, j: int) -> str:
    """How messages call column j."""
    names = getattr(X, "columns", None)
    return f"column {j}" if names is None else f"column {list(names)[j]!r}"


def numbers_of(X: Any, j: int) -> Array:
    """Column j in double precision, NaN where a number is missing.

    Raises
    ------
    ValueError
        If it holds anything else, or infinity.
    """
    given = column(X, j)
    try:
        if hasattr(given, "iloc"):
            given = given.to_numpy(dtype=np.float64, na_value=np.nan)
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(not_numbers(X, j)) from error
    if np.isinf(found).any():
        raise ValueError(
            f"Input X contains infinity or a value too large for dtype('float64'), {name_of(X, j)}"
        )
    return found


def not_numbers(X: Any, j: int) -> str:
    """What to do about a column that does not hold numbers."""
    words = spelled(column(X, j))[0]
    example = next((word for word in words.tolist() if not _is_number(word)), "")
    return (
        f"{name_of(X, j)} does not hold numbers (for one, {example[:40]!r}); declare it with "
        "categorical_features, give it a category dtype, or use bayesvm.tables.fit_table"
    )


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def spelled(values: Any) -> tuple[Array, Array]:
    """Distinct values of a column as sorted texts, and which of them each row has; -1: none.

    A number is the same value in any type: 1, 1.0, True and "1" are one level.
    """
    if hasattr(values, "cat") and hasattr(values, "iloc"):  # each category once, however many rows
        words, index = spelled(np.asarray(values.cat.categories, dtype=object))
        code = values.cat.codes.to_numpy()
        return words, np.where(code < 0, -1, np.append(index, -1)[code])
    if hasattr(values, "to_list"):  # of pandas and polars
        values = np.fromiter(values.to_list(), dtype=object, count=len(values))
    values = np.asarray(values)
    if values.dtype.kind in "biuf":
        distinct, inverse = np.unique(values, return_inverse=True)
        texts = [_spell(value) for value in distinct.tolist()]
    else:
        place: dict[Any, int] = {}
        inverse = np.fromiter((place.setdefault(v, len(place)) for v in values.tolist()), np.int64)
        texts = [_spell(value) for value in place]
    words = np.array(sorted({text for text in texts if text is not None}), dtype=np.str_)
    rank = {word: i for i, word in enumerate(words.tolist())}
    of_distinct = np.array([-1 if text is None else rank[text] for text in texts], dtype=np.int64)
    return words, of_distinct[inverse] if len(texts) else inverse.astype(np.int64)


def _spell(value: Any) -> str | None:
    """One value as a text; None where there is none."""
    if isinstance(value, str):
        return value
    if value is None or type(value).__name__ in _NOTHING or value != value:
        return None
    if isinstance(value, numbers.Real):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    return str(value)


@dataclass(frozen=True, repr=False)
class Levels(Brief):
    """The levels of a nominal column.

    Attributes
    ----------
    words : ndarray of str
        Values as texts; the position of each is its code.
    with_missing : bool
        Whether a missing value is a level, with the code after those.
    """

    words: Array
    with_missing: bool

    @property
    def unknown(self) -> int:
        """The code of any other value, and the number of levels that are known."""
        return len(self.words) + self.with_missing

    def of(self, values: Any) -> Array:
        """Codes of the values of a column."""
        words, index = spelled(values)
        order = np.argsort(self.words)
        place = np.searchsorted(self.words[order], words)
        known = place < len(order)
        known[known] = self.words[order][place[known]] == words[known]
        code = np.full(len(words) + 1, self.unknown, dtype=np.int64)
        code[:-1][known] = order[place[known]]
        code[-1] = len(self.words)  # unknown, where no value was missing
        return code[index]

    def named(self, codes: Array) -> list[Any]:
        """Levels by their codes, as texts; None where a value is missing."""
        names = self.words.tolist()
        return [names[code] if code < len(names) else None for code in codes.tolist()]


@dataclass(frozen=True, repr=False)
class ColumnEncoder(Brief):
    """From a user's columns to the numbers that a model is fitted to; immutable.

    The numbers are, in this order: numeric columns with their gaps filled;
    shrunken target means of columns with many levels (eq. 12.3); codes of nominal columns, the
    first of which say whether a number is missing.

    Attributes
    ----------
    n_features : int
        The user's columns.
    numeric, gaps, many, nominal : ndarray of int
        Which of them are numeric, have gaps in training rows, have many levels, or few.
    fill : ndarray of float
        The median of each numeric column.
    many_levels, nominal_levels : tuple of Levels
    means : tuple of ndarray of shape (n_levels + 1, T)
        Target means by code; the last row is that of an unknown level.
    """

    n_features: int
    numeric: Array
    gaps: Array
    many: Array
    nominal: Array
    fill: Array
    many_levels: tuple[Levels, ...]
    nominal_levels: tuple[Levels, ...]
    means: tuple[Array, ...]

    @property
    def n_numbers(self) -> int:
        """Numbers before the codes."""
        return len(self.numeric) + sum(mean.shape[1] for mean in self.means)

    @property
    def sizes(self) -> list[int]:
        """Known levels behind each code."""
        return [2] * len(self.gaps) + [levels.unknown for levels in self.nominal_levels]

    @property
    def owner(self) -> Array:
        """The user's column that each number comes from."""
        means = [np.full(mean.shape[1], j) for j, mean in zip(self.many, self.means, strict=True)]
        return np.concatenate([self.numeric, *means, self.gaps, self.nominal]).astype(np.int64)

    @property
    def plain(self) -> Array:
        """Positions of the numbers that are not target means."""
        means = np.arange(len(self.numeric), self.n_numbers)
        return np.setdiff1d(np.arange(len(self.owner)), means)

    def __call__(self, X: Any) -> Array:
        """The numbers of each row, shape (n_rows, width)."""
        X = as_table(X)
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} features, the model was fitted to {self.n_features}")
        given = {int(j): numbers_of(X, j) for j in self.numeric}
        filled = zip(given.values(), self.fill, strict=True)
        parts = [np.where(np.isnan(x), fill, x) for x, fill in filled]
        for j, levels, mean in zip(self.many, self.many_levels, self.means, strict=True):
            parts += list(mean[levels.of(column(X, j))].T)
        parts += [np.isnan(given[int(j)]) for j in self.gaps]
        parts += [
            levels.of(column(X, j)) for j, levels in zip(self.nominal, self.nominal_levels, strict=True)
        ]
        return np.stack(parts, axis=1).astype(np.float64)

    def inverse(self, numbers: Array) -> Array:
        """Rows in the user's columns, as objects: numbers, and levels as texts.

        A mean over rows has the level that most of them have, and of columns with many levels
        the one whose target means are nearest.
        """
        X = np.empty((len(numbers), self.n_features), dtype=object)
        X[:, self.numeric] = numbers[:, : len(self.numeric)]
        start = len(self.numeric)
        for j, levels, mean in zip(self.many, self.many_levels, self.means, strict=True):
            here = numbers[:, start : start + mean.shape[1]]
            apart = np.square(here[:, None, :] - mean[None, :-1]).sum(2)
            X[:, j] = levels.named(apart.argmin(1))
            start += mean.shape[1]
        for i, j in enumerate(self.gaps):
            X[numbers[:, start + i] == 1, j] = np.nan
        start += len(self.gaps)
        for i, (j, levels) in enumerate(zip(self.nominal, self.nominal_levels, strict=True)):
            X[:, j] = levels.named(numbers[:, start + i].astype(np.int64))
        return X

    def per_feature(self, share: Array) -> Array:
        """Sums over the numbers of each of the user's columns."""
        return np.bincount(self.owner, share, self.n_features)


def one_hot(codes: Array, sizes: Array, height: Array) -> Array:
    """Indicators of codes, one block of columns for each and a column for what is unknown (eq. 12.1).

    Parameters
    ----------
    codes : ndarray of shape (n, G)
    sizes : ndarray of shape (G,)
        How many levels are known.
    height : ndarray of shape (G,)
        What an indicator is where it is not zero.
    """
    widths = sizes + 1
    out = np.zeros((len(codes), int(widths.sum())))
    place = np.clip(codes, 0, sizes).astype(np.int64) + (np.cumsum(widths) - widths)
    np.put_along_axis(out, place, np.broadcast_to(height, place.shape), 1)
    return out
