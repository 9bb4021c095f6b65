"""The commands and their options.

Each function here only reads its arguments and returns a task, which the
module named after the command carries out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from bayesvm._version import __version__

app = typer.Typer(
    help="Classify the rows of a table, and know which answers to trust.",
    epilog="Try it without data: 'bayesvm fit' fits a bundled table of penguins.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Error rates of which the first that can be kept is shown if none is asked for.
USUAL_ERRORS = (0.05, 0.1, 0.2)

Task = Callable[[], int]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="File written by 'bayesvm fit', or by bayesvm.save in Python.")
]
TableModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="File written by 'bayesvm fit'.")]
TableFile = Annotated[
    Path | None, typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet file [default: the bundled table]")
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
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options before the command."""


@app.command()
def fit(
    table: TableFile = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", metavar="COLUMN", help="Column to predict.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", "-m", metavar="FILE", help="Where to write the model [default: TABLE.skops]"),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Where to write the report [default: TABLE.html]"),
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    holdout: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of rows to hold out for evaluation; 0 for none.")
    ] = 0.2,
    abstain: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Guarantee that at most this share of answers is wrong. The guarantee rests on the held-out "
            "rows, so the saved model is not trained on them.",
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Column to leave out; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of the model.")] = 0,
    inducing: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Number of inducing points [default: depends on the rows]"),
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace existing files.")] = True,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> Task:
    """Fit a model to a table, evaluate it, save it and write a report."""
    from bayesvm._cli.fit import FitOptions, fit_command

    options = FitOptions(
        table=table,
        target=target,
        model=model,
        report=report,
        no_report=no_report,
        holdout=holdout,
        abstain=abstain,
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
            help="Add the column ask_a_person: rows to hand to a person so that at most this share of the "
            "other answers is wrong; guaranteed for models of 'fit --abstain'.",
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
    keep: Annotated[bool, typer.Option("--keep", help="Write the table's own columns, too.")] = False,
    as_json: AsJson = False,
) -> Task:
    """Predict the rows of a table: classes, probabilities and uncertainty, as CSV."""
    from bayesvm._cli.predict import predict_command

    return partial(predict_command, model, table, abstain, output, keep, as_json)


@app.command()
def evaluate(
    model: TableModelFile,
    table: TableFile = None,
    abstain: Annotated[
        float,
        typer.Option(metavar="SHARE", help="Show what the model answers if at most this share may be wrong."),
    ] = USUAL_ERRORS[0],
    as_json: AsJson = False,
) -> Task:
    """Evaluate a model on a table with known labels."""
    from bayesvm._cli.evaluate import evaluate_command

    return partial(evaluate_command, model, table, abstain, as_json)


@app.command()
def label(
    pool: Annotated[Path, typer.Argument(metavar="POOL", help="CSV, TSV or Parquet file of rows to label.")],
    target: Annotated[
        str, typer.Option("--target", "-t", metavar="COLUMN", help="Column of the labels; may be a new one.")
    ],
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to save every answer to at once [default: POOL.labels.csv]"),
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Query policy: variation_ratio, softmax_entropy, margin, entropy, bald, batch or random.",
        ),
    ] = "variation_ratio",
    classes: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Classes to expect [default: those seen so far]")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Columns to show [default: those that fit]")
    ] = None,
    n_queries: Annotated[
        int | None, typer.Option("--n-queries", "-n", min=0, metavar="N", help="Stop after this many labels.")
    ] = None,
    oracle: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Take the labels from this table instead of asking."),
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
        typer.Option(metavar="COLUMN", help="Column that the model leaves out; may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the model and of the first rows.")] = 0,
    ask_skipped: Annotated[bool, typer.Option("--ask-skipped", help="Ask again about skipped rows.")] = False,
    rows_unchanged: Annotated[
        bool,
        typer.Option("--rows-unchanged", help="Accept changed values; the rows must be in the same order."),
    ] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print questions and errors only.")] = False,
) -> Task:
    """Label a table row by row, the most informative row first."""
    from bayesvm._cli.label import LabelOptions, label_command

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
    """Show what a model was trained on, how good it is, and how to load it."""
    from bayesvm._cli.evaluate import info_command

    return partial(info_command, model, as_json)


# The studies are a second distribution, which registers these commands as entry points. They are
# looked up only when one is run: the help lists them from here, with or without the studies.
_STUDIES = {
    "reproduce": "Run the experiments of the paper.",
    "report": "Show what the experiments found.",
}


def _studies_command(context: typer.Context) -> Any:
    """Hand all arguments to the command of the studies."""
    from importlib.metadata import entry_points

    name = str(context.info_name)
    found = list(entry_points(group="bayesvm.commands", name=name))
    if not found:
        raise ImportError(
            f"'bayesvm {name}' is part of the studies, a separate distribution: "
            "pip install ./studies in a checkout of bayesvm"
        )
    command = typer.main.get_group(found[0].load())
    with command.make_context(name, context.args or ["--help"], parent=context.parent) as inner:
        return command.invoke(inner)


for _name, _help in _STUDIES.items():
    app.command(
        _name,
        help=_help,
        add_help_option=False,
        context_settings={
            "ignore_unknown_options": True,
            "allow_extra_args": True,
            "allow_interspersed_args": False,
        },
    )(_studies_command)


def check_share(option: str, value: float) -> None:
    """Refuse a share that is not strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise ValueError(f"{option} {value:g} is not valid; give a share between 0 and 1, such as 0.05")


def check_place(option: str, path: Path, taken: dict[Path, str], overwrite: bool = True) -> None:
    """Refuse an output file that cannot or must not be written; ``taken`` names files already in use."""
    target = path.resolve()
    folder = str(target.parent)
    if target in taken:
        raise ValueError(f"{option} {str(path)!r} is {taken[target]} already; give another name")
    if target.is_dir():
        raise ValueError(f"{option} {str(path)!r} is a folder; give the name of a file")
    if not target.parent.is_dir():
        raise ValueError(f"{option}: the folder {folder!r} does not exist; create it first")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{option}: you may not write into the folder {folder!r}; choose another")
    if target.exists() and not overwrite:
        raise ValueError(f"{option} {str(path)!r} exists; give another name, or allow --overwrite")


def names_in(option: str, text: str | None) -> tuple[str, ...]:
    """Split a list with commas into names.

    Examples
    --------
    >>> names_in("--classes", "ant, bee")
    ('ant', 'bee')
    """
    if text is None:
        return ()
    names = tuple(part.strip() for part in text.split(","))
    if not all(names):
        raise ValueError(f"{option} {text!r} has an empty name; separate names with single commas")
    doubled = [name for i, name in enumerate(names) if name in names[:i]]
    if doubled:
        raise ValueError(f"{option} names {doubled[0]!r} twice; give every name once")
    return names
