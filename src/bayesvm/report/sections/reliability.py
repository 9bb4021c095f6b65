"""Whether a probability of 80 % is right 80 % of the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayesvm.metrics import ReliabilityCurve, reliability_curve
from bayesvm.report.figures import reliability_figure
from bayesvm.report.sections.judgement import described, for_details, for_headline
from bayesvm.report.wording import count, percent, plural

if TYPE_CHECKING:
    from bayesvm.tables import Evaluation, TableFit

__all__ = ["ReliabilitySection", "reliability_section"]

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
    lead = _lead(for_headline(fit), judged)
    return ReliabilitySection(
        lead=lead,
        example=_example(curve),
        svg=reliability_figure(curve, f"Reliability diagram. {lead} {_example(curve)}"),
        rows=described(judged),
        error=percent(judged.calibration_error),
    )


def _lead(headline: Evaluation, details: Evaluation) -> str:
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
