"""``bayesvm fit``: from a table to a model file, a report and a summary."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bayesvm.cli.notes import collected_notes, print_notes
from bayesvm.cli.options import check_place, check_share
from bayesvm.cli.progress import FitProgress, shown_progress
from bayesvm.cli.sections import print_json, print_sections
from bayesvm.cli.status import DONE, INTERRUPTED

if TYPE_CHECKING:
    import pandas

__all__ = ["FitOptions", "fit_command"]

_COLUMNS_LISTED = 30


@dataclass(frozen=True)
class FitOptions:
    """Arguments of the command."""

    table: Path | None
    target: str | None
    model: Path | None
    report: Path | None
    no_report: bool
    holdout: float
    max_error: float
    ignore: tuple[str, ...]
    seed: int
    inducing: int | None
    overwrite: bool
    as_json: bool
    quiet: bool


def fit_command(options: FitOptions) -> int:
    """Fit, save, report and summarise."""
    check_share("--max-error", options.max_error)
    model_path, report_path = _outputs(options)
    saved = False
    try:
        with collected_notes() as notes, shown_progress(not options.quiet) as steps:
            steps.start("Starting")
            import bayesvm
            from bayesvm.cli.summary import FitSummary
            from bayesvm.report import find_pitfalls, write_report
            from bayesvm.tables import fit_table
            from bayesvm.tables.interrupts import held_interrupts

            steps.start("Reading the table")
            table, target, source = _read(options)
            titles = ["Trial fit", "Final fit"] if options.holdout > 0 else ["Final fit"]
            fit = fit_table(
                table,
                target,
                holdout=options.holdout,
                ignore=options.ignore,
                random_state=options.seed,
                model_options={} if options.inducing is None else {"n_inducing": options.inducing},
                callbacks=[FitProgress(steps, titles)],
            )
            steps.start("Saving the model")
            with held_interrupts() as interrupts:
                bayesvm.save(fit.pipeline, model_path)
                saved = True
            if interrupts.pressed:
                raise KeyboardInterrupt
            steps.start("Looking for pitfalls")
            pitfalls = find_pitfalls(fit.table.drop(columns=list(options.ignore)), target)
            if report_path is not None:
                steps.start("Writing the report")
                write_report(
                    fit,
                    report_path,
                    model_path=model_path,
                    source=source,
                    max_error=options.max_error,
                    pitfalls=pitfalls,
                )
        summary = FitSummary(fit, source, pitfalls, model_path, report_path, options.max_error, notes)
        if options.as_json:
            print_json(summary.as_dict())
        elif not options.quiet:
            print_sections(summary.sections())
            print_notes(notes)
    except KeyboardInterrupt:
        if not saved:
            raise
        sys.stderr.write(f"bayesvm: interrupted; the model is saved in {model_path}\n")
        return INTERRUPTED
    if not fit.interrupted:
        return DONE
    sys.stderr.write(f"bayesvm: interrupted; the best model so far is saved in {model_path}\n")
    return INTERRUPTED


def _read(options: FitOptions) -> tuple[pandas.DataFrame, str, str]:
    """The table, the column to predict, and a name for the table."""
    from bayesvm.tables import EXAMPLE_TARGET, TableError, example_table, read_table

    if options.table is None:
        return example_table(), options.target or EXAMPLE_TARGET, "penguins.csv (bundled example)"
    table = read_table(options.table, target=options.target)
    if options.target is None:
        names = ", ".join(repr(str(name)) for name in table.columns[:_COLUMNS_LISTED])
        more = len(table.columns) - _COLUMNS_LISTED
        raise TableError(
            "which column shall be predicted? Give --target; the columns are "
            + names
            + (f" and {more} more" if more > 0 else "")
        )
    return table, options.target, options.table.name


def _outputs(options: FitOptions) -> tuple[Path, Path | None]:
    """Where model and report go, checked before the work begins."""
    if options.report is not None and options.no_report:
        raise ValueError("--report and --no-report contradict each other; give one of them")
    stem = "penguins" if options.table is None else options.table.name.split(".")[0] or "table"
    model = options.model or Path(f"{stem}.skops")
    report = None if options.no_report else options.report or Path(f"{stem}.html")
    taken = {} if options.table is None else {options.table.resolve(): "the table"}
    check_place("--model", model, taken, options.overwrite)
    if report is not None:
        check_place("--report", report, {**taken, model.resolve(): "--model"}, options.overwrite)
    return model, report
