"""How good the model is: accuracy and log-loss, reliability, confusions and abstention.

Each section of the report is a sentence that says it, the ``lead``, and what
its template shows below: a figure, a table, bars.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Literal

import numpy as np

from bayesvm._formatting import count, number, percent, plural, quoted, rate, shorten, span
from bayesvm.metrics import ReliabilityCurve, accuracy_coverage_curve, reliability_curve
from bayesvm.report._figures import Bar, coverage_figure, reliability_figure
from bayesvm.report._leakage import skill
from bayesvm.tables._predictions import PROMISED_WITH

if TYPE_CHECKING:
    import numpy.typing as npt

    from bayesvm.tables import Evaluation, TableFit
    from bayesvm.tables._evaluation import Interval


# --- Which evaluation a section is about.


# A figure of many parts needs many rows, or it shows chance.
FEWEST_FOR_DETAILS = 200


def for_details(fit: TableFit) -> Evaluation:
    """The held-out rows if they are many, or promise error rates, else leave-one-out."""
    held = fit.heldout
    if held is not None and (fit.promises or len(held.labels) >= FEWEST_FOR_DETAILS):
        return held
    return fit.leave_one_out


# --- The verdict, from which all sentences on how good the model is are made.


# An accuracy known no better than this cannot tell whether the model is too sure of itself.
TOO_WIDE = 0.25
# A smaller gap does not matter in practice, however certain it is.
SMALLEST_GAP = 0.03

Answers = Literal["worse", "unclear", "often wrong", "clearly better", "far better"]
Probabilities = Literal["empty", "unclear", "too sure", "too modest", "true"]


@dataclass(frozen=True)
class ModelVerdict:
    """The verdict of some rows on the answers of the model and on its probabilities.

    Attributes
    ----------
    answers : str
        Compared with always giving the most frequent one, on ``judged``.
    probabilities : str
        "empty" if they are no better than the class frequencies on ``judged``; else how they
        compare with the share of right answers on ``reliable``.
    judged, reliable : Evaluation
    """

    answers: Answers
    probabilities: Probabilities
    judged: Evaluation
    reliable: Evaluation

    @property
    def empty(self) -> bool:
        """Whether the probabilities carry no information."""
        return self.probabilities == "empty"


def verdict_of(fit: TableFit) -> ModelVerdict:
    """The verdict of a report: from held-out rows where there are enough, else from leave-one-out."""
    judged = fit.judged
    reliable = judged if _width(judged) <= TOO_WIDE else for_details(fit)
    return ModelVerdict(_answers(judged), _probabilities(judged, reliable), judged, reliable)


def _answers(judged: Evaluation) -> Answers:
    share, baseline = judged.accuracy, judged.baseline_accuracy
    if share.high < baseline:
        return "worse"
    if share.low <= baseline:
        return "unclear"
    gain = skill(share.value, baseline)
    return "far better" if gain >= 0.8 else "clearly better" if gain >= 0.4 else "often wrong"


def _probabilities(judged: Evaluation, reliable: Evaluation) -> Probabilities:
    if not judged.gain.is_certain:
        return "empty"
    sure, right = float(reliable.proba.max(1).mean()), reliable.accuracy
    if right.low <= sure <= right.high:
        return "unclear" if _width(reliable) > TOO_WIDE else "true"
    if abs(sure - right.value) < SMALLEST_GAP:
        return "true"
    return "too sure" if sure > right.value else "too modest"


def _width(judged: Evaluation) -> float:
    return judged.accuracy.high - judged.accuracy.low


# --- Accuracy and log-loss, with intervals and a baseline.


def quality_section(fit: TableFit) -> SimpleNamespace:
    """How good the model is, on rows it had not seen and by leave-one-out."""
    judged, evaluations = fit.judged, fit.evaluations
    base_loss = judged.gain.of_frequencies
    # Name, which way is better, and for each evaluation and without a model the figure with its range.
    measures = (
        (
            "Right answers (accuracy)",
            "higher is better",
            (*(_share(e.accuracy) for e in evaluations), (percent(judged.baseline_accuracy), "")),
        ),
        (
            "Log-loss",
            "lower is better",
            (*(_plain(e.log_loss) for e in evaluations), (number(base_loss), "")),
        ),
        (
            "Typical probability of the true class",
            "higher is better",
            (*(_typical(e.log_loss) for e in evaluations), (percent(np.exp(-base_loss)), "")),
        ),
        (
            "Calibration error",
            "lower is better",
            (*((percent(e.calibration_error), "") for e in evaluations), ("–", "")),
        ),
    )
    typical = percent(np.exp(-judged.log_loss.value))
    return SimpleNamespace(
        lead=f"By {judged.rows_in_words} it is right for {percent(judged.accuracy.value)}, and the true "
        f"class typically had a probability of {typical}. The range below each figure says how far chance "
        "could have moved it.",
        heads=(*(_head(e) for e in evaluations), ("without a model", _head(judged)[0])),
        measures=measures,
        agreement=_agreement(fit),
        typical=typical,
        log_loss=number(judged.log_loss.value),
    )


def _head(evaluation: Evaluation) -> tuple[str, str]:
    """Where figures come from, with hyphens that do not break the line."""
    return (evaluation.origin.replace("-", "\u2011"), plural(len(evaluation.labels), "row"))


def _share(interval: Interval) -> tuple[str, str]:
    return (percent(interval.value), span(percent(interval.low), percent(interval.high)))


def _plain(interval: Interval) -> tuple[str, str]:
    return (number(interval.value), span(number(interval.low), number(interval.high)))


def _typical(log_loss: Interval) -> tuple[str, str]:
    value, worst, best = (float(np.exp(-part)) for part in (log_loss.value, log_loss.high, log_loss.low))
    return (percent(value), span(percent(worst), percent(best)))


def _agreement(fit: TableFit) -> str:
    if fit.heldout is None:
        why = "No rows were held out" if fit.heldout_pipeline is None else "The held-out rows were not judged"
        return (
            f"{why}, so these figures rest on leave-one-out alone: each row was predicted "
            "by the model as if that row had been missing. That tends to flatter a little."
        )
    held, left = fit.heldout, fit.leave_one_out
    if left is held:
        return "There is no leave-one-out of this fit, so these figures rest on the held-out rows alone."
    if fit.judged is left:
        return f"Only {plural(len(held.labels), 'row')} were held out, so leave-one-out is the judgement."
    gap = left.accuracy.value - held.accuracy.value
    if abs(gap) <= 2.0 * np.hypot(_standard_error(held), _standard_error(left)):
        return "Held-out rows and leave-one-out agree within chance, as they should."
    if gap > 0:
        return (
            "Leave-one-out looks better than the held-out rows, by more than chance explains. Believe the "
            "held-out figures."
        )
    return (
        "The held-out rows came out better than leave-one-out, by more than chance explains. They are the "
        "judgement, but may be the easier ones."
    )


def _standard_error(evaluation: Evaluation) -> float:
    return (evaluation.accuracy.high - evaluation.accuracy.low) / 4.0


# --- Reliability of the probabilities.


def reliability_section(fit: TableFit) -> SimpleNamespace:
    """The reliability diagram and what it says."""
    judged = for_details(fit)
    curve = reliability_curve(judged.labels, judged.proba, labels=judged.classes)
    lead = _reliability_lead(verdict_of(fit))
    return SimpleNamespace(
        lead=lead,
        example=_example(curve),
        svg=reliability_figure(curve, f"Reliability diagram. {lead} {_example(curve)}"),
        rows=judged.rows_in_words,
        error=percent(judged.calibration_error),
    )


def _reliability_lead(verdict: ModelVerdict) -> str:
    rows = verdict.judged if verdict.empty else verdict.reliable
    sure, right = float(rows.proba.max(1).mean()), rows.accuracy.value
    numbers = f"by {rows.rows_in_words} it was {percent(sure)} sure on average and {percent(right)} right"
    if verdict.probabilities == "empty":
        return (
            f"Its probabilities are no better than the class frequencies, so do not rely on them: {numbers}."
        )
    if verdict.probabilities == "unclear":
        return f"There are too few rows to tell whether its probabilities are right: {numbers}."
    if verdict.probabilities == "too sure":
        return f"It is surer than it should be: {numbers}. Take its probabilities with a grain of salt."
    if verdict.probabilities == "too modest":
        return f"It is more modest than it needs to be: {numbers}. It is right more often than it says."
    return f"You can take its probabilities at their word: {numbers}."


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


# --- Confusions of classes.


MOST_CLASSES_AS_MATRIX = 12
PAIRS_SHOWN = 12
CLASSES_SHOWN = 100
# A mistake is named as the most frequent one if it is seen this often and is this share of all mistakes.
FEWEST_TO_NAME, SHARE_TO_NAME = 5, 0.1


def confusion_section(fit: TableFit) -> SimpleNamespace:
    """The confusion matrix, or its largest entries."""
    judged = for_details(fit)
    counts = judged.confusion
    names = tuple(shorten(label, 60) for label in judged.classes)
    few = len(names) <= MOST_CLASSES_AS_MATRIX
    pairs = judged.mistakes
    bars = [] if few else _class_bars(names, counts)
    hidden = 0 if few else int((counts.sum(1) > 0).sum()) - len(bars)
    return SimpleNamespace(
        lead=_confusion_lead(names, counts, pairs, judged.rows_in_words),
        names=names,
        matrix=tuple(_lines(names, counts)) if few else (),
        mixups=() if few else tuple(_mixup(names, counts, *pair) for pair in pairs[:PAIRS_SHOWN]),
        classes=bars,
        note=f"{count(hidden)} classes with more right answers are not shown." if hidden else "",
        rows=judged.rows_in_words,
    )


def _confusion_lead(
    names: tuple[str, ...], counts: npt.NDArray[np.int64], pairs: list[tuple[int, int]], judged: str
) -> str:
    if not pairs:
        return f"It mixed up nothing: by {judged} every answer was right."
    truth, answer = pairs[0]
    rows, own = int(counts[truth, answer]), int(counts[truth].sum())
    wrong = int(counts.sum() - np.trace(counts))
    lead = f"By {judged} it was wrong for {count(wrong)}."
    if wrong < FEWEST_TO_NAME:
        return f"{lead} These are too few mistakes to see a pattern in."
    if rows < FEWEST_TO_NAME or rows < SHARE_TO_NAME * wrong:
        kinds = plural(len(pairs), "kind of mistake", "kinds of mistakes")
        return f"{lead} These are spread over {kinds}, none of which stands out."
    return (
        f"{lead} Its most frequent mistake is to take {quoted(names[truth])} for {quoted(names[answer])}: "
        f"{count(rows)} of {plural(own, 'such row')} ({percent(rows / own)})."
    )


def _mixup(
    names: tuple[str, ...], counts: npt.NDArray[np.int64], truth: int, answer: int
) -> tuple[str, str, str]:
    """True class, answer, and how many of the class's rows got it."""
    share = f"{count(int(counts[truth, answer]))} of {count(int(counts[truth].sum()))}"
    return names[truth], names[answer], share


def _lines(names: tuple[str, ...], counts: npt.NDArray[np.int64]) -> list[SimpleNamespace]:
    lines = []
    for c, name in enumerate(names):
        total = int(counts[c].sum())
        shares = tuple(float(n / total) if total else 0.0 for n in counts[c])
        right = percent(shares[c]) if total else "–"
        cells = list(zip((count(int(n)) for n in counts[c]), shares, strict=True))
        lines.append(SimpleNamespace(name=name, cells=cells, total=count(total), right=right))
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


# --- Abstention: rows handed to a person.


USUAL_ERRORS = (0.01, 0.02, 0.05, 0.1, 0.2)


def abstention_section(fit: TableFit, max_error: float) -> SimpleNamespace:
    """Accuracy against coverage, with the threshold for an error rate."""
    judged = for_details(fit)
    allowed = sorted({max_error, *USUAL_ERRORS})
    offers = {error: fit.abstention_threshold(error) for error in allowed}
    threshold = offers[max_error]
    lead = _abstention_lead(fit, max_error, offers)
    curve = accuracy_coverage_curve(judged.labels, judged.proba, labels=judged.classes)
    return SimpleNamespace(
        lead=lead,
        offers=tuple(_offer(judged, error, limit, error == max_error) for error, limit in offers.items()),
        svg=coverage_figure(curve, threshold, max_error, f"Accuracy against share of rows answered. {lead}"),
        marks=_marks(judged, max_error, threshold),
        rows=judged.rows_in_words,
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
        return f"{asked} it answers no row at all: there are not the rows to support that. {hint}"
    lead = f"{asked} it answers {percent(share)} of rows and leaves {percent(1 - share)} to a person"
    if share == 1.0:
        lead = f"{asked} it answers every row"
    if fit.heldout is None or judged is fit.heldout:
        lead = f"{lead}; by {judged.rows_in_words} {_outcome(judged, threshold)} of its answers were wrong"
    else:
        apart = _held_out(fit.heldout, threshold)
        lead = f"{lead}. The model that had not seen the held-out rows answered {apart}"
    return f"{lead}. {_standing(fit)}"


def _standing(fit: TableFit) -> str:
    """Whether a rate is a promise or an aim."""
    if not fit.promises:
        return (
            "The rate is an aim, from rows that models like this one had not seen: new rows may have more "
            "errors."
        )
    return (
        f"The rate is a promise: answers to new rows like these keep it, with probability {PROMISED_WITH:g} "
        "over the draw of the rows held out, which this model has not learned from."
    )


def _held_out(heldout: Evaluation, threshold: float) -> str:
    kept = heldout.proba.max(1) >= threshold
    if not kept.any():
        return "none of them"
    wrong = int((~heldout.correct[kept]).sum())
    return (
        f"{count(int(kept.sum()))} of {count(len(kept))}, {count(wrong) if wrong else 'none'} of them wrongly"
    )


def _offer(judged: Evaluation, allowed: float, threshold: float, chosen: bool) -> SimpleNamespace:
    share = judged.answered(threshold)[0]
    sure = percent(threshold) if share else "–"
    return SimpleNamespace(
        asked=rate(allowed),
        sure=sure,
        answered=percent(share),
        outcome=_outcome(judged, threshold),
        chosen=chosen,
    )


def _outcome(judged: Evaluation, threshold: float) -> str:
    kept = judged.proba.max(1) >= threshold
    if not kept.any():
        return "–"
    return f"{count(int((~judged.correct[kept]).sum()))} of {count(int(kept.sum()))}"
