"""What a run of ``bayesvm label`` came to, for people and for programs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesvm.active.labelling import Labelling
from bayesvm.cli.sections import Row, Section
from bayesvm.cli.wording import class_counts, count_of, percent

__all__ = ["LabelSummary"]


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
        Options that make a further run go on with this one.
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
        """Sections for the terminal."""
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
        """All of it, for JSON."""
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
        """Commands to go on with."""
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
