"""Commands and their options.

Each function here only reads its arguments: it answers with what is to be
done, which the module of the command's name does.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bayesvm._version import __version__
from bayesvm.cli import (  # they add their commands to those of experiments
    experiments_active,  # noqa: F401
    experiments_adversarial,  # noqa: F401
)
from bayesvm.cli.experiments import Task, report, reproduce
from bayesvm.cli.options import names_in

__all__ = ["Task", "app"]

app = typer.Typer(
    help="Classify the rows of a table, and know which answers to trust.",
    epilog="Try it without data: 'bayesvm fit' fits a bundled table of penguins.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(reproduce, name="reproduce")
app.add_typer(report, name="report")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
MaxError = Annotated[
    float, typer.Option(metavar="SHARE", help="Error rate to keep among the rows the model answers.")
]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="File that 'bayesvm fit', or bayesvm.save in Python, wrote.")
]
TableModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="File that 'bayesvm fit' wrote.")]
TableFile = Annotated[
    Path | None, typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet file; the bundled table if none.")
]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bayesvm {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
) -> None:
    """What comes before a command."""


@app.command()
def fit(
    table: TableFile = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", metavar="COLUMN", help="Column to predict.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", "-m", metavar="FILE", help="Where the model goes [default: TABLE.skops]"),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Where the report goes [default: TABLE.html]"),
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    holdout: Annotated[
        float, typer.Option(metavar="SHARE", help="Rows to judge a first fit on; 0 for none.")
    ] = 0.2,
    max_error: MaxError = 0.01,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Column not to use; may be given again.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of the model.")] = 0,
    inducing: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Inducing points [default: by the size of the table]"),
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Whether files that exist are replaced.")] = True,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> Task:
    """Fit a model to a table, judge it, save it and write a report."""
    from bayesvm.cli.fit import FitOptions, fit_command

    options = FitOptions(
        table=table,
        target=target,
        model=model,
        report=report,
        no_report=no_report,
        holdout=holdout,
        max_error=max_error,
        ignore=tuple(ignore or ()),
        seed=seed,
        inducing=inducing,
        overwrite=overwrite,
        as_json=as_json,
        quiet=quiet,
    )
    return partial(fit_command, options)


@app.command()
def predict(
    model: ModelFile,
    table: TableFile = None,
    abstain: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Add the column ask_a_person: without those rows at most this share of answers is wrong.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="CSV, TSV or Parquet file; - for standard output [default: -]",
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Put the columns of the table in front.")] = False,
    as_json: AsJson = False,
) -> Task:
    """Predict the rows of a table: classes, probabilities and doubts as CSV."""
    from bayesvm.cli.predict import predict_command

    return partial(predict_command, model, table, abstain, output, keep, as_json)


@app.command()
def evaluate(
    model: TableModelFile,
    table: TableFile = None,
    max_error: MaxError = 0.01,
    as_json: AsJson = False,
) -> Task:
    """Judge a model on a table whose labels are known."""
    from bayesvm.cli.evaluate import evaluate_command

    return partial(evaluate_command, model, table, max_error, as_json)


@app.command()
def label(
    pool: Annotated[Path, typer.Argument(metavar="POOL", help="CSV, TSV or Parquet file of rows to label.")],
    target: Annotated[
        str, typer.Option("--target", "-t", metavar="COLUMN", help="Column of the labels; may be a new one.")
    ],
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where every answer goes at once [default: POOL.labels.csv]"),
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Which row next: variation_ratio, softmax_entropy, margin, entropy, bald, batch or random.",
        ),
    ] = "variation_ratio",
    classes: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Classes that will occur [default: those met so far]")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Columns to show [default: those that fit]")
    ] = None,
    n_queries: Annotated[
        int | None, typer.Option("--n-queries", "-n", min=0, metavar="N", help="End after so many labels.")
    ] = None,
    oracle: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Ask nobody: take the labels from this table."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the pool with its labels at the end."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", "-m", metavar="FILE", help="Fit and save a model of the labels at the end."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column the model does not use; may be given again."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the model and of the first rows.")] = 0,
    ask_skipped: Annotated[bool, typer.Option("--ask-skipped", help="Ask again about skipped rows.")] = False,
    rows_unchanged: Annotated[
        bool,
        typer.Option("--rows-unchanged", help="The pool has changed, but its rows are in the old order."),
    ] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print questions and errors only.")] = False,
) -> Task:
    """Label a table row by row, the row that teaches the model most first."""
    from bayesvm.cli.label import LabelOptions, label_command

    options = LabelOptions(
        pool=pool,
        target=target,
        labels=labels,
        policy=policy,
        classes=names_in("--classes", classes),
        columns=names_in("--columns", columns),
        n_queries=n_queries,
        oracle=oracle,
        output=output,
        model=model,
        ignore=tuple(ignore or ()),
        seed=seed,
        ask_skipped=ask_skipped,
        rows_unchanged=rows_unchanged,
        as_json=as_json,
        quiet=quiet,
    )
    return partial(label_command, options)


@app.command()
def info(model: ModelFile, as_json: AsJson = False) -> Task:
    """Say what a model was trained on, how good it is, and how to load it."""
    from bayesvm.cli.info import info_command

    return partial(info_command, model, as_json)
