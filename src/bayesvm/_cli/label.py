"""``bayesvm label``: ask about the rows that teach most, and keep every answer."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesvm._cli import DONE, INTERRUPTED, REFUSED
from bayesvm._cli.app import check_place
from bayesvm._cli.terminal import (
    Row,
    Section,
    class_counts,
    collected_notes,
    count_of,
    percent,
    print_json,
    print_notes,
    print_sections,
    shown_progress,
)

if TYPE_CHECKING:
    from bayesvm.active._labelling import Labelling


@dataclass(frozen=True)
class LabelOptions:
    """Arguments of the command."""

    pool: Path
    target: str
    labels: Path | None
    policy: str
    classes: tuple[str, ...]
    columns: tuple[str, ...]
    n_queries: int | None
    oracle: Path | None
    output: Path | None
    model: Path | None
    ignore: tuple[str, ...]
    seed: int
    ask_skipped: bool
    rows_unchanged: bool
    as_json: bool
    quiet: bool


def label_command(options: LabelOptions) -> int:
    """Ask for labels until they end, then write the files asked for and print what comes next."""
    labels_path = _check_outputs(options)
    with collected_notes() as notes, shown_progress(not options.quiet) as steps:
        steps.start("Reading the pool")
        labelling, oracle = _open(options, labels_path)
    if not (options.quiet or options.as_json):
        print_notes(notes)
    interrupted = False
    problem = ""
    output: Path | None = None
    model: Path | None = None
    with labelling:
        before = len(labelling.labels)
        with collected_notes() as later:
            try:
                _ask(options, labelling, oracle)
            except KeyboardInterrupt:
                interrupted = True
                if sys.stdin.isatty():  # off the line of the question
                    sys.stderr.write("\n")
            with shown_progress(not options.quiet) as steps:
                steps.start("Finishing")
                if options.output is not None:
                    from bayesvm.tables import write_table

                    output = write_table(labelling.labelled_table(), options.output)
                if options.model is not None:
                    problem = _fit(labelling, options)
                    model = None if problem else options.model
                summary = LabelSummary(
                    labelling, options.pool, before, output, model, _again(options), options.ignore
                )
                facts, sections = summary.as_dict(), summary.sections()
        if options.as_json:
            facts |= {"policy": options.policy, "interrupted": interrupted, "notes": [*notes, *later]}
            print_json(facts)
        elif not options.quiet:
            print_sections(sections)
            print_notes(later)
    if problem:
        sys.stderr.write(f"bayesvm: no model was fitted: {problem}\n")
    if interrupted:
        sys.stderr.write(f"bayesvm: interrupted; every answer is saved in {labels_path}\n")
        return INTERRUPTED
    return REFUSED if problem else DONE


def _check_outputs(options: LabelOptions) -> Path:
    """Check all outputs before the first question; return the path of the labels."""
    from bayesvm.active._labelling import default_label_file

    labels = options.labels or default_label_file(options.pool)
    taken = {options.pool.resolve(): "the pool"}
    if options.oracle is not None:
        taken[options.oracle.resolve()] = "--oracle"
    for option, path in (("--labels", labels), ("--output", options.output), ("--model", options.model)):
        if path is not None:
            check_place(option, path, taken)
            taken[path.resolve()] = option
    if options.output is not None:
        from bayesvm.tables._formats import check_file_name

        check_file_name(options.output, writing=True)
    return labels


def _open(options: LabelOptions, labels: Path) -> tuple[Labelling, dict[int, str] | None]:
    """Open the pool for labelling, and read the labels if they come from a file."""
    from bayesvm.active._labelling import Labelling, read_labels
    from bayesvm.active._rules import RULES
    from bayesvm.tables import TableError, read_table
    from bayesvm.tables._exceptions import closest

    if options.policy not in RULES:
        raise ValueError(
            f"--policy {options.policy!r} is not known{closest(options.policy, RULES)}; give one of "
            f"{', '.join(RULES)}"
        )
    table = read_table(options.pool, target=options.target)
    for name in options.columns:
        if name not in table:
            raise TableError(f"there is no column {name!r} to show{closest(name, table.columns)}")
    if options.target not in table and not options.quiet:
        hint = closest(options.target, map(str, table.columns))
        sys.stderr.write(
            f"bayesvm: {options.target!r} is a new column; no row has a label in the pool{hint}\n"
        )
    oracle = None
    if options.oracle is not None:
        oracle = read_labels(options.oracle, options.target, table, options.rows_unchanged)
    labelling = Labelling(
        table,
        options.target,
        labels,
        policy=options.policy,
        classes=options.classes,
        ignore=options.ignore,
        random_state=options.seed,
        among=oracle,
        ask_skipped=options.ask_skipped,
        rows_unchanged=options.rows_unchanged,
    )
    return labelling, oracle


def _ask(options: LabelOptions, labelling: Labelling, oracle: dict[int, str] | None) -> None:
    from bayesvm._cli.label_dialogue import ask_file, ask_person, ask_pipe

    if oracle is not None:
        ask_file(labelling, oracle, options.n_queries, options.quiet)
    elif sys.stdin.isatty():
        ask_person(labelling, options.columns, options.n_queries)
    else:
        ask_pipe(labelling, not options.classes, options.n_queries, options.quiet)


def _fit(labelling: Labelling, options: LabelOptions) -> str:
    """Fit and save a model of the labelled rows; return why not, if it cannot be fitted."""
    import bayesvm
    from bayesvm.tables import TableError, fit_table

    assert options.model is not None
    try:
        fit = fit_table(
            labelling.labelled_table(),
            labelling.target,
            holdout=0.0,
            ignore=options.ignore,
            random_state=options.seed,
        )
    except TableError as error:
        return str(error)
    bayesvm.save(fit.pipeline, options.model)
    return ""


def _again(options: LabelOptions) -> tuple[str, ...]:
    """Options needed to continue this run that 'bayesvm fit' does not have."""
    words = []
    if options.labels is not None:
        words += ["--labels", str(options.labels)]
    if options.policy != "variation_ratio":
        words += ["--policy", options.policy]
    if options.classes:
        words += ["--classes", ",".join(options.classes)]
    if options.columns:
        words += ["--columns", ",".join(options.columns)]
    if options.seed:
        words += ["--seed", str(options.seed)]
    return tuple(words)


# --- Summary of a run.


@dataclass(frozen=True)
class LabelSummary:
    """The state of a labelling at the end of a run.

    Attributes
    ----------
    labelling : Labelling
    pool : Path
    before : int
        Rows with a label when the run began.
    output, model : Path or None
        Files that were written.
    again : tuple of str
        Options that continue this run.
    ignore : tuple of str
        Columns the model does not use.
    """

    labelling: Labelling
    pool: Path
    before: int
    output: Path | None
    model: Path | None
    again: tuple[str, ...]
    ignore: tuple[str, ...]

    def sections(self) -> list[Section]:
        """For the terminal."""
        labelling = self.labelling
        n = len(labelling.labels)
        new = n - self.before
        rows: list[Row] = [("rows", f"{n} of {len(labelling.table)} labelled, {max(new, 0)} of them now")]
        counts = [labelling.counts[label] for label in labelling.classes]
        if labelling.classes:
            rows.append((labelling.target, class_counts(labelling.classes, counts)))
        if labelling.skipped:
            rows.append(("skipped", f"{count_of(len(labelling.skipped), 'row')}; --ask-skipped asks again"))
        accuracy = labelling.leave_one_out_accuracy
        if accuracy is not None:
            rows.append(("leave-one-out", f"{percent(accuracy)} right"))
        written = [("labels", labelling.file.path), ("table", self.output), ("model", self.model)]
        files: list[Row] = [(what, str(path)) for what, path in written if path is not None and path.exists()]
        return [Section("Labels", rows), Section("Written", files), Section("Next", self._next())]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        labelling = self.labelling
        return {
            "pool": str(self.pool),
            "target": labelling.target,
            "rows": len(labelling.table),
            "labelled": len(labelling.labels),
            "labelled_before": self.before,
            "skipped": len(labelling.skipped),
            "left": labelling.n_left,
            "classes": [{"label": label, "rows": labelling.counts[label]} for label in labelling.classes],
            "leave_one_out_accuracy": labelling.leave_one_out_accuracy,
            "labels": str(labelling.file.path),
            "output": None if self.output is None else str(self.output),
            "model": None if self.model is None else str(self.model),
        }

    def _next(self) -> list[Row]:
        """Commands to continue with."""
        common = ["--target", self.labelling.target]
        for name in self.ignore:
            common += ["--ignore", name]
        again = ["bayesvm", "label", str(self.pool), *common, *self.again]
        lines = []
        if self.labelling.n_left:
            lines.append(again)
        table = self.output
        if table is None and self.labelling.labels:
            stem = self.pool.name.split(".")[0] or "pool"
            table = self.pool.with_name(f"{stem}.labelled.csv")
            lines.append([*again, "--n-queries", "0", "--output", str(table)])
        if table is not None and len(+self.labelling.counts) > 1:
            lines.append(["bayesvm", "fit", str(table), *common])
        return [(shlex.join(line),) for line in lines]
