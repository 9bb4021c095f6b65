"""What is in the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesvm.report.as_seen import as_seen
from bayesvm.report.pitfalls.pitfall import SEVERITIES, Pitfall, Severity
from bayesvm.report.sections.bars import Bar, bars_of
from bayesvm.report.wording import count, listing, percent, plural, quoted, shorten, tied

if TYPE_CHECKING:
    import pandas

    from bayesvm.tables import TableFit

__all__ = ["DataSection", "Finding", "data_section"]

CLASSES_SHOWN = 12
GAPS_SHOWN = 6
_KINDS = {
    "number": ("number", "numbers"),
    "bool": ("yes/no", "yes/no"),
    "date": ("date", "dates"),
    "category": ("category", "categories"),
    "text": ("free text", "free text"),
}


@dataclass(frozen=True)
class Finding:
    """A pitfall as the page says it, with the rows' numbers in the file."""

    severity: Severity
    title: str
    explanation: str
    advice: str
    rows: str


@dataclass(frozen=True)
class DataSection:
    """Texts and bars about the table."""

    lead: str
    facts: tuple[tuple[str, str], ...]
    classes: list[Bar]
    gaps: list[Bar]
    findings: tuple[Finding, ...]


def data_section(fit: TableFit, pitfalls: Sequence[Pitfall]) -> DataSection:
    """Rows, columns, classes, gaps and pitfalls of the table that was fitted."""
    gaps = as_seen(fit.pipeline["columns"], fit.table).isna()
    return DataSection(
        lead=_lead(fit, pitfalls),
        facts=tuple(_facts(fit, gaps)),
        classes=_class_bars(fit),
        gaps=_gap_bars(gaps),
        findings=tuple(_finding(fit, pitfall) for pitfall in pitfalls),
    )


def _lead(fit: TableFit, pitfalls: Sequence[Pitfall]) -> str:
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
    kinds = Counter(columns.kinds_.values())
    shares = [
        f"{count(kinds[kind])} {words[kinds[kind] != 1]}" for kind, words in _KINDS.items() if kinds[kind]
    ]
    facts = [
        ("Rows", count(len(fit.table)) + aside),
        ("Columns used", f"{count(len(columns.names_))} ({listing(shares, 9)})"),
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


def _finding(fit: TableFit, pitfall: Pitfall) -> Finding:
    rows = ", ".join(count(int(fit.source_rows[row])) for row in pitfall.rows)
    return Finding(
        pitfall.severity, tied(pitfall.title), tied(pitfall.explanation), tied(pitfall.advice), rows
    )
