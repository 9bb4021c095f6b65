"""Labels and weights: from what users give to indices and non-negative numbers."""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int64]


def check_at_hand(X: Any) -> None:
    """Refuse what rows would have to be read from; ``fit`` takes it, predictions do not."""
    if isinstance(X, (str, os.PathLike, Iterator)) or callable(X):
        raise TypeError(
            f"predictions take an array or a data frame; got {type(X).__name__}. Files larger than memory go "
            "through `bayesvm predict` or bayesvm.tables.predict_blocks, some rows at a time; batches "
            "through one call for each"
        )


def class_indices(y: Any, classes: npt.NDArray[Any] | None) -> tuple[npt.NDArray[Any], IntArray]:
    """Sorted labels and the index of each row's label among them.

    Raises
    ------
    ValueError
        If y holds fewer than two classes, or a label that ``classes`` lacks.
    """
    check_classification_targets(y)
    if classes is None:
        classes, index = np.unique(y, return_inverse=True)
    else:
        index = np.searchsorted(classes, y).clip(0, len(classes) - 1)
        unknown = np.unique(y[classes[index] != y])
        if unknown.size:
            raise ValueError(
                f"y holds the labels {unknown.tolist()[:5]}, which are not among the classes "
                f"{classes.tolist()[:10]} given first"
            )
    check_two_classes(classes)
    return classes, index.astype(np.int64)


def check_two_classes(classes: npt.NDArray[Any]) -> None:
    """Refuse labels that are all the same."""
    if len(classes) < 2:
        raise ValueError(
            f"a classifier needs at least two classes; y holds one class, {classes.tolist()[0]!r}"
        )


def check_weights(sample_weight: Any, n_rows: int) -> FloatArray:
    """Weights as floats; ones if there are none.

    Raises
    ------
    ValueError
        If their number is wrong or one is negative, not finite, or all are zero.
    """
    if sample_weight is None:
        return np.ones(n_rows)
    if np.isscalar(sample_weight):
        sample_weight = np.full(n_rows, sample_weight)
    weight: FloatArray = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if weight.ndim != 1:
        raise ValueError(f"sample_weight must be one-dimensional; got {weight.ndim} dimensions")
    if weight.shape[0] != n_rows:
        raise ValueError(f"sample_weight has {weight.shape[0]} entries for {n_rows} rows")
    if (weight < 0).any():
        raise ValueError(f"sample_weight must not be negative; the smallest given is {weight.min():g}")
    check_some_weight(weight)
    return weight


def check_some_weight(weight: FloatArray) -> None:
    """Refuse weights, of rows or of classes, that are all zero."""
    if not weight.any():
        raise ValueError("all sample weights are zero: there is no row to learn from")


def with_class_weights(
    class_weight: Any, classes: npt.NDArray[Any], index: IntArray, weight: FloatArray
) -> FloatArray:
    """Weights multiplied by those of the classes.

    ``"balanced"`` gives every class the same total weight, counting the
    weights of its rows, so that weight two equals the row twice.
    """
    if class_weight is None:
        return weight
    return weight * class_factors(class_weight, classes, masses(index, weight, len(classes)))[index]


def masses(index: IntArray, weight: FloatArray, n_classes: int) -> FloatArray:
    """Total weight of every class."""
    mass: FloatArray = np.bincount(index, weight, n_classes).astype(np.float64)
    return mass


def class_factors(class_weight: Any, classes: npt.NDArray[Any], mass: FloatArray) -> FloatArray:
    """What each class multiplies into the weights of its rows, whose total is its mass."""
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
    """Refuse what is no number from 0 to 1."""
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
