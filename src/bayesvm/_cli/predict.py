"""``bayesvm predict``: a table of predictions to a file, a pipe or a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesvm._cli import DONE
from bayesvm._cli.app import check_place, check_share
from bayesvm._cli.terminal import (
    Steps,
    class_counts,
    collected_notes,
    count_of,
    cut,
    print_json_list,
    print_notes,
    shown_progress,
)

if TYPE_CHECKING:
    import pandas

    from bayesvm.tables._formats import TableWriter
    from bayesvm.tables._reading import TableBlocks


_ROWS_SHOWN = 10
# The most important first: what does not fit a narrow terminal is left out.
_COLUMNS_SHOWN = ("row", "prediction", "probability", "ask_a_person", "epistemic", "variation_ratio")


def predict_command(
    model: Path, table: Path | None, abstain: float | None, output: Path | None, keep: bool, as_json: bool
) -> int:
    """Predict every row, block by block, and write the predictions."""
    if output is not None and str(output) == "-":
        output = None
    if abstain is not None:
        check_share("--abstain", abstain)
    with collected_notes() as notes, shown_progress() as steps:
        steps.start("Loading the model")
        from bayesvm._cli.models import open_model, open_rows
        from bayesvm.tables._formats import CsvWriter, check_file_name, table_writer

        if output is not None:
            check_file_name(output, writing=True)
            taken = {model.resolve(): "the model"} | ({} if table is None else {table.resolve(): "the table"})
            check_place("--output", output, taken)
        loaded = open_model(model)
        steps.start("Reading the table")
        rows = open_rows(loaded, table)
        steps.start("Predicting")
        summary = _Summary()
        predictions = summary.blocks(_predictions(loaded.estimator, rows, abstain, keep), rows.n_rows, steps)
        if output is not None:
            with table_writer(output, rows.arrow_types) as writer:
                _write(predictions, writer, as_json)
        elif as_json:
            print_json_list(_records(predictions))
        elif sys.stdout.isatty():
            for _ in predictions:  # what is shown of them is kept
                pass
        else:
            _write(predictions, CsvWriter(sys.stdout.buffer), False)
    if output is not None and not as_json:
        sys.stderr.write(f"bayesvm: wrote {count_of(rows.n_rows, 'row')} to {output}\n")
    elif output is None and not as_json and sys.stdout.isatty():
        _show(summary)
    print_notes(notes)
    return DONE


def _write(predictions: Iterable[pandas.DataFrame], writer: TableWriter, as_json: bool) -> None:
    """Write all blocks to a file, and on request as JSON to standard output too."""

    def written() -> Iterator[pandas.DataFrame]:
        for block in predictions:
            writer.write(block)
            yield block

    if as_json:
        print_json_list(_records(written()))
    else:
        for _ in written():
            pass


def _records(predictions: Iterable[pandas.DataFrame]) -> Iterator[dict[str, Any]]:
    for block in predictions:
        values = block.astype(object)
        yield from values.where(values.notna(), None).to_dict(orient="records")


def _predictions(
    estimator: Any, rows: TableBlocks, abstain: float | None, keep: bool
) -> Iterator[pandas.DataFrame]:
    """Row numbers, with ``keep`` the columns of the table, and the predictions, block by block."""
    import numpy as np
    import pandas as pd

    from bayesvm.tables import TableError, predict_blocks

    read: list[pandas.DataFrame] = []

    def tables() -> Iterator[pandas.DataFrame]:
        for table in rows:
            read[:] = [table] if keep else []
            yield table

    start = 1
    for predictions in predict_blocks(estimator, tables(), abstain):
        predictions.insert(0, "row", np.arange(start, start + len(predictions)))
        start += len(predictions)
        if keep:
            both = [name for name in predictions.columns if name in read[0].columns]
            if both:
                raise TableError(
                    f"the table has a column {both[0]!r} already; rename it, or leave out --keep"
                )
            predictions = pd.concat([read[0], predictions], axis=1)
        yield predictions


class _Summary:
    """Summary of predictions for a terminal, collected while they are written."""

    def __init__(self) -> None:
        self.first: pandas.DataFrame | None = None
        self.n_rows = self.n_asked = 0
        self.classes: dict[Any, int] = {}

    def blocks(
        self, predictions: Iterable[pandas.DataFrame], n_rows: int, steps: Steps
    ) -> Iterator[pandas.DataFrame]:
        """Pass blocks on and count them."""
        n_blocks: int | None = None
        for block in predictions:
            if self.first is None:
                self.first = block.head(_ROWS_SHOWN)
                n_blocks = -(-n_rows // len(block))
            self.n_rows += len(block)
            for label, count in block["prediction"].value_counts(sort=False).items():
                self.classes[label] = self.classes.get(label, 0) + int(count)
            if "ask_a_person" in block:
                self.n_asked += int(block["ask_a_person"].sum())
            yield block
            steps.advance(n_blocks or 1, f"{self.n_rows} of {n_rows} rows")


def _show(summary: _Summary) -> None:
    """Print the first rows, as many columns as fit, and a summary."""
    predictions = summary.first
    assert predictions is not None
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    grid = Table(box=None, header_style="bold cyan", pad_edge=False)
    columns: list[list[str]] = []
    room = console.width
    for name in _COLUMNS_SHOWN:
        if name in predictions:
            values = predictions[name].tolist()
            cells = [f"{v:.3f}" if isinstance(v, float) else cut(str(v), 30) for v in values]
            room -= 2 + max(map(len, [name, *cells]))
            if columns and room < 0:
                break
            columns.append(cells)
            grid.add_column(name, justify="right" if isinstance(values[0], float) else "left")
    for row in zip(*columns, strict=True):
        grid.add_row(*map(Text, row))
    console.print(grid)
    for line in _summary_lines(summary):
        console.print(Text(line, style="dim"))


def _summary_lines(summary: _Summary) -> list[str]:
    # The most frequent first; of equals the one that was seen first.
    counts = sorted(summary.classes.items(), key=lambda item: -item[1])
    names, numbers = [label for label, _ in counts], [count for _, count in counts]
    lines = [f"{count_of(summary.n_rows, 'row')}: {class_counts(names, numbers)}"]
    if summary.first is not None and "ask_a_person" in summary.first:
        lines.append(f"ask a person about {count_of(summary.n_asked, 'row')}")
    lines.append("--output FILE.csv or a pipe gets all rows and columns")
    return lines
