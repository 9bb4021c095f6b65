"""Tables of any kind of column to predictions: reading, one pipeline, evaluation.

Needs pandas and skrub (``pip install 'bayesvm[cli]'``), which are imported
when a name of this package is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayesvm._lazy import lazy_names

if TYPE_CHECKING:
    from bayesvm.tables._columns import TableColumns
    from bayesvm.tables._evaluation import Evaluation, Interval, evaluate_table
    from bayesvm.tables._fitting import TableFit, fit_table
    from bayesvm.tables._kinds import TableError, TableWarning
    from bayesvm.tables._pipeline import table_classifier
    from bayesvm.tables._predictions import (
        column_relevance,
        predict_blocks,
        predict_table,
        table_writer,
        write_table,
    )
    from bayesvm.tables._reading import EXAMPLE_TARGET, example_table, open_blocks, read_table

__all__ = [
    "EXAMPLE_TARGET",
    "Evaluation",
    "Interval",
    "TableColumns",
    "TableError",
    "TableFit",
    "TableWarning",
    "column_relevance",
    "evaluate_table",
    "example_table",
    "fit_table",
    "open_blocks",
    "predict_blocks",
    "predict_table",
    "read_table",
    "table_classifier",
    "table_writer",
    "write_table",
]

_HOME = {
    "EXAMPLE_TARGET": "_reading",
    "Evaluation": "_evaluation",
    "Interval": "_evaluation",
    "TableColumns": "_columns",
    "TableError": "_kinds",
    "TableFit": "_fitting",
    "TableWarning": "_kinds",
    "column_relevance": "_predictions",
    "evaluate_table": "_evaluation",
    "example_table": "_reading",
    "fit_table": "_fitting",
    "open_blocks": "_reading",
    "predict_blocks": "_predictions",
    "predict_table": "_predictions",
    "read_table": "_reading",
    "table_classifier": "_pipeline",
    "table_writer": "_predictions",
    "write_table": "_predictions",
}

_get, __dir__ = lazy_names(globals(), _HOME)


def __getattr__(name: str) -> Any:
    try:
        return _get(name)
    except ModuleNotFoundError as error:
        if error.name not in ("pandas", "skrub", "pyarrow"):
            raise
        raise ImportError(f"tables need {error.name}: pip install 'bayesvm[cli]'") from error
