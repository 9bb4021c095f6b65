"""Rows and tables whose values have names: the names are compared with those of the fit, never guessed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["check_columns", "in_order"]

# Names that a message lists.
_MOST_NAMED = 10


def check_columns(given: Iterable[Any], fitted: tuple[str, ...], what: str) -> None:
    """Refuse other names, or another order, than those of the fit."""
    names = tuple(given)
    if names != fitted:
        raise ValueError(
            f"{what} {list(names)[:_MOST_NAMED]}, the model was fitted to {list(fitted)[:_MOST_NAMED]}; give "
            "the same columns in the same order"
        )


def in_order(x: Any, fitted: tuple[str, ...] | None, n_features: int) -> Any:
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
            check_columns(labels, fitted, "the row has the names")
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
