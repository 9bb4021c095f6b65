"""Labels and weights that are columns of a data frame in memory."""

from __future__ import annotations

from typing import Any

from bayesvm.streaming.arrow import check_column

__all__ = ["check_named", "named_columns"]


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
    # The columns of a pyarrow table are no names.
    if not hasattr(X, "columns") or hasattr(X, "column_names"):
        role, name = next(iter(named.items()))
        raise TypeError(
            f"{role}={name!r} names a column, and X is no data frame: its type is {type(X).__name__}; give "
            f"{role} as an array"
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
