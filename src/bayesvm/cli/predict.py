"""``bayesvm predict``: a table of predictions to a file, a pipe or a terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesvm.cli.notes import collected_notes, print_notes
from bayesvm.cli.options import check_share
from bayesvm.cli.progress import shown_progress
from bayesvm.cli.sections import print_json
from bayesvm.cli.status import DONE
from bayesvm.cli.wording import class_counts, count_of, cut

if TYPE_CHECKING:
    import pandas

__all__ = ["predict_command"]

_ROWS_SHOWN = 10
# The most important first: what does not fit a narrow terminal is left out.
_COLUMNS_SHOWN = ("row", "prediction", "probability", "ask_a_person", "epistemic", "variation_ratio")


def predict_command(
    model: Path, table: Path | None, abstain: float | None, output: Path | None, keep: bool, as_json: bool
) -> int:
    """Predict every row and write the result where it is wanted."""
    if output is not None and str(output) == "-":
        output = None
    if abstain is not None:
        check_share("--abstain", abstain)
    with collected_notes() as notes, shown_progress() as steps:
        steps.start("Loading the model")
        from bayesvm.cli.models import open_model, open_table
        from bayesvm.tables.reading import check_file_name, write_table

        if output is not None:
            check_file_name(output, writing=True)
        loaded = open_model(model)
        steps.start("Reading the table")
        rows = open_table(loaded, table)
        steps.start("Predicting")
        predictions = _predictions(loaded.estimator, rows, abstain, keep)
        if output is not None:
            steps.start("Writing")
            write_table(predictions, output)
    if as_json:
        values = predictions.astype(object)
        print_json(values.where(values.notna(), None).to_dict(orient="records"))
    elif output is not None:
        sys.stderr.write(f"bayesvm: wrote {count_of(len(predictions), 'row')} to {output}\n")
    elif sys.stdout.isatty():
        _show(predictions)
    else:
        # Bytes: UTF-8 and plain line ends on any system.
        predictions.to_csv(sys.stdout.buffer, index=False, lineterminator="\n", encoding="utf-8")
    print_notes(notes)
    return DONE


def _predictions(
    estimator: Any, table: pandas.DataFrame, abstain: float | None, keep: bool
) -> pandas.DataFrame:
    """Row numbers, the user's columns if wanted, and the predictions."""
    import numpy as np
    import pandas as pd
    from sklearn.pipeline import Pipeline

    from bayesvm.tables import TableError, predict_table

    pipeline = estimator if isinstance(estimator, Pipeline) else Pipeline([("model", estimator)])
    predictions = predict_table(pipeline, table, abstain)
    predictions.insert(0, "row", np.arange(1, len(table) + 1))
    if not keep:
        return predictions
    both = [name for name in predictions.columns if name in table.columns]
    if both:
        raise TableError(f"the table has a column {both[0]!r} already; rename it, or leave out --keep")
    return pd.concat([table, predictions], axis=1)


def _show(predictions: pandas.DataFrame) -> None:
    """The first rows, as many columns as fit, and a summary, for someone at a terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    grid = Table(box=None, header_style="bold cyan", pad_edge=False)
    columns: list[list[str]] = []
    room = console.width
    for name in _COLUMNS_SHOWN:
        if name in predictions:
            values = predictions[name].head(_ROWS_SHOWN).tolist()
            cells = [f"{v:.3f}" if isinstance(v, float) else cut(str(v), 30) for v in values]
            room -= 2 + max(map(len, [name, *cells]))
            if columns and room < 0:
                break
            columns.append(cells)
            grid.add_column(name, justify="right" if isinstance(values[0], float) else "left")
    for row in zip(*columns, strict=True):
        grid.add_row(*map(Text, row))
    console.print(grid)
    for line in _in_short(predictions):
        console.print(Text(line, style="dim"))


def _in_short(predictions: pandas.DataFrame) -> list[str]:
    counts = predictions["prediction"].value_counts()
    lines = [f"{count_of(len(predictions), 'row')}: {class_counts(counts.index, counts.to_list())}"]
    if "ask_a_person" in predictions:
        lines.append(f"ask a person about {count_of(int(predictions['ask_a_person'].sum()), 'row')}")
    lines.append("--output FILE.csv or a pipe gets all rows and columns")
    return lines
