"""Labels as a column of a table has them, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas

__all__ = ["as_written", "labels_of"]

# Only where nothing is written there is no label: a class may be called "none".
_NO_LABEL = ("",)


def labels_of(column: pandas.Series) -> dict[int, str]:
    """Row and label where a column is filled; whole numbers without a decimal point."""
    from bayesvm.tables.kinds import as_text, check_plain

    check_plain(column)
    text = as_text(column, _NO_LABEL)
    known = np.flatnonzero(text.notna())
    return dict(zip(known.tolist(), text.iloc[known].tolist(), strict=True))


def as_written(labels: pandas.Series) -> pandas.Series:
    """Labels as whole numbers or truth values if that is what all of them say, else as text."""
    words = labels.dropna()
    if not len(words):
        return labels
    if words.isin(["True", "False"]).all():
        return (labels == "True").astype(object).where(labels.notna(), None)
    if words.str.fullmatch(r"0|-?[1-9]\d{0,14}").all():
        return labels.astype("Float64").astype("Int64")
    return labels
