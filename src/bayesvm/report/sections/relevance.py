"""Which columns the model looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bayesvm.report.sections.bars import Bar, bars_of
from bayesvm.report.wording import count, listing, percent, quoted, shorten

if TYPE_CHECKING:
    from bayesvm.tables import TableFit

__all__ = ["RelevanceSection", "relevance_section"]

COLUMNS_SHOWN = 12


@dataclass(frozen=True)
class RelevanceSection:
    """Texts and bars of the columns; ``names`` has all of them, most relevant first."""

    lead: str
    bars: list[Bar]
    names: tuple[str, ...]


def relevance_section(fit: TableFit) -> RelevanceSection:
    """The most relevant columns."""
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
    return RelevanceSection(_lead(names, shares.tolist()), bars, names)


def _lead(names: tuple[str, ...], shares: list[float]) -> str:
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
