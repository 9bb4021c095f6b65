"""What it gains to hand the doubtful rows to a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayesvm.metrics import accuracy_coverage_curve
from bayesvm.report.figures import coverage_figure
from bayesvm.report.sections.judgement import described, for_details
from bayesvm.report.wording import count, percent, rate

if TYPE_CHECKING:
    from bayesvm.tables import Evaluation, TableFit

__all__ = ["AbstentionSection", "abstention_section"]

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
    lead = _lead(fit, max_error, offers)
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


def _lead(fit: TableFit, max_error: float, offers: dict[float, float]) -> str:
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
