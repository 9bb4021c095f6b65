"""Tables of any kind of column to predictions: reading, one pipeline, evaluation.

Needs pandas and skrub (``pip install 'bayesvm[cli]'``), which are imported
when a name of this package is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayesvm.lazy import lazy_names

if TYPE_CHECKING:
    from bayesvm.tables.columns import TableColumns
    from bayesvm.tables.errors import TableError, TableWarning
    from bayesvm.tables.evaluation import Evaluation, Interval, evaluate_table
    from bayesvm.tables.example import EXAMPLE_TARGET, example_table
    from bayesvm.tables.fitting import TableFit, fit_table
    from bayesvm.tables.pipeline import table_classifier
    from bayesvm.tables.predictions import predict_blocks, predict_table
    from bayesvm.tables.reading import open_blocks, read_table
    from bayesvm.tables.relevance import column_relevance
    from bayesvm.tables.writing import table_writer, write_table

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
    "EXAMPLE_TARGET": "example",
    "Evaluation": "evaluation",
    "Interval": "evaluation",
    "TableColumns": "columns",
    "TableError": "errors",
    "TableFit": "fitting",
    "TableWarning": "errors",
    "column_relevance": "relevance",
    "evaluate_table": "evaluation",
    "example_table": "example",
    "fit_table": "fitting",
    "open_blocks": "reading",
    "predict_blocks": "predictions",
    "predict_table": "predictions",
    "read_table": "reading",
    "table_classifier": "pipeline",
    "table_writer": "writing",
    "write_table": "writing",
}

_get, __dir__ = lazy_names(globals(), _HOME)


def __getattr__(name: str) -> Any:
    try:
        return _get(name)
    except ModuleNotFoundError as error:
        if error.name not in ("pandas", "skrub", "pyarrow"):
            raise
        raise ImportError(f"tables need {error.name}: pip install 'bayesvm[cli]'") from error
