"""A table as the model sees it: every value of its column's kind, whatever stands for a gap missing."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas

    from bayesvm.tables import TableColumns

__all__ = ["as_seen", "columns_of"]


def columns_of(inputs: pandas.DataFrame) -> TableColumns:
    """What a fit would learn about these columns; there may be none that it would use."""
    from bayesvm.tables.columns import TableColumns
    from bayesvm.tables.errors import TableError, TableWarning

    columns = TableColumns()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)  # said when the table is fitted
        try:
            columns.fit(inputs)
        except TableError:
            # Raised once every column was looked at: a table without a usable one has pitfalls too.
            if columns.names_:
                raise
    return columns


def as_seen(columns: TableColumns, table: pandas.DataFrame) -> pandas.DataFrame:
    """The columns in use, with gaps where the model sees them."""
    from bayesvm.tables.errors import TableWarning

    if not columns.names_:
        return table.iloc[:, :0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        return columns.transform(table)
