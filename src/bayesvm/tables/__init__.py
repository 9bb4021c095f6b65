"""Tables with columns of any kind: reading, one pipeline from columns to predictions, evaluation.

Public: functions from tables to tables, fits and evaluations, what they return, the
pipeline itself and the exceptions. Needs pandas and skrub (``pip install 'bayesvm[cli]'``),
which are imported when a name of this package is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._lazy import lazy_package

if TYPE_CHECKING:
    from bayesvm.tables._evaluation import Evaluation as Evaluation
    from bayesvm.tables._evaluation import evaluate_table as evaluate_table
    from bayesvm.tables._exceptions import TableError as TableError
    from bayesvm.tables._exceptions import TableWarning as TableWarning
    from bayesvm.tables._fitting import TableFit as TableFit
    from bayesvm.tables._fitting import fit_table as fit_table
    from bayesvm.tables._formats import table_writer as table_writer
    from bayesvm.tables._formats import write_table as write_table
    from bayesvm.tables._pipeline import table_classifier as table_classifier
    from bayesvm.tables._predictions import column_relevance as column_relevance
    from bayesvm.tables._predictions import predict_blocks as predict_blocks
    from bayesvm.tables._predictions import predict_table as predict_table
    from bayesvm.tables._reading import EXAMPLE_TARGET as EXAMPLE_TARGET
    from bayesvm.tables._reading import example_table as example_table
    from bayesvm.tables._reading import open_blocks as open_blocks
    from bayesvm.tables._reading import read_table as read_table
else:
    __all__, __getattr__, __dir__ = lazy_package(
        __name__,
        {
            "_evaluation": ["Evaluation", "evaluate_table"],
            "_exceptions": ["TableError", "TableWarning"],
            "_fitting": ["TableFit", "fit_table"],
            "_formats": ["table_writer", "write_table"],
            "_pipeline": ["table_classifier"],
            "_predictions": ["column_relevance", "predict_blocks", "predict_table"],
            "_reading": ["EXAMPLE_TARGET", "example_table", "open_blocks", "read_table"],
        },
        extra="cli",
    )
