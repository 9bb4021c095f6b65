"""Model files for ``predict``, ``evaluate`` and ``info``, and the tables that go with them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

    from bayesvm.tables._columns import TableColumns
    from bayesvm.tables._reading import TableBlocks


@dataclass(frozen=True)
class ModelFile:
    """A loaded model file.

    Attributes
    ----------
    path : Path
    estimator : estimator
        As it was loaded.
    model : BayesianSVC
        Its last step, or itself.
    columns : TableColumns or None
        Its first step, if ``bayesvm fit`` made it.
    """

    path: Path
    estimator: Any
    model: Any
    columns: TableColumns | None


def open_model(path: Path) -> ModelFile:
    """Load a model file that ends in a fitted classifier of ours."""
    from sklearn.pipeline import Pipeline

    import bayesvm
    from bayesvm.tables._pipeline import table_columns

    if not path.exists():
        raise FileNotFoundError(f"there is no model file {str(path)!r}{_similar_model(path)}")
    estimator = bayesvm.load(path)
    steps = list(estimator.named_steps.values()) if isinstance(estimator, Pipeline) else [estimator]
    if not isinstance(steps[-1], bayesvm.BayesianSVC):
        kind = type(estimator).__name__
        raise ValueError(f"{str(path)!r} holds a {kind} that does not end in a BayesianSVC; fit one first")
    if not hasattr(steps[-1], "model_"):
        raise ValueError(f"the model in {str(path)!r} was saved before it was fitted; fit it first")
    return ModelFile(path, estimator, steps[-1], table_columns(estimator))


def open_table(loaded: ModelFile, path: Path | None) -> pandas.DataFrame:
    """Read the table for a model; without a path the bundled one, if the model was fitted to it."""
    from bayesvm.tables import TableError, example_table, read_table

    columns = loaded.columns
    if path is not None:
        return read_table(path, model=loaded.estimator)
    table = example_table()
    if columns is None or not set(columns.names_) <= set(table.columns):
        raise TableError("give a table; the bundled one does not go with this model")
    return table


def open_rows(loaded: ModelFile, path: Path | None) -> TableBlocks:
    """The same in blocks of rows, for files larger than memory."""
    from bayesvm.tables._pipeline import columns_for
    from bayesvm.tables._reading import WholeTable, open_blocks

    if path is None:
        return WholeTable(open_table(loaded, path))
    blocks = open_blocks(path, model=loaded.estimator)
    if loaded.columns is None:
        for block in blocks:  # all of them, before the first prediction is written
            columns_for(loaded.estimator, block, numbers_only=True)
    return blocks


def _similar_model(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.suffix == ".skops"]
    except OSError:
        return ""
    found = difflib.get_close_matches(path.name, names, n=1, cutoff=0.4)
    return f"; did you mean {str(path.with_name(found[0]))!r}?" if found else "; make one with 'bayesvm fit'"
