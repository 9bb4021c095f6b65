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
# A row is wrong with confidence if the answer is this much more probable than the label.
CONFIDENT = 0.5
CLOSE_CALL = 0.6
_BLOCK = 65_536


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
    suspect_lead: str
    suspect: tuple[DoubtfulRow, ...]
    columns: tuple[str, ...]


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
    margin = np.where(judged.correct, 0.0, confidence - own)
    unsure = _smallest(confidence, ROWS_SHOWN)
    suspect = _smallest(-margin, ROWS_SHOWN)
    suspect = suspect[margin[suspect] >= CONFIDENT]
    return RowsSection(
        lead=_lead(int((margin >= CONFIDENT).sum()), int((confidence < CLOSE_CALL).sum())),
        unsure_lead=_unsure_lead(judged, confidence, unsure),
        unsure=_describe(fit, unsure, own, shown),
        suspect_lead=_suspect_lead(judged, margin),
        suspect=_describe(fit, suspect, own, shown),
        columns=tuple(shorten(name, 32) for name in shown),
    )


def _smallest(values: npt.NDArray[Any], n: int) -> npt.NDArray[np.intp]:
    """Positions of the n smallest values, smallest first."""
    n = min(n, len(values))
    found = np.argpartition(values, n - 1)[:n]
    return found[np.argsort(values[found], kind="stable")]


def _lead(suspect: int, close: int) -> str:
    labels = "No label looks mistaken"
    if suspect:
        labels = f"{plural(suspect, 'label contradicts', 'labels contradict')} what the model is sure of"
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
        f"between {sure} sure of them. Rows like these are where a person, or one more column, would "
        "help most."
    )


def _suspect_lead(judged: Evaluation, margin: npt.NDArray[Any]) -> str:
    found = int((margin >= CONFIDENT).sum())
    if not found:
        return "Where the model disagrees with the table, it does so without confidence: nothing to check."
    expected = _expected_by_chance(judged)
    chance = "fewer than one" if expected < 0.95 else f"about {count(round(expected))}"
    if found > expected + 2.0 * max(expected, 0.5) ** 0.5:
        judgement = "so some of these labels may well be mistakes"
    else:
        judgement = "so most of them are probably just unusual"
    return (
        f"For {plural(found, 'row')} the model is confident of another answer than the table gives. If every "
        f"label were right, {chance} would be expected by chance, {judgement}. Check them against your "
        "source."
    )


def _expected_by_chance(judged: Evaluation) -> float:
    """Confident mistakes to expect if the labels were drawn from the model's own probabilities."""
    total = 0.0
    for start in range(0, len(judged.labels), _BLOCK):
        proba = judged.proba[start : start + _BLOCK]
        total += float(proba[proba.max(1)[:, None] - proba >= CONFIDENT].sum())
    return total


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
