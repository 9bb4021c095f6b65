"""Validation of the columns, labels and weights given to a fit."""

from __future__ import annotations

import difflib
import numbers
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from bayesvm._fit.engine import Chunk

FloatArray = npt.NDArray[np.floating]


def check_at_hand(X: Any) -> None:
    """Refuse sources of rows such as files, which ``fit`` accepts and predictions do not."""
    if isinstance(X, (str, os.PathLike, Iterator)) or callable(X):
        raise TypeError(
            f"predictions take an array or a data frame; got {type(X).__name__}. Files larger than memory go "
            "through `bayesvm predict` or bayesvm.tables.predict_blocks, some rows at a time; call predict "
            "once for each batch"
        )


def check_two_classes(classes: npt.NDArray[Any]) -> None:
    """Refuse labels that are all the same."""
    if len(classes) < 2:
        raise ValueError(
            f"a classifier needs at least two classes; y holds one class, {classes.tolist()[0]!r}"
        )


def check_some_weight(weight: FloatArray) -> None:
    """Refuse weights, of rows or of classes, that are all zero."""
    if not weight.any():
        raise ValueError("all sample weights are zero: there is no row to learn from")


def class_factors(class_weight: Any, classes: npt.NDArray[Any], mass: FloatArray) -> FloatArray:
    """The factor of each class on the weights of its rows, whose total is its mass.

    ``"balanced"`` gives every class the same total weight, counting the
    weights of its rows, so that weight two equals the row twice.
    """
    factor: FloatArray
    if class_weight is None:
        factor = np.ones(len(classes))
    elif class_weight == "balanced":
        present = mass > 0
        factor = np.where(present, mass.sum() / (present.sum() * np.where(present, mass, 1.0)), 0.0)
    else:
        unknown = [label for label in class_weight if label not in set(classes.tolist())]
        if unknown:
            raise ValueError(f"class_weight names {unknown[:5]}, but the classes are {classes.tolist()[:10]}")
        factor = np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])
        if (factor < 0).any() or not np.isfinite(factor).all():
            raise ValueError(f"class_weight must hold non-negative numbers; got {class_weight!r}")
    return factor


def check_classes_left(classes: npt.NDArray[Any], mass: FloatArray, needed: int) -> None:
    """Refuse weights that leave rows of fewer classes than needed."""
    left = classes[mass > 0].tolist()
    if len(left) < needed:
        raise ValueError(
            f"at least {needed} {'class' if needed == 1 else 'classes'} must have rows of positive weight; "
            f"without the rows of weight zero these are left: {left}"
        )


def check_share(name: str, value: Any) -> None:
    """Raise ValueError unless the value is a number from 0 to 1."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0.0 <= float(value) <= 1.0:
        raise ValueError(f"{name}={value!r} is not valid; it must be a number from 0 to 1")


def check_same_model(
    known: npt.NDArray[Any] | None, classes: npt.NDArray[Any], old_kernel: Any, kernel: Any
) -> None:
    """Refuse a warm start from a model of other classes or another kernel."""
    if known is not None and not np.array_equal(known, classes):
        raise ValueError(
            f"warm_start: the last fit had the classes {known.tolist()[:10]}, this y has "
            f"{classes.tolist()[:10]}; set warm_start=False or use a new estimator"
        )
    if old_kernel != kernel:
        raise ValueError(
            f"warm_start: the last fit had kernel {old_kernel!r}, this one {kernel!r}; set "
            "warm_start=False or use a new estimator"
        )


# --- Labels and weights that are columns of a data frame in memory.


def named_columns(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Rows, labels and weights; those that are named are taken out of a data frame of pandas or polars.

    Raises
    ------
    TypeError
        If a name is given, and X has none.
    ValueError
        If there is no such column, or more than one, or none besides.
    """
    named = {"y": y, "sample_weight": sample_weight}
    named = {role: name for role, name in named.items() if isinstance(name, str)}
    if not named:
        return X, y, sample_weight
    # ``columns`` of a pyarrow table are arrays, not names.
    if not hasattr(X, "columns") or hasattr(X, "column_names"):
        role, name = next(iter(named.items()))
        raise TypeError(
            f"{role}={name!r} names a column, but X is not a data frame: its type is {type(X).__name__}; "
            f"give {role} as an array"
        )
    names = list(X.columns)
    check_named(named, names)
    features = [name for name in names if name not in named.values()]
    if not features:
        raise ValueError(f"the data have no column besides {list(named.values())}")
    return (
        X[features],
        X[y] if "y" in named else y,
        X[sample_weight] if "sample_weight" in named else sample_weight,
    )


def check_named(named: dict[str, str], names: list[Any]) -> None:
    """Refuse names that are not those of one column each; ``named`` says what they are given for."""
    known = [name for name in names if isinstance(name, str)]
    for role, name in named.items():
        check_column(role, name, known)
    if len(set(names)) < len(names):
        doubled = [name for name in names if names.count(name) > 1]
        raise ValueError(f"the data have more than one column named {doubled[0]!r}; rename or drop one")


def check_column(role: str, name: Any, names: list[str]) -> None:
    """Raise ValueError for an unknown column name, and suggest a similar one."""
    if not isinstance(name, str):
        what = "nothing" if name is None else type(name).__name__
        raise ValueError(f"with Arrow data {role} must be the name of a column; got {what}")
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        advice = f"did you mean {close[0]!r}?" if close else f"there are {names[:10]}"
        raise ValueError(f"{role}={name!r} is not a column of the data; {advice}")


# --- Validation of chunks, from any source.


# Rows of a chunk, and numbers in it, at most: large enough for products, small beside any memory.
_CHUNK_ROWS = 32_768
_CHUNK_NUMBERS = 2_097_152


def chunk_rows(n_features: int) -> int:
    """Rows of a chunk with that many features."""
    return max(1, min(_CHUNK_ROWS, _CHUNK_NUMBERS // max(1, n_features)))


def checked_chunk(X: Any, y: Any, weight: Any, where: str) -> Chunk:
    """Arrays of the right types, as many labels and weights as rows."""
    if hasattr(X, "toarray"):
        raise TypeError(
            f"{where}: X is sparse, and dense numbers are needed; use X.toarray() on some rows at a time"
        )
    try:
        rows = np.asarray(as_numbers(X))
        if rows.dtype.kind == "c":
            raise ValueError("complex numbers are not supported")
        if rows.ndim == 2:
            rows = np.ascontiguousarray(rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: X must hold numbers; {error}") from error
    if rows.ndim != 2:
        raise ValueError(f"{where}: expected rows and columns; got the shape {rows.shape}")
    if not rows.shape[1]:
        raise ValueError(f"{where}: X has 0 feature(s); at least one column is needed")
    labels = labels_of(f"{where}: y", y, rows.shape[0])
    check_labels(labels, where)
    return Chunk(
        rows,
        labels,
        check_weights(weight, rows.shape[0], where),
    )


def as_numbers(given: Any) -> Any:
    """Values of a pandas object in double precision; what is missing becomes NaN, and is refused as such."""
    if not hasattr(given, "iloc"):
        return given
    kinds = [getattr(kind, "kind", "O") for kind in np.ravel(getattr(given, "dtypes", []))]
    return given if "c" in kinds else given.to_numpy(dtype=np.float64, na_value=np.nan)


def labels_of(name: str, values: Any, n_rows: int) -> npt.NDArray[Any]:
    """One label for every row; a single column counts as that."""
    found = np.asarray(values)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.shape != (n_rows,):
        raise ValueError(f"{name} has the shape {found.shape}; expected one label for each of {n_rows} rows")
    return found


def check_labels(y: npt.NDArray[Any], where: str) -> None:
    """Refuse rows without a label: None, or not a number."""
    if y.dtype.kind == "O":
        missing = np.asarray([label is None or label != label for label in y.tolist()], dtype=np.bool_)
    elif y.dtype.kind == "f":
        missing = np.isnan(y)
    else:
        return
    if missing.any():
        raise ValueError(f"{where}: row {int(np.argmax(missing))} of these has no label; leave such rows out")


def check_weights(sample_weight: Any, n_rows: int, where: str = "sample_weight") -> FloatArray:
    """Weights in double precision; a number is the weight of every row, None means ones."""
    if sample_weight is None:
        return np.ones(n_rows)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise ValueError(f"{where}: weights of the shape {weight.shape} for {n_rows} rows")
    if not np.isfinite(weight).all() or (weight < 0).any():
        bad = weight[~(np.isfinite(weight) & (weight >= 0))][0]
        raise ValueError(f"{where}: weights must be finite and not negative; one given is {bad:g}")
    return weight


def check_groups(groups: Any, n_rows: int) -> npt.NDArray[np.int64]:
    """Numbers of the groups of the rows, from zero, from labels of any sortable type."""
    found = np.asarray(groups)
    if found.shape != (n_rows,):
        raise ValueError(f"groups has the shape {found.shape}; expected one label for each of {n_rows} rows")
    check_labels(found, "groups")
    labels, number = np.unique(found, return_inverse=True)
    if len(labels) < 2:
        raise ValueError("groups holds one group: without it no row is left")
    return number.astype(np.int64)


def drawn_seed(random_state: Any) -> int:
    """A seed from a random state in scikit-learn's sense."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
