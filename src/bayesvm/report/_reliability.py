"""Whether a probability of 80 % is right 80 % of the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayesvm.metrics import ReliabilityCurve, accuracy_coverage_curve, reliability_curve
from bayesvm.report._figures import coverage_figure, reliability_figure, training_figure
from bayesvm.report._formatting import count, percent, plural, quoted, rate, shorten
from bayesvm.report._overview import described, for_details, for_headline

if TYPE_CHECKING:
    import numpy.typing as npt

    from bayesvm.tables import Evaluation, TableFit


# An accuracy known no better than this cannot tell whether the model is too sure of itself.
TOO_WIDE = 0.25
# A gap smaller than this changes nobody's decision, however certain it is.
SMALLEST_GAP = 0.03


@dataclass(frozen=True)
class ReliabilitySection:
    """Texts and figure of the reliability diagram."""

    lead: str
    example: str
    svg: str
    rows: str
    error: str


def reliability_section(fit: TableFit) -> ReliabilitySection:
    """The reliability diagram and what it says."""
    judged = for_details(fit)
    curve = reliability_curve(judged.labels, judged.proba, labels=judged.classes)
    lead = _reliability_lead(for_headline(fit), judged)
    return ReliabilitySection(
        lead=lead,
        example=_example(curve),
        svg=reliability_figure(curve, f"Reliability diagram. {lead} {_example(curve)}"),
        rows=described(judged),
        error=percent(judged.calibration_error),
    )


def _reliability_lead(headline: Evaluation, details: Evaluation) -> str:
    judged = headline if _width(headline) <= TOO_WIDE else details
    sure, right = float(judged.proba.max(1).mean()), judged.accuracy
    rows = "held-out rows" if judged.origin == "held out" else "rows it was not shown"
    numbers = f"on {rows} it was {percent(sure)} sure on average and {percent(right.value)} right"
    if right.low <= sure <= right.high and _width(judged) > TOO_WIDE:
        return f"There are too few rows to tell whether its probabilities are right: {numbers}."
    gap = sure - right.value
    if sure > right.high and gap >= SMALLEST_GAP:
        return f"It is surer than it should be: {numbers}. Take its probabilities with a grain of salt."
    if sure < right.low and gap <= -SMALLEST_GAP:
        return f"It is more modest than it needs to be: {numbers}. It is right more often than it says."
    return f"You can take its probabilities at their word: {numbers}."


def _width(judged: Evaluation) -> float:
    return judged.accuracy.high - judged.accuracy.low


def _example(curve: ReliabilityCurve) -> str:
    """The fullest bin as an example."""
    fullest = int(np.argmax(curve.counts))
    low, high = curve.edges[fullest], curve.edges[fullest + 1]
    n = int(curve.counts[fullest])
    right = round(n * float(curve.accuracy[fullest]))
    return (
        f"For example, for {plural(n, 'row')} it was {percent(low)} to {percent(high)} sure, "
        f"{percent(float(curve.confidence[fullest]))} on average; of these {count(right)} "
        f"({percent(right / n)}) were right."
    )


# --- What it gains to hand the doubtful rows to a person.


USUAL_ERRORS = (0.01, 0.02, 0.05, 0.1, 0.2)


@dataclass(frozen=True)
class Offer:
    """What is answered for an error rate that is asked for."""

    asked: str
    sure: str
    answered: str
    outcome: str
    chosen: bool


@dataclass(frozen=True)
class AbstentionSection:
    """Texts, table and figure of abstaining."""

    lead: str
    offers: tuple[Offer, ...]
    svg: str
    marks: str
    rows: str


def abstention_section(fit: TableFit, max_error: float) -> AbstentionSection:
    """Accuracy against coverage, with the threshold for an error rate."""
    judged = for_details(fit)
    allowed = sorted({max_error, *USUAL_ERRORS})
    offers = {error: fit.abstention_threshold(judged, error) for error in allowed}
    threshold = offers[max_error]
    lead = _abstention_lead(fit, max_error, offers)
    curve = accuracy_coverage_curve(judged.labels, judged.proba, labels=judged.classes)
    return AbstentionSection(
        lead=lead,
        offers=tuple(_offer(judged, error, limit, error == max_error) for error, limit in offers.items()),
        svg=coverage_figure(curve, threshold, max_error, f"Accuracy against share of rows answered. {lead}"),
        marks=_marks(judged, max_error, threshold),
        rows=described(judged),
    )


def _marks(judged: Evaluation, max_error: float, threshold: float) -> str:
    """What the dashed line and the dot of the figure stand for."""
    share, right = judged.answered(threshold)
    line = f"The dashed line is the {rate(1 - max_error)} that was asked for"
    if right is None:
        return f"{line}."
    return (
        f"{line}; the dot is where the model stops answering to keep it ({percent(share)} of rows, "
        f"{percent(right.value)} right)."
    )


def _abstention_lead(fit: TableFit, max_error: float, offers: dict[float, float]) -> str:
    judged, threshold = for_details(fit), offers[max_error]
    asked = f"Asked for at most {rate(max_error)} errors"
    share = judged.answered(threshold)[0]
    if not share:
        other = next((error for error, limit in offers.items() if np.isfinite(limit)), None)
        hint = "More rows would help."
        if other is not None:
            answered = percent(judged.answered(offers[other])[0])
            hint = f"Asked for at most {rate(other)}, it answers {answered}."
        return f"{asked} it answers no row at all: it cannot promise that. {hint}"
    if share == 1.0:
        return f"{asked} it answers every row: it need not abstain."
    lead = f"{asked} it answers {percent(share)} of rows and leaves {percent(1 - share)} to a person"
    if fit.heldout is None or judged is fit.heldout:
        return f"{lead}; {_outcome(judged, threshold)} of its answers were wrong."
    apart = _held_out(fit.heldout, fit.abstention_threshold(fit.heldout, max_error))
    return f"{lead}. The model that had not seen the held-out rows answered {apart}."


def _held_out(heldout: Evaluation, threshold: float) -> str:
    kept = heldout.proba.max(1) >= threshold
    if not kept.any():
        return "none of them"
    wrong = int((~heldout.correct[kept]).sum())
    return (
        f"{count(int(kept.sum()))} of {count(len(kept))}, {count(wrong) if wrong else 'none'} of them wrongly"
    )


def _offer(judged: Evaluation, allowed: float, threshold: float, chosen: bool) -> Offer:
    share = judged.answered(threshold)[0]
    sure = percent(threshold) if share else "–"
    return Offer(rate(allowed), sure, percent(share), _outcome(judged, threshold), chosen)


def _outcome(judged: Evaluation, threshold: float) -> str:
    kept = judged.proba.max(1) >= threshold
    if not kept.any():
        return "–"
    return f"{count(int((~judged.correct[kept]).sum()))} of {count(int(kept.sum()))}"


# --- Bars of a page: named shares, as many as can be taken in.


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes
    ----------
    name : str
    width : float
        Between 0 and 1, of the space there is.
    value : str
        What is written beside it.
    rest : bool
        Whether it stands for all that is not shown.
    """

    name: str
    width: float
    value: str
    rest: bool = False


def bars_of(names: Sequence[str], sizes: Sequence[float], values: Sequence[str]) -> list[Bar]:
    """Bars whose widths are in proportion, the longest as wide as there is space."""
    longest = max(sizes, default=0.0) or 1.0
    return [
        Bar(name, float(size / longest), value)
        for name, size, value in zip(names, sizes, values, strict=True)
    ]


# --- Which classes are taken for which.


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
        lead=_confusion_lead(names, counts, pairs, described(judged)),
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


def _confusion_lead(
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


# --- How the fit went, and whether it was over.


@dataclass(frozen=True)
class TrainingSection:
    """Texts and figure of the training curve."""

    lead: str
    svg: str
    seconds: str


def training_section(fit: TableFit) -> TrainingSection:
    """The training curve and whether it levelled off."""
    model = fit.pipeline["model"]
    lead = _training_lead(fit)
    return TrainingSection(
        lead=lead,
        svg=training_figure(model.elbo_curve_, model.kernel_curve_, f"Training curve. {lead}"),
        seconds=_duration(fit.seconds),
    )


def _training_lead(fit: TableFit) -> str:
    model = fit.pipeline["model"]
    sweeps = plural(int(model.n_iter_), "sweep over the rows", "sweeps over the rows")
    if fit.interrupted:
        return (
            f"Training was interrupted after {sweeps}: the model is the best state reached until then, and a "
            "full run may do better."
        )
    if model.converged_:
        return f"Training came to rest after {sweeps}: more time would change next to nothing."
    return (
        f"Training had not come to rest after {sweeps}, the most it was allowed: fit again with a larger "
        "max_iter if you want the last bit."
    )


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f}\u00a0s" if seconds < 10 else f"{seconds:.0f}\u00a0s"
    minutes = round(seconds / 60)
    return plural(minutes, "minute") if minutes < 100 else plural(round(seconds / 3600), "hour")
