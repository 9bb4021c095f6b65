"""A fitted model compiled for serving: plain arrays and numpy, a row in a fraction of a millisecond."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from bayesvm._compiled import kernels, latents
from bayesvm._compiled.columns import ColumnEncoder, Levels, as_table, one_hot
from bayesvm._compiled.curves import DECIMALS, Curves
from bayesvm._compiled.files import read, write
from bayesvm._compiled.kernels import Brief
from bayesvm._compiled.latents import FoldedLocal, FoldedPosterior

Array = npt.NDArray[Any]

# Covariances and what is made of them stay in the cache.
_BLOCK_NUMBERS = 2**15
_FEWEST_ROWS = 16
# Fewer blocks than this for each thread are not worth starting it.
_FEWEST_BLOCKS = 4
# Column names that an error message lists.
_MOST_NAMED = 10


@dataclass(frozen=True, repr=False)
class Standardised(Brief):
    """Columns in standard deviations from their mean; those that never varied are left out.

    What ``Scaler.transform`` gives, rounded only where curves follow, which may be steep.

    Attributes
    ----------
    kept : ndarray of int or None
        None: all columns.
    mean, scale : ndarray of shape (number kept,)
    farthest : float
        Values end here, as those that the model was fitted to.
    curves : Curves or None
        What becomes of standardised columns.
    """

    kept: Array | None
    mean: Array
    scale: Array
    farthest: float
    curves: Curves | None

    def __call__(self, X: Array) -> Array:
        if self.kept is not None:
            X = X[:, self.kept]
        with np.errstate(over="ignore"):
            U = X - self.mean
            U /= self.scale
        np.clip(U, -self.farthest, self.farthest, out=U)
        return U if self.curves is None else self.curves(np.round(U, DECIMALS, out=U))


@dataclass(frozen=True, repr=False)
class StandardisedBlocks(Brief):
    """Standardised numbers, then a block of indicators for each code of a level.

    Attributes
    ----------
    numbers : Standardised
    n_numbers : int
    codes : ndarray of int
        Columns of codes.
    sizes, height : ndarray
        Their numbers of levels, and what indicators are where they are not zero.
    """

    numbers: Standardised
    n_numbers: int
    codes: Array
    sizes: Array
    height: Array

    def __call__(self, X: Array) -> Array:
        indicators = one_hot(X[:, self.codes], self.sizes, self.height)
        return np.concatenate([self.numbers(X[:, : self.n_numbers]), indicators], 1)


@dataclass(frozen=True, repr=False)
class CompiledPredictor:
    """Class probabilities of a fitted estimator, without the estimator.

    Made by ``estimator.compile_predictor()``. Everything that does not depend
    on the row is precomputed: matrix products, with calibration folded
    into them. Its arrays are never modified, so threads may share it;
    it can be pickled, and ``save`` writes a file that runs no code when
    loaded. Serving needs numpy alone, unless the kernel or the likelihood is
    one that has no compiled form (see ``docs/serving.md``).

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : tuple of str or None
    dtype : str
        Precision of the large products: "float32" or "float64".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesvm import BayesianSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> predictor = BayesianSVC(random_state=0).fit(X, y).compile_predictor()
    >>> int(predictor.predict_one(X[0]))
    0
    >>> predictor.predict_proba(X).shape
    (150, 3)
    """

    classes_: Array
    n_features_in_: int
    feature_names_in_: tuple[str, ...] | None
    dtype: str
    columns: Standardised | StandardisedBlocks
    kernel: kernels.CompiledKernel
    posterior: FoldedPosterior
    readout: latents.Readout
    local: FoldedLocal | None
    encoder: ColumnEncoder | None = None
    fill: Array | None = None

    def __repr__(self) -> str:
        local = "no local part" if self.local is None else f"local part of {len(self.local.X)} rows"
        return (
            f"CompiledPredictor({len(self.classes_)} classes, {self.n_features_in_} features, "
            f"{len(self.posterior.alpha)} inducing points, {self.dtype}, {local})"
        )

    def predict_proba(self, X: Any, n_threads: int | None = None) -> Array:
        """Class probabilities, shape (n_rows, n_classes); rows sum to one.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        n_threads : int or None
            Threads for batches of thousands of rows. None: one for each core
            this process may use, or ``OMP_NUM_THREADS`` if that is less.
        """
        _check_threads(n_threads)
        X = self._checked(X)
        n, size = X.shape[0], self._block
        if 0 < n <= size:
            return self._probabilities(X)
        proba = np.empty((n, len(self.classes_)))

        def work(start: int) -> None:
            proba[start : start + size] = self._probabilities(X[start : start + size])

        _map_in_threads(work, range(0, n, size), n_threads)
        return proba

    def predict(self, X: Any, n_threads: int | None = None) -> Array:
        """Most probable class of each row."""
        return self.classes_[self.predict_proba(X, n_threads).argmax(1)]

    def predict_proba_one(self, x: Any) -> Array:
        """Class probabilities of one row, shape (n_classes,).

        Parameters
        ----------
        x : sequence, Series or mapping
            The features in the order of the columns at ``fit``. Where these had
            names: a Series with the same names in the same order, or a mapping
            (what JSON gives) with the same names in any order.
        """
        if not isinstance(x, (list, tuple, np.ndarray)):  # which have no names, and are common
            x = _in_order(x, self.feature_names_in_, self.n_features_in_)
        row = np.asarray(x, dtype=np.float64 if self.encoder is None else object)
        if row.ndim != 1:
            raise ValueError(
                f"one row is a sequence of {self.n_features_in_} numbers; got the shape {row.shape}. For "
                "tables of rows there are predict and predict_proba"
            )
        return self.predict_proba(row[None])[0]

    def predict_one(self, x: Any) -> Any:
        """Most probable class of one row, given as for ``predict_proba_one``."""
        return self.classes_[self.predict_proba_one(x).argmax()]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the predictor to a file of arrays, complete or not at all; ``load`` reads it."""
        return write(self, path, _types())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CompiledPredictor:
        """Read what ``save`` wrote; no code in the file is run.

        Raises
        ------
        ValueError
            If the file is not a compiled predictor of this version's format.
        """
        made = read(path, _types())
        if not isinstance(made, CompiledPredictor):
            raise ValueError(f"{path} holds no compiled predictor")
        return made

    @property
    def _block(self) -> int:
        """Rows whose covariances stay in the cache."""
        return max(_FEWEST_ROWS, _BLOCK_NUMBERS // max(self.posterior.alpha.shape[0], self.n_features_in_))

    def _probabilities(self, X: Array) -> Array:
        U = self.columns(X)
        F, s2 = self.posterior(self.kernel.cross(U), self.kernel.diag(U))
        if self.local is not None:
            F += self.local.mean(U)
        return self.readout(F, s2)

    def _checked(self, X: Any) -> Array:
        """Rows as double precision; what an estimator would refuse is refused."""
        names = getattr(X, "columns", None)
        if names is not None and self.feature_names_in_ is not None:
            _check_columns(names, self.feature_names_in_, "X has the columns")
        X = np.asarray(X, dtype=np.float64) if self.encoder is None else as_table(X)
        if len(X.shape) != 2:
            raise ValueError(
                f"X must be a table of rows and features; it has {len(X.shape)} dimensions. For a single row "
                "there are predict_one and predict_proba_one"
            )
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, the model was fitted to {self.n_features_in_}")
        if self.encoder is not None:
            return self.encoder(X)
        if not np.isfinite(X).all():
            if self.fill is not None and not np.isinf(X).any():
                return np.where(np.isnan(X), self.fill, X)
            raise ValueError("X contains NaN or infinity; impute missing values before the predictor")
        return X


def _types() -> tuple[type, ...]:
    """What a file may hold: frozen records of arrays and numbers, whose making runs nothing else."""
    return (
        CompiledPredictor,
        Curves,
        FoldedLocal,
        FoldedPosterior,
        Standardised,
        StandardisedBlocks,
        ColumnEncoder,
        Levels,
        kernels.ConstantTerm,
        kernels.DistanceTerm,
        kernels.FactorsOfBlocks,
        kernels.FactorsOfColumns,
        kernels.LinearTerm,
        kernels.ProductOfTerms,
        kernels.SumOfTerms,
        kernels.TorchTerm,
        latents.ExpectedSoftmax,
        latents.CommitteeReadout,
        latents.OwnProbabilities,
        latents.SigmoidAtNodes,
    )


def _check_columns(given: Iterable[Any], fitted: tuple[str, ...], what: str) -> None:
    """Refuse other names, or another order, than those of the fit."""
    names = tuple(given)
    if names != fitted:
        raise ValueError(
            f"{what} {list(names)[:_MOST_NAMED]}, the model was fitted to {list(fitted)[:_MOST_NAMED]}; give "
            "the same columns in the same order"
        )


def _in_order(x: Any, fitted: tuple[str, ...] | None, n_features: int) -> Any:
    """The values of one row in the order of the fit.

    Parameters
    ----------
    x : mapping, Series or anything else
        A mapping is read by name. A Series, or what else has an index of
        texts, must have the names in their order. The rest is left as it is.
    fitted : tuple of str or None
        Names of the columns at the fit.
    n_features : int

    Raises
    ------
    ValueError
        If names are missing, unknown or in another order.
    """
    if isinstance(x, Mapping):
        return _by_name(x, fitted, n_features)
    index = getattr(x, "index", None)
    if fitted is not None and index is not None and not callable(index):
        labels = tuple(index)
        if any(isinstance(label, str) for label in labels):
            _check_columns(labels, fitted, "the row has the names")
    return x


def _by_name(x: Mapping[Any, Any], fitted: tuple[str, ...] | None, n_features: int) -> list[Any]:
    if fitted is None:
        raise ValueError(
            "a row given by name needs a model that was fitted to a data frame, whose columns have names; "
            f"give the {n_features} numbers as a sequence in the order of the columns at fit"
        )
    if len(x) != len(fitted) or any(name not in x for name in fitted):
        known = set(fitted)
        missing = [name for name in fitted if name not in x][:_MOST_NAMED]
        unknown = [name for name in x if name not in known][:_MOST_NAMED]
        wrong = [
            f"{words} {names}" for words, names in (("lacks", missing), ("has the unknown", unknown)) if names
        ]
        raise ValueError(
            f"the row {' and '.join(wrong)}; the model was fitted to the columns {list(fitted)[:_MOST_NAMED]}"
        )
    return [x[name] for name in fitted]


def _available_threads() -> int:
    """Cores this process may use, or ``OMP_NUM_THREADS`` if that is less."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, max(1, int(asked))) if asked.isdecimal() else cores


def _check_threads(n_threads: object) -> None:
    """Refuse what is neither a positive whole number nor None."""
    whole = isinstance(n_threads, numbers.Integral) and not isinstance(n_threads, bool)
    if n_threads is not None and not (whole and cast(int, n_threads) > 0):
        raise ValueError(f"n_threads={n_threads!r} is not valid; it must be a positive whole number or None")


def _map_in_threads(work: Callable[[int], None], starts: Sequence[int], n_threads: int | None) -> None:
    """Do the work for every start, in as many threads as are worth it."""
    n = min(_available_threads() if n_threads is None else n_threads, len(starts) // _FEWEST_BLOCKS)
    if n <= 1:
        for start in starts:
            work(start)
        return
    with ThreadPoolExecutor(n) as pool:
        for _ in pool.map(work, starts):
            pass
