"""``bayesvm fit``: from a table to a model file, a report and a summary."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesvm._cli import DONE, INTERRUPTED
from bayesvm._cli.app import USUAL_ERRORS, check_place, check_share
from bayesvm._cli.terminal import (
    MOST_SHOWN,
    FitProgress,
    Row,
    Section,
    abstention,
    class_counts,
    collected_notes,
    count_of,
    kinds_in_words,
    print_json,
    print_notes,
    print_sections,
    quality,
    relevance_rows,
    shortened,
    shown_progress,
)

if TYPE_CHECKING:
    import pandas

    from bayesvm.report import Pitfall
    from bayesvm.tables import TableFit


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
    abstain: float | None
    ignore: tuple[str, ...]
    seed: int
    inducing: int | None
    overwrite: bool
    as_json: bool
    quiet: bool


def fit_command(options: FitOptions) -> int:
    """Fit, save, report and summarise."""
    if options.abstain is not None:
        check_share("--abstain", options.abstain)
    model_path, report_path = _outputs(options)
    saved = False
    try:
        with collected_notes() as notes, shown_progress(not options.quiet) as steps:
            steps.start("Starting")
            import bayesvm
            from bayesvm.report import find_pitfalls, write_report
            from bayesvm.tables import fit_table
            from bayesvm.tables._fitting import held_interrupts

            steps.start("Reading the table")
            table, target, source = _read(options)
            twice = options.holdout > 0 and options.abstain is None
            titles = ["Trial fit", "Final fit"] if twice else ["Final fit"]
            fit = fit_table(
                table,
                target,
                holdout=options.holdout,
                max_error=options.abstain,
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
            max_error = options.abstain or _attainable_error(fit)
            if report_path is not None:
                steps.start("Writing the report")
                write_report(
                    fit,
                    report_path,
                    model_path=model_path,
                    source=source,
                    max_error=max_error,
                    pitfalls=pitfalls,
                )
        summary = FitSummary(fit, source, pitfalls, model_path, report_path, max_error, notes)
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
            "which column should be predicted? Give --target; the columns are "
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


def _attainable_error(fit: TableFit) -> float:
    """The smallest usual error rate at which some row is answered; the usual one if there is none."""
    attained = (e for e in USUAL_ERRORS if math.isfinite(fit.abstention_threshold(e)))
    return next(attained, USUAL_ERRORS[0])


# --- Summary of a fit.


@dataclass(frozen=True)
class FitSummary:
    """What is printed after a fit.

    Attributes
    ----------
    fit : TableFit
    source : str
        Name of the table.
    pitfalls : sequence of Pitfall
    model_path : Path
    report_path : Path or None
    max_error : float
    notes : sequence of str
    """

    fit: TableFit
    source: str
    pitfalls: Sequence[Pitfall]
    model_path: Path
    report_path: Path | None
    max_error: float
    notes: Sequence[str]

    def sections(self) -> list[Section]:
        """For the terminal."""
        from bayesvm.tables import column_relevance

        fit = self.fit
        judged = fit.evaluations
        threshold = fit.abstention_threshold(self.max_error)
        pitfalls = [(pitfall.severity, " ".join(pitfall.title.split())) for pitfall in self.pitfalls]
        return [
            Section("Data", self._data()),
            quality(judged, threshold, self.max_error),
            Section("Promise", self._promise(threshold)),
            Section("Beware", pitfalls[:MOST_SHOWN]),
            Section("What matters", relevance_rows(column_relevance(fit.pipeline))),
            Section("Written", self._files()),
            Section(
                "Next", [(f"bayesvm predict {self.model_path} NEW_TABLE.csv --abstain {self.max_error:g}",)]
            ),
        ]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        from bayesvm.tables import column_relevance
        from bayesvm.tables._predictions import PROMISED_WITH

        fit = self.fit
        columns = fit.pipeline["columns"]
        best_judged = fit.judged
        threshold = fit.abstention_threshold(self.max_error)
        counts = zip(columns.classes_, columns.class_counts_, strict=True)
        return {
            "table": self.source,
            "target": fit.target,
            "rows": len(fit.table),
            "rows_learned": columns.n_rows_,
            "rows_without_label": fit.n_dropped,
            "columns": columns.kinds_,
            "ignored": columns.ignored_,
            "classes": [{"label": label, "rows": count} for label, count in counts],
            "held_out": None if fit.heldout is None else fit.heldout.as_dict(),
            "leave_one_out": fit.leave_one_out.as_dict(),
            "abstention": {
                **abstention(best_judged, threshold, self.max_error),
                "promised_with": PROMISED_WITH if fit.promises and math.isfinite(threshold) else None,
            },
            "better_than_frequencies": not fit.doubt,
            "relevance": column_relevance(fit.pipeline).to_dict(),
            "pitfalls": [
                {"kind": p.kind, "severity": p.severity, "title": p.title, "columns": list(p.columns)}
                for p in self.pitfalls
            ],
            "model": str(self.model_path),
            "report": None if self.report_path is None else str(self.report_path),
            "seconds": fit.seconds,
            "interrupted": fit.interrupted,
            "notes": list(self.notes),
        }

    def _data(self) -> list[Row]:
        fit, columns = self.fit, self.fit.pipeline["columns"]
        rows: list[Row] = [
            ("table", f"{self.source}, {count_of(len(fit.table), 'row')}"),
            ("columns", f"{len(columns.names_)} used: {kinds_in_words(columns.kinds_)}"),
            ("target", f"{fit.target}: {class_counts(columns.classes_, columns.class_counts_)}"),
        ]
        if columns.n_rows_ < len(fit.table):
            why = "the others promise error rates" if fit.promises else "Ctrl-C came before the fit to all"
            rows.insert(1, ("learned from", f"{count_of(columns.n_rows_, 'row')}; {why}"))
        if fit.n_dropped:
            rows.append(("left out", f"{count_of(fit.n_dropped, 'row')} without {fit.target}"))
        if columns.ignored_:
            rows.append(("not used", shortened(f"{name} ({why})" for name, why in columns.ignored_.items())))
        return rows

    def _promise(self, threshold: float) -> list[Row]:
        held = self.fit.heldout
        if held is None or not self.fit.promises or math.isinf(threshold):
            return []
        from bayesvm.tables._predictions import PROMISED_WITH

        return [
            ("at most", f"{100 * self.max_error:g} % of the answers to new rows like these are wrong"),
            ("with", f"probability {PROMISED_WITH:g} over the draw of the rows held out"),
            ("rests on", f"{count_of(len(held.labels), 'row')} held out, which the model did not learn from"),
        ]

    def _files(self) -> list[Row]:
        rows: list[Row] = [("model", str(self.model_path))]
        if self.report_path is not None:
            rows.append(("report", str(self.report_path)))
        took = f"{self.fit.seconds:.1f} s"
        rows.append(("fit took", took + ", ended by Ctrl-C" if self.fit.interrupted else took))
        return rows
