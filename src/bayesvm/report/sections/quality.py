"""Accuracy and log-loss, with intervals and what to compare them with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayesvm.report.sections.judgement import baseline_log_loss, for_headline
from bayesvm.report.wording import number, percent, plural, span

if TYPE_CHECKING:
    from bayesvm.tables import Evaluation, Interval, TableFit

__all__ = ["Measure", "QualitySection", "quality_section"]


@dataclass(frozen=True)
class Cell:
    """A figure and the range it could as well have had."""

    value: str
    span: str = ""


@dataclass(frozen=True)
class Head:
    """What a column of the table of figures rests on."""

    name: str
    rows: str = ""


@dataclass(frozen=True)
class Measure:
    """One row of the table of figures."""

    name: str
    better: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class QualitySection:
    """Texts and figures of how good the model is."""

    lead: str
    heads: tuple[Head, ...]
    measures: tuple[Measure, ...]
    agreement: str
    typical: str
    log_loss: str


def quality_section(fit: TableFit) -> QualitySection:
    """How good the model is, on rows it had not seen and by leave-one-out."""
    judged = for_headline(fit)
    evaluations = [fit.leave_one_out] if fit.heldout is None else [fit.heldout, fit.leave_one_out]
    base_loss = baseline_log_loss(judged, fit.leave_one_out)
    measures = (
        Measure(
            "Right answers (accuracy)",
            "higher is better",
            (*(_share(e.accuracy) for e in evaluations), Cell(percent(judged.baseline_accuracy))),
        ),
        Measure(
            "Log-loss",
            "lower is better",
            (*(_plain(e.log_loss) for e in evaluations), Cell(number(base_loss))),
        ),
        Measure(
            "Typical probability of the true class",
            "higher is better",
            (*(_typical(e.log_loss) for e in evaluations), Cell(percent(np.exp(-base_loss)))),
        ),
        Measure(
            "Calibration error",
            "lower is better",
            (*(Cell(percent(e.calibration_error)) for e in evaluations), Cell("–")),
        ),
    )
    typical = percent(np.exp(-judged.log_loss.value))
    return QualitySection(
        lead=f"It is right for {percent(judged.accuracy.value)} of rows, and the true class typically had a "
        f"probability of {typical}. The range below each figure says how far chance could have moved it.",
        heads=(*(_head(e) for e in evaluations), Head("without a model")),
        measures=measures,
        agreement=_agreement(fit),
        typical=typical,
        log_loss=number(judged.log_loss.value),
    )


def _head(evaluation: Evaluation) -> Head:
    """Where figures come from, with hyphens that do not break the line."""
    return Head(evaluation.origin.replace("-", "\u2011"), plural(len(evaluation.labels), "row"))


def _share(interval: Interval) -> Cell:
    return Cell(percent(interval.value), span(percent(interval.low), percent(interval.high)))


def _plain(interval: Interval) -> Cell:
    return Cell(number(interval.value), span(number(interval.low), number(interval.high)))


def _typical(log_loss: Interval) -> Cell:
    value, worst, best = (float(np.exp(-part)) for part in (log_loss.value, log_loss.high, log_loss.low))
    return Cell(percent(value), span(percent(worst), percent(best)))


def _agreement(fit: TableFit) -> str:
    if fit.heldout is None:
        why = "No rows were held out" if fit.heldout_pipeline is None else "The held-out rows were not judged"
        return (
            f"{why}, so these figures rest on leave-one-out alone: each row was predicted "
            "by the model as if that row had been missing. That tends to flatter a little."
        )
    held, left = fit.heldout, fit.leave_one_out
    gap = left.accuracy.value - held.accuracy.value
    if abs(gap) <= 2.0 * np.hypot(_standard_error(held), _standard_error(left)):
        return "Held-out rows and leave-one-out agree within chance, as they should."
    if gap > 0:
        return (
            "Leave-one-out looks better than the held-out rows, by more than chance explains. Believe the "
            "held-out figures."
        )
    return (
        "The held-out rows came out better than leave-one-out, by more than chance explains: they may be "
        "the easier ones. Believe the lower figures."
    )


def _standard_error(evaluation: Evaluation) -> float:
    return (evaluation.accuracy.high - evaluation.accuracy.low) / 4.0
