"""Which classes are taken for which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayesvm.report.sections.bars import Bar
from bayesvm.report.sections.judgement import described, for_details
from bayesvm.report.wording import count, percent, plural, quoted, shorten

if TYPE_CHECKING:
    import numpy.typing as npt

    from bayesvm.tables import TableFit

__all__ = ["ConfusionSection", "confusion_section"]

MOST_CLASSES_AS_MATRIX = 12
PAIRS_SHOWN = 12
CLASSES_SHOWN = 100
# A mistake is named as the most frequent one if it is seen this often and is this share of all mistakes.
FEWEST_TO_NAME, SHARE_TO_NAME = 5, 0.1


@dataclass(frozen=True)
class Line:
    """A true class: how often each answer was given, their shares, and the share that was right."""

    name: str
    counts: tuple[str, ...]
    shares: tuple[float, ...]
    total: str
    right: str


@dataclass(frozen=True)
class Mixup:
    """Rows of one class that were taken for another."""

    truth: str
    answer: str
    value: str


@dataclass(frozen=True)
class ConfusionSection:
    """Texts and tables of what is mixed up; the matrix is empty if there are many classes."""

    lead: str
    names: tuple[str, ...]
    matrix: tuple[Line, ...]
    mixups: tuple[Mixup, ...]
    classes: list[Bar]
    note: str
    rows: str


def confusion_section(fit: TableFit) -> ConfusionSection:
    """The confusion matrix, or its largest entries."""
    judged = for_details(fit)
    counts = judged.confusion
    names = tuple(shorten(label, 60) for label in judged.classes)
    few = len(names) <= MOST_CLASSES_AS_MATRIX
    pairs = _pairs(counts)
    bars = [] if few else _class_bars(names, counts)
    hidden = 0 if few else int((counts.sum(1) > 0).sum()) - len(bars)
    return ConfusionSection(
        lead=_lead(names, counts, pairs, described(judged)),
        names=names,
        matrix=tuple(_lines(names, counts)) if few else (),
        mixups=() if few else tuple(_mixup(names, counts, *pair) for pair in pairs[:PAIRS_SHOWN]),
        classes=bars,
        note=f"{count(hidden)} classes with more right answers are not shown." if hidden else "",
        rows=described(judged),
    )


def _pairs(counts: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Pairs (true class, answer) that differ and occur, most frequent first."""
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[: int((wrong > 0).sum())]
    truth, answer = np.unravel_index(order, wrong.shape)
    return list(zip(truth.tolist(), answer.tolist(), strict=True))


def _lead(
    names: tuple[str, ...], counts: npt.NDArray[np.int64], pairs: list[tuple[int, int]], judged: str
) -> str:
    if not pairs:
        return f"It mixed up nothing: it was right for {judged}."
    truth, answer = pairs[0]
    rows, own = int(counts[truth, answer]), int(counts[truth].sum())
    wrong = int(counts.sum() - np.trace(counts))
    lead = f"It was wrong for {count(wrong)} of {judged}."
    if wrong < FEWEST_TO_NAME:
        return f"{lead} These are too few mistakes to see a pattern in."
    if rows < FEWEST_TO_NAME or rows < SHARE_TO_NAME * wrong:
        kinds = plural(len(pairs), "kind of mistake", "kinds of mistakes")
        return f"{lead} These are spread over {kinds}, none of which stands out."
    return (
        f"{lead} Its most frequent mistake is to take {quoted(names[truth])} for {quoted(names[answer])}: "
        f"{count(rows)} of {plural(own, 'such row')} ({percent(rows / own)})."
    )


def _mixup(names: tuple[str, ...], counts: npt.NDArray[np.int64], truth: int, answer: int) -> Mixup:
    share = f"{count(int(counts[truth, answer]))} of {count(int(counts[truth].sum()))}"
    return Mixup(names[truth], names[answer], share)


def _lines(names: tuple[str, ...], counts: npt.NDArray[np.int64]) -> list[Line]:
    lines = []
    for c, name in enumerate(names):
        total = int(counts[c].sum())
        shares = tuple(float(n / total) if total else 0.0 for n in counts[c])
        right = percent(shares[c]) if total else "–"
        lines.append(Line(name, tuple(count(int(n)) for n in counts[c]), shares, count(total), right))
    return lines


def _class_bars(names: tuple[str, ...], counts: npt.NDArray[np.int64]) -> list[Bar]:
    """Share of right answers per class, worst first."""
    total, right = counts.sum(1), np.diag(counts)
    seen = np.flatnonzero(total)
    share = right[seen] / total[seen]
    order = np.argsort(share, kind="stable")[:CLASSES_SHOWN]
    return [
        Bar(names[seen[i]], float(share[i]), f"{count(int(right[seen[i]]))} of {count(int(total[seen[i]]))}")
        for i in order
    ]
