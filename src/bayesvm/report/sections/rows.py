"""Rows to look at: those the model is least sure of, and those whose label it doubts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bayesvm.report.wording import between, count, number, percent, plural, shorten

if TYPE_CHECKING:
    from bayesvm.tables import Evaluation, TableFit

__all__ = ["RowsSection", "rows_section"]

ROWS_SHOWN = 10
COLUMNS_SHOWN = 4
SUSPECT_TITLE = "Rows it gets wrong with confidence"
CONFIDENT = 0.9
# Confident mistakes are clearly more than chance explains if they exceed it by this factor and these
# standard deviations: of many rows, a small excess is certain and yet says nothing about a label.
CLEAR_FACTOR, CLEAR_DEVIATIONS = 1.5, 2.0
CLOSE_CALL = 0.6


@dataclass(frozen=True)
class Guess:
    """A class and its probability."""

    name: str
    probability: str


@dataclass(frozen=True)
class DoubtfulRow:
    """A row of the table, what it is labelled, and what the model would say."""

    number: str
    label: str
    first: Guess
    second: Guess
    label_probability: str
    values: tuple[str, ...]
    wrong: bool


@dataclass(frozen=True)
class RowsSection:
    """Texts and tables of rows to look at."""

    lead: str
    unsure_lead: str
    unsure: tuple[DoubtfulRow, ...]
    suspect_title: str
    suspect_lead: str
    suspect: tuple[DoubtfulRow, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class _Mistakes:
    """Confident mistakes, and how many to expect if labels were drawn from the model's probabilities."""

    found: int
    expected: float

    @property
    def clearly_too_many(self) -> bool:
        by_luck = self.expected + CLEAR_DEVIATIONS * max(self.expected, 0.5) ** 0.5
        return self.found > max(by_luck, CLEAR_FACTOR * self.expected)

    @property
    def by_chance(self) -> str:
        return "fewer than one" if self.expected < 0.95 else f"about {count(round(self.expected))}"


def rows_section(fit: TableFit, columns: Sequence[str]) -> RowsSection:
    """Rows to look at, from leave-one-out over all rows.

    Parameters
    ----------
    fit : TableFit
    columns : sequence of str
        Columns in the order of their relevance; the first few are shown.
    """
    judged = fit.leave_one_out
    shown = list(columns[:COLUMNS_SHOWN])
    confidence = judged.proba.max(1)
    own = judged.proba[np.arange(len(judged.labels)), np.searchsorted(judged.classes, judged.labels)]
    surely_wrong = np.where(judged.correct, 0.0, confidence)
    mistakes = _Mistakes(
        found=int((surely_wrong >= CONFIDENT).sum()),
        expected=float((1.0 - confidence[confidence >= CONFIDENT]).sum()),
    )
    unsure = _smallest(confidence, ROWS_SHOWN)
    suspect = _smallest(-surely_wrong, ROWS_SHOWN)
    suspect = suspect[surely_wrong[suspect] >= CONFIDENT]
    return RowsSection(
        lead=_lead(mistakes, int((confidence < CLOSE_CALL).sum())),
        unsure_lead=_unsure_lead(judged, confidence, unsure),
        unsure=_describe(fit, unsure, own, shown),
        suspect_title=SUSPECT_TITLE + (": likely label errors" if mistakes.clearly_too_many else ""),
        suspect_lead=_suspect_lead(mistakes),
        suspect=_describe(fit, suspect, own, shown),
        columns=tuple(shorten(name, 32) for name in shown),
    )


def _smallest(values: npt.NDArray[Any], n: int) -> npt.NDArray[np.intp]:
    """Positions of the n smallest values, smallest first."""
    n = min(n, len(values))
    found = np.argpartition(values, n - 1)[:n]
    return found[np.argsort(values[found], kind="stable")]


def _lead(mistakes: _Mistakes, close: int) -> str:
    labels = "No label contradicts what the model is sure of"
    if mistakes.found:
        contradict = plural(mistakes.found, "label contradicts", "labels contradict")
        verdict = (
            "clearly more than chance explains" if mistakes.clearly_too_many else "as chance would have it"
        )
        labels = (
            f"{contradict} what the model is at least {percent(CONFIDENT)} sure of, {verdict} "
            f"({mistakes.by_chance} expected)"
        )
    calls = (
        plural(close, "row is a close call", "rows are close calls") if close else "no row is a close call"
    )
    return (
        f"{labels}, and {calls} (less than {percent(CLOSE_CALL)} sure). "
        "Let someone who knows the data look at the rows below."
    )


def _unsure_lead(judged: Evaluation, confidence: npt.NDArray[Any], unsure: npt.NDArray[Any]) -> str:
    wrong = int((~judged.correct[unsure]).sum())
    sure = between(confidence[unsure].min(), confidence[unsure].max())
    return (
        f"Of the {plural(len(unsure), 'row')} it is least sure of, it gets {count(wrong)} wrong; it is "
        f"{sure} sure of them. Rows like these are where a person, or one more column, would "
        "help most."
    )


def _suspect_lead(mistakes: _Mistakes) -> str:
    if not mistakes.found:
        return "Where the model disagrees with the table, it does so without confidence: nothing to check."
    judgement = "most of them are probably just unusual"
    if mistakes.clearly_too_many:
        judgement = "some of these labels may well be mistakes, unless the model is surer than it should be"
    return (
        f"For {plural(mistakes.found, 'row')} the model is at least {percent(CONFIDENT)} sure of another "
        f"answer than the table gives. If every label were right, {mistakes.by_chance} would be expected by "
        f"chance, so {judgement}. Check them against your source."
    )


def _describe(
    fit: TableFit, rows: npt.NDArray[Any], own: npt.NDArray[Any], columns: list[str]
) -> tuple[DoubtfulRow, ...]:
    judged = fit.leave_one_out
    described = []
    for row in rows:
        position = int(judged.rows[row])
        best = np.argsort(-judged.proba[row], kind="stable")[:2]
        first, second = (Guess(shorten(judged.classes[c], 32), percent(judged.proba[row, c])) for c in best)
        described.append(
            DoubtfulRow(
                number=count(int(fit.source_rows[position])),
                label=shorten(judged.labels[row], 32),
                first=first,
                second=second,
                label_probability=percent(own[row]),
                values=tuple(_value(fit.table[name].iloc[position]) for name in columns),
                wrong=not judged.correct[row],
            )
        )
    return tuple(described)


def _value(value: Any) -> str:
    """A cell of the table in few characters."""
    from pandas import isna

    if isna(value):
        return "–"
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}" if abs(float(value)) < 10_000 else number(float(value))
    if isinstance(value, (int, np.integer)):
        return count(int(value))
    return shorten(value, 36)
