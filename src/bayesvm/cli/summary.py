"""A fitted table in words, and as a dictionary for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesvm.cli.figures import abstention, quality, relevance_rows
from bayesvm.cli.sections import Row, Section
from bayesvm.cli.wording import MOST_SHOWN, class_counts, count_of, kinds_in_words, shortened
from bayesvm.tables import TableFit, column_relevance

if TYPE_CHECKING:
    from bayesvm.report import Pitfall

__all__ = ["FitSummary"]


@dataclass(frozen=True)
class FitSummary:
    """Everything there is to say after a fit.

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
        """For people."""
        fit = self.fit
        judged = [fit.leave_one_out] if fit.heldout is None else [fit.heldout, fit.leave_one_out]
        thresholds = [fit.abstention_threshold(evaluation, self.max_error) for evaluation in judged]
        pitfalls = [(pitfall.severity, " ".join(pitfall.title.split())) for pitfall in self.pitfalls]
        return [
            Section("Data", self._data()),
            quality(judged, thresholds, self.max_error),
            Section("Beware", pitfalls[:MOST_SHOWN]),
            Section("What matters", relevance_rows(column_relevance(fit.pipeline))),
            Section("Written", self._files()),
            Section(
                "Next", [(f"bayesvm predict {self.model_path} NEW_TABLE.csv --abstain {self.max_error:g}",)]
            ),
        ]

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        fit = self.fit
        columns = fit.pipeline["columns"]
        best_judged = fit.heldout or fit.leave_one_out
        threshold = fit.abstention_threshold(best_judged, self.max_error)
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
            "abstention": abstention(best_judged, threshold, self.max_error),
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
            learned = f"{count_of(columns.n_rows_, 'row')}; Ctrl-C came before the fit to all"
            rows.insert(1, ("learned from", learned))
        if fit.n_dropped:
            rows.append(("left out", f"{count_of(fit.n_dropped, 'row')} without {fit.target}"))
        if columns.ignored_:
            rows.append(("not used", shortened(f"{name} ({why})" for name, why in columns.ignored_.items())))
        return rows

    def _files(self) -> list[Row]:
        rows: list[Row] = [("model", str(self.model_path))]
        if self.report_path is not None:
            rows.append(("report", str(self.report_path)))
        took = f"{self.fit.seconds:.1f} s"
        rows.append(("fit took", took + ", ended by Ctrl-C" if self.fit.interrupted else took))
        return rows
