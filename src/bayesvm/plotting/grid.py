"""A grid over two features, as rows that any estimator fitted to X accepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["FeatureGrid", "feature_grid"]

FloatArray = npt.NDArray[np.floating]


@dataclass(frozen=True)
class FeatureGrid:
    """Grid points, first feature fastest.

    Attributes
    ----------
    x, y : ndarray of shape (n,)
        Coordinates along the two features.
    rows : array or frame of shape (n * n, n_features)
        Of the type of X.
    points : ndarray of shape (n_rows, 2)
        The two features of X.
    names : pair of str
    columns : pair of int
    """

    x: FloatArray
    y: FloatArray
    rows: Any
    points: FloatArray
    names: tuple[str, str]
    columns: tuple[int, int]


def feature_grid(
    X: Any, features: tuple[int | str, int | str], resolution: int, margin: float
) -> FeatureGrid:
    """Grid over the range of two features; the others at a typical value.

    Parameters
    ----------
    X : array-like or frame of shape (n_rows, n_features)
    features : pair of int or str
        Columns by number, or by name if X is a frame.
    resolution : int
        Points per axis.
    margin : float
        What to add on each side, as a share of the range.
    """
    if resolution < 2:
        raise ValueError(f"grid_resolution={resolution!r} is not valid; it must be a whole number >= 2")
    if len(features) != 2:
        raise ValueError(f"features={features!r} must name two features")
    names = list(X.columns) if hasattr(X, "columns") else None
    values = [np.asarray(X[name]) for name in names] if names is not None else list(np.asarray(X).T)
    first, second = (_position(feature, names, len(values)) for feature in features)
    points = np.stack([values[first], values[second]], 1).astype(np.float64)
    axes = []
    for low, high in zip(points.min(0), points.max(0), strict=True):
        extra = margin * (high - low) if high > low else 1.0
        axes.append(np.linspace(low - extra, high + extra, resolution))
    x, y = axes
    columns = [np.full(x.size * y.size, _typical(v)) for v in values]
    columns[first], columns[second] = np.tile(x, y.size), np.repeat(y, x.size)
    if names is None:
        return FeatureGrid(
            x, y, np.stack(columns, 1), points, (f"feature {first}", f"feature {second}"), (first, second)
        )
    rows = type(X)(dict(zip(names, columns, strict=True)))
    return FeatureGrid(x, y, rows, points, (str(names[first]), str(names[second])), (first, second))


def _position(feature: int | str, names: list[Any] | None, n_features: int) -> int:
    """Index of a column given by name or number."""
    if names is not None and feature in names:
        return names.index(feature)
    if isinstance(feature, (int, np.integer)) and 0 <= feature < n_features:
        return int(feature)
    known = f"the columns are {names[:10]}" if names else f"X has {n_features} features"
    raise ValueError(f"feature {feature!r} is unknown; {known}")


def _typical(values: npt.NDArray[Any]) -> Any:
    """Median of numbers, most frequent value of anything else; missing values aside."""
    if np.issubdtype(values.dtype, np.number):
        return np.nanmedian(values)
    present = values[[v is not None and v == v for v in values]]
    distinct, count = np.unique(present, return_counts=True)
    return distinct[count.argmax()]
