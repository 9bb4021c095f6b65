"""Model files as commands need them, and the tables that go with them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesvm.tables.errors import TableError, closest

if TYPE_CHECKING:
    import pandas

    from bayesvm.tables import TableColumns
    from bayesvm.tables.blocks import TableBlocks

__all__ = ["LoadedModel", "open_model", "open_rows", "open_table"]


@dataclass(frozen=True)
class LoadedModel:
    """What was in a model file.

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


def open_model(path: Path) -> LoadedModel:
    """Load a model file that ends in a fitted classifier of ours."""
    from sklearn.pipeline import Pipeline

    import bayesvm
    from bayesvm.tables import TableColumns

    if not path.exists():
        raise FileNotFoundError(f"there is no model file {str(path)!r}{_similar_model(path)}")
    estimator = bayesvm.load(path)
    steps = list(estimator.named_steps.values()) if isinstance(estimator, Pipeline) else [estimator]
    if not isinstance(steps[-1], bayesvm.BayesianSVC):
        kind = type(estimator).__name__
        raise ValueError(f"{str(path)!r} holds a {kind} that does not end in a BayesianSVC; fit one first")
    if not hasattr(steps[-1], "model_"):
        raise ValueError(f"the model in {str(path)!r} was saved before it was fitted; fit it first")
    columns = steps[0] if isinstance(steps[0], TableColumns) else None
    return LoadedModel(path, estimator, steps[-1], columns)


def open_table(loaded: LoadedModel, path: Path | None) -> pandas.DataFrame:
    """The table to go through a model: a file, or the bundled one if the model was fitted to it."""
    from bayesvm.tables import example_table, read_table

    columns = loaded.columns
    if path is not None and columns is None:
        return _numbers_only(read_table(path), loaded)
    if columns is None:
        raise TableError("give a table; the bundled one does not go with this model")
    if path is None:
        table = example_table()
        if not set(columns.names_) <= set(table.columns):
            raise TableError("give a table; the bundled one does not go with this model")
        return table
    return read_table(path, model=loaded.estimator)


def open_rows(loaded: LoadedModel, path: Path | None) -> TableBlocks:
    """The same in blocks of rows, for files larger than memory."""
    from bayesvm.tables.blocks import MappedBlocks, WholeTable
    from bayesvm.tables.reading import open_blocks

    if path is None:
        return WholeTable(open_table(loaded, path))
    if loaded.columns is not None:
        return open_blocks(path, model=loaded.estimator)
    blocks = MappedBlocks(open_blocks(path), partial(_numbers_only, loaded=loaded))
    for _ in blocks:  # all of them, before the first prediction is written
        pass
    return blocks


def _numbers_only(table: pandas.DataFrame, loaded: LoadedModel) -> pandas.DataFrame:
    """The columns of a model that knows nothing of tables, as numbers."""
    names = getattr(loaded.estimator, "feature_names_in_", None)
    if names is not None:
        for name in names:
            if name not in table:
                raise TableError(
                    f"the table has no column {name!r}, which the model needs{closest(name, table.columns)}"
                )
        table = table[list(names)]
    if table.shape[1] != loaded.estimator.n_features_in_:
        raise TableError(
            f"the model was fitted to {loaded.estimator.n_features_in_} columns without names, the table has "
            f"{table.shape[1]}; give just those columns, in their order"
        )
    for name in table.columns:
        if table[name].dtype.kind not in "biuf" or table[name].isna().any():
            raise TableError(
                "this model was not made by 'bayesvm fit' and takes numbers only; column "
                f"{name!r} has other or missing values"
            )
    return table if names is not None else table.set_axis(range(table.shape[1]), axis=1)


def _similar_model(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.suffix == ".skops"]
    except OSError:
        return ""
    found = difflib.get_close_matches(path.name, names, n=1, cutoff=0.4)
    return f"; did you mean {str(path.with_name(found[0]))!r}?" if found else "; make one with 'bayesvm fit'"
