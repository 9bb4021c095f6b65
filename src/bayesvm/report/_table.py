"""The table behind a model: its data and pitfalls, relevant columns, and rows to look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bayesvm._formatting import (
    between,
    count,
    kind_counts,
    listing,
    number,
    percent,
    plural,
    quoted,
    shorten,
    tied,
)
from bayesvm.report._figures import Bar, bars_of
from bayesvm.report._pitfall import SEVERITIES, Pitfall
from bayesvm.report._pitfalls import as_seen
from bayesvm.report._quality import verdict_of

if TYPE_CHECKING:
    import pandas

    from bayesvm.tables import Evaluation, TableFit


CLASSES_SHOWN = 12
GAPS_SHOWN = 6


def data_section(fit: TableFit, pitfalls: Sequence[Pitfall]) -> SimpleNamespace:
    """Rows, columns, classes, gaps and pitfalls of the table that was fitted."""
    gaps = as_seen(fit.pipeline["columns"], fit.table).isna()
    return SimpleNamespace(
        lead=_data_lead(fit, pitfalls),
        facts=tuple(_facts(fit, gaps)),
        classes=_class_bars(fit),
        gaps=_gap_bars(gaps),
        findings=tuple(_finding(fit, pitfall) for pitfall in pitfalls),
    )


def _data_lead(fit: TableFit, pitfalls: Sequence[Pitfall]) -> str:
    rows, columns = plural(fit.pipeline["columns"].n_rows_, "row"), plural(len(fit.features), "usable column")
    classes = plural(len(fit.leave_one_out.classes), "class", "classes")
    table = f"The model learned from {rows} with {columns} and {classes}."
    found = Counter(pitfall.severity for pitfall in pitfalls)
    if not found:
        return f"{table} None of the usual pitfalls was found in it."
    if found.keys() == {"note"}:
        things = plural(found["note"], "thing below is", "things below are")
        return f"{table} Nothing in it is alarming; {things} good to know."
    parts = [plural(found[severity], severity) for severity in SEVERITIES if found[severity]]
    return f"{table} It has pitfalls ({listing(parts)}): read them before you believe the figures."


def _facts(fit: TableFit, gaps: pandas.DataFrame) -> list[tuple[str, str]]:
    columns = fit.pipeline["columns"]
    aside = ""
    if fit.n_dropped:
        aside = f" ({plural(fit.n_dropped, 'row')} without a value of {quoted(fit.target)} left out)"
    if columns.n_rows_ < len(fit.table):
        aside += f"; {count(columns.n_rows_)} were learned from"
    facts = [
        ("Rows", count(len(fit.table)) + aside),
        ("Columns used", f"{count(len(columns.names_))} ({listing(kind_counts(columns.kinds_), 9)})"),
    ]
    if columns.ignored_:
        names = [f"{quoted(name)} ({why})" for name, why in columns.ignored_.items()]
        facts.append(("Columns not used", listing(names)))
    empty = float(gaps.to_numpy().mean())
    facts.append(("Missing values", f"{percent(empty)} of all cells" if empty else "none"))
    return facts


def _class_bars(fit: TableFit) -> list[Bar]:
    labels, counts = np.unique(fit.leave_one_out.labels, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    n_rows = int(counts.sum())
    shown = order if len(order) <= CLASSES_SHOWN else order[: CLASSES_SHOWN - 2]
    bars = _counted([str(labels[i]) for i in shown], counts[shown], n_rows)
    if len(shown) < len(order):
        rest = int(n_rows - counts[shown].sum())
        name = f"{count(len(order) - len(shown))} other classes"
        bars.append(Bar(name, 0.0, f"{count(rest)} ({percent(rest / n_rows)})", rest=True))
    return bars


def _counted(names: Sequence[str], counts: Any, n_rows: int) -> list[Bar]:
    values = [f"{count(int(n))} ({percent(n / n_rows)})" for n in counts]
    return bars_of([shorten(name, 80) for name in names], counts, values)


def _gap_bars(gaps: pandas.DataFrame) -> list[Bar]:
    missing = gaps.sum()
    missing = missing[missing > 0].sort_values(ascending=False, kind="stable")
    shown = missing.head(GAPS_SHOWN)
    n_rows = len(gaps)
    bars = [
        Bar(shorten(name, 80), float(n / n_rows), f"{count(int(n))} ({percent(n / n_rows)})")
        for name, n in shown.items()
    ]
    if len(missing) > len(shown):
        others = len(missing) - len(shown)
        bars.append(Bar(f"{plural(others, 'other column')} with gaps", 0.0, "fewer", rest=True))
    return bars


def _finding(fit: TableFit, pitfall: Pitfall) -> SimpleNamespace:
    """A pitfall with the numbers that its rows have in the file."""
    return SimpleNamespace(
        severity=pitfall.severity,
        title=tied(pitfall.title),
        explanation=tied(pitfall.explanation),
        advice=tied(pitfall.advice),
        rows=", ".join(count(int(fit.source_rows[row])) for row in pitfall.rows),
    )


# --- Which columns the model uses.


COLUMNS_SHOWN = 12


def relevance_section(fit: TableFit) -> SimpleNamespace:
    """The most relevant columns; ``names`` has all of them, most relevant first."""
    from bayesvm.tables import column_relevance

    relevance = column_relevance(fit.pipeline)
    names = tuple(str(name) for name in relevance.index)
    shares = relevance.to_numpy()
    shown = len(names) if len(names) <= COLUMNS_SHOWN + 1 else COLUMNS_SHOWN
    bars = bars_of(
        [shorten(name, 80) for name in names[:shown]],
        shares[:shown].tolist(),
        [percent(share) for share in shares[:shown]],
    )
    if shown < len(names):
        rest = percent(float(shares[shown:].sum()))
        bars.append(Bar(f"{count(len(names) - shown)} other columns", 0.0, f"{rest} together", rest=True))
    lead = _relevance_lead(names, shares.tolist())
    if verdict_of(fit).empty:
        lead += (
            " But no column is known to matter: its probabilities are no better than the class frequencies."
        )
    return SimpleNamespace(lead=lead, bars=bars, names=names)


def _relevance_lead(names: tuple[str, ...], shares: list[float]) -> str:
    total, half = 0.0, 0
    while total < 0.5 and half < len(shares):
        total += shares[half]
        half += 1
    if len(names) == 1:
        return f"There is one column only, {quoted(names[0])}."
    verb = "makes" if half == 1 else "make"
    return (
        f"Its answers change most with {listing([quoted(name) for name in names[:half]])}, which "
        f"{verb} up {percent(min(total, 1.0))} of all relevance."
    )


# --- Rows to look at: those the model is least sure of, and those whose label it doubts.


ROWS_SHOWN = 10
ROW_COLUMNS_SHOWN = 4
SUSPECT_TITLE = "Rows it gets wrong with confidence"
CONFIDENT = 0.9
# Confident mistakes are clearly more than chance explains if they exceed it by this factor and these
# standard deviations: of many rows, a small excess is certain and yet says nothing about a label.
CLEAR_FACTOR, CLEAR_DEVIATIONS = 1.5, 2.0
CLOSE_CALL = 0.6


@dataclass(frozen=True)
class _Mistakes:
    """Confident mistakes, and how many to expect if labels were drawn from the model's probabilities."""

    found: int
    expected: float
    empty: bool  # whether confidence says nothing

    @property
    def clearly_too_many(self) -> bool:
        if self.empty:
            return False
        by_luck = self.expected + CLEAR_DEVIATIONS * max(self.expected, 0.5) ** 0.5
        return self.found > max(by_luck, CLEAR_FACTOR * self.expected)

    @property
    def by_chance(self) -> str:
        return "fewer than one" if self.expected < 0.95 else f"about {count(round(self.expected))}"


def rows_section(fit: TableFit, columns: Sequence[str]) -> SimpleNamespace:
    """Rows to look at, from leave-one-out over all rows.

    Parameters
    ----------
    fit : TableFit
    columns : sequence of str
        Columns in the order of their relevance; the first few are shown.
    """
    judged = fit.leave_one_out
    shown = list(columns[:ROW_COLUMNS_SHOWN])
    confidence = judged.proba.max(1)
    own = judged.proba[np.arange(len(judged.labels)), np.searchsorted(judged.classes, judged.labels)]
    surely_wrong = np.where(judged.correct, 0.0, confidence)
    mistakes = _Mistakes(
        found=int((surely_wrong >= CONFIDENT).sum()),
        expected=float((1.0 - confidence[confidence >= CONFIDENT]).sum()),
        empty=verdict_of(fit).empty,
    )
    unsure = _smallest(confidence, ROWS_SHOWN)
    suspect = _smallest(-surely_wrong, ROWS_SHOWN)
    suspect = suspect[surely_wrong[suspect] >= CONFIDENT]
    return SimpleNamespace(
        lead=_rows_lead(mistakes, int((confidence < CLOSE_CALL).sum())),
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


def _rows_lead(mistakes: _Mistakes, close: int) -> str:
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
    judgement = "so most of them are probably just unusual"
    if mistakes.empty:
        judgement = "but its probabilities are not to be relied on, and this says nothing about the labels"
    if mistakes.clearly_too_many:
        judgement = (
            "so some of these labels may well be mistakes, unless the model is surer than it should be"
        )
    return (
        f"For {plural(mistakes.found, 'row')} the model is at least {percent(CONFIDENT)} sure of another "
        f"answer than the table gives. If every label were right, {mistakes.by_chance} would be expected by "
        f"chance, {judgement}. Check them against your source."
    )


def _describe(
    fit: TableFit, rows: npt.NDArray[Any], own: npt.NDArray[Any], columns: list[str]
) -> tuple[SimpleNamespace, ...]:
    judged = fit.leave_one_out
    described = []
    for row in rows:
        position = int(judged.rows[row])
        best = np.argsort(-judged.proba[row], kind="stable")[:2]
        first, second = ((shorten(judged.classes[c], 32), percent(judged.proba[row, c])) for c in best)
        described.append(
            SimpleNamespace(
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
