"""A random sample of distinct rows that does not depend on how they are chunked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesvm.rows import CanonicalRows
from bayesvm.streaming.chunks import Chunk
from bayesvm.streaming.passes.labels import Encoded, Labels

__all__ = ["Sample", "SampleSums"]


@dataclass(frozen=True)
class SampleSums:
    """The distinct rows of smallest hash so far, in the order of their hashes.

    Rows are compared with all their equals in every chunk, so their weights are complete.

    Attributes
    ----------
    size : int
    rows : Encoded
    checksum : int
        The sum of the keys of all rows, those outside the sample too, modulo
        2^64: exact in any order. ``SweepSums`` has the same.
    """

    size: int
    rows: Encoded
    checksum: int

    def plus(self, other: SampleSums) -> SampleSums:
        both = Encoded(*(np.concatenate(pair) for pair in zip(self.rows, other.rows, strict=True)))
        checksum = (self.checksum + other.checksum) % 2**64
        return SampleSums(self.size, _smallest(both, self.size), checksum)

    def canonical(self) -> CanonicalRows:
        """The sample as the rows of a fit."""
        X, y, weight, code = self.rows
        none = np.empty(0, dtype=np.int64)
        return CanonicalRows(X, y, weight, (code >> np.uint64(1)).astype(np.int64), none)


@dataclass(frozen=True)
class Sample:
    """The pass: ``size`` rows at most."""

    labels: Labels
    size: int

    def __call__(self, chunk: Chunk) -> SampleSums:
        rows = self.labels.encoded(chunk)
        checksum = int(np.add.reduce(rows.code >> np.uint64(1)))
        return SampleSums(self.size, _smallest(rows, self.size), checksum)


def _smallest(rows: Encoded, size: int) -> Encoded:
    """Distinct rows of smallest hash, weights of equal ones added up."""
    order = _first(rows.code, size)
    X, y, weight, code = rows.X[order], rows.y[order], rows.weight[order], rows.code[order]
    # Equal hashes are equal rows up to a chance of 1e-7 in a million rows; look anyway.
    same = code[1:] == code[:-1]
    if same.any():
        where = np.flatnonzero(same)
        same[where] = (y[where] == y[where + 1]) & (X[where] == X[where + 1]).all(1)
        first = np.flatnonzero(np.concatenate([[True], ~same]))
        X, y, weight, code = X[first], y[first], np.add.reduceat(weight, first), code[first]
    return Encoded(X[:size], y[:size], weight[:size], code[:size])


def _first(code: npt.NDArray[np.uint64], size: int) -> npt.NDArray[np.int64]:
    """Positions of the rows whose hashes are among the ``size`` smallest distinct ones, in their order."""
    if len(code) <= 2 * size:
        return np.argsort(code, kind="stable")
    few = np.unique(np.partition(code, 2 * size)[: 2 * size])
    if few.size < size:  # rows repeat: there may be more distinct ones among the others
        few = np.unique(code)
    last = few[min(size, few.size) - 1]
    inside = np.flatnonzero(code <= last)
    return inside[np.argsort(code[inside], kind="stable")]
