"""What was predicted, how good it is in one sentence, and whether that is any good."""

from __future__ import annotations

import datetime
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesvm._version import __version__
from bayesvm.report._formatting import (
    between,
    count,
    number,
    percent,
    plural,
    quoted,
    rate,
    shorten,
    span,
    tied,
)
from bayesvm.report._leakage import skill

if TYPE_CHECKING:
    from bayesvm.report._leakage import Pitfall
    from bayesvm.tables import Evaluation, TableFit
    from bayesvm.tables._evaluation import Interval


# --- Which predictions a section speaks of, and what they are called.


# With fewer held-out rows, what is said of them says more about chance than about the model:
# one number needs some, a figure of many parts needs many.
FEWEST_FOR_HEADLINE = 20
FEWEST_FOR_DETAILS = 200


def for_headline(fit: TableFit) -> Evaluation:
    """The held-out rows, which nobody can argue with, unless there are next to none."""
    return _held_out_or_all(fit, FEWEST_FOR_HEADLINE)


def for_details(fit: TableFit) -> Evaluation:
    """The held-out rows if they are many, else all rows, each predicted without itself."""
    return _held_out_or_all(fit, FEWEST_FOR_DETAILS)


def _held_out_or_all(fit: TableFit, fewest: int) -> Evaluation:
    if fit.heldout is not None and len(fit.heldout.labels) >= fewest:
        return fit.heldout
    return fit.leave_one_out


def described(evaluation: Evaluation) -> str:
    """The rows of an evaluation in words, as the end of a sentence."""
    rows = plural(len(evaluation.labels), "row")
    if evaluation.origin == "held out":
        return f"the {rows} that were held out"
    return f"the {rows}, each predicted as if the model had not seen it (leave-one-out)"


def baseline_log_loss(judged: Evaluation, known: Evaluation) -> float:
    """Log-loss on the judged rows of always giving every class its share among the known ones."""
    classes, counts = np.unique(known.labels, return_counts=True)
    share = counts / counts.sum()
    own = share[np.searchsorted(classes, judged.labels)]
    return float(-np.log(own).mean())


@dataclass(frozen=True)
class KeyFigure:
    """A number to remember and what it is."""

    value: str
    what: str


@dataclass(frozen=True)
class Headline:
    """Texts of the top of a report; ``verdict`` is one of good, fair, poor.

    ``warnings`` are what to know before any figure is believed.
    """

    target: str
    source: str | None
    sentence: str
    comparison: str
    verdict: str
    warnings: tuple[str, ...]
    figures: tuple[KeyFigure, ...]
    made: str
    version: str


def headline(fit: TableFit, pitfalls: Sequence[Pitfall], source: str | None, max_error: float) -> Headline:
    """The top of the report.

    Parameters
    ----------
    fit : TableFit
    pitfalls : sequence of Pitfall
    source : str or None
        Name of the table's file.
    max_error : float
        Error rate at which abstention is shown.
    """
    judged = for_headline(fit)
    comparison, verdict = _comparison(judged)
    answered = judged.answered(fit.abstention_threshold(judged, max_error))[0]
    rows = "held-out rows" if judged.origin == "held out" else "rows"
    now = datetime.datetime.now()
    alarms = [pitfall for pitfall in pitfalls if pitfall.severity == "alarm"]
    improbable = _improbable(judged, fit.leave_one_out)
    doubts = [*_interruption(fit), *improbable, *_alarm(alarms)]
    return Headline(
        target=shorten(fit.target, 100),
        source=None if source is None else shorten(source, 100),
        sentence=_sentence(judged),
        comparison=comparison,
        verdict="fair" if (alarms or improbable) and verdict == "good" else verdict,
        warnings=tuple(doubts),
        figures=(
            KeyFigure(percent(judged.accuracy.value), f"of {rows} right"),
            KeyFigure(
                percent(judged.baseline_accuracy), f"by always answering {quoted(judged.majority, 24)}"
            ),
            KeyFigure(percent(answered), f"of {rows} answered, if at most {rate(max_error)} may be wrong"),
            KeyFigure(count(fit.pipeline["columns"].n_rows_), "rows it learned from"),
        ),
        made=f"{now.day} {now:%B %Y, %H:%M}",
        version=__version__,
    )


def _sentence(judged: Evaluation) -> str:
    n, right, share = len(judged.labels), int(judged.correct.sum()), judged.accuracy
    if judged.origin == "held out":
        start = f"Of {plural(n, 'row')} it had not seen, it got {count(right)} right"
    else:
        start = (
            f"Of {plural(n, 'row')}, each predicted as if it had not been seen, it got {count(right)} right"
        )
    if percent(share.low) == percent(share.high):
        return f"{start} ({percent(share.value)})."
    return f"{start} ({percent(share.value)}; {between(share.low, share.high)} would not surprise us)."


def _comparison(judged: Evaluation) -> tuple[str, str]:
    """How the accuracy compares with always giving the same answer."""
    share, baseline = judged.accuracy, judged.baseline_accuracy
    guess = f"always answering {quoted(judged.majority)}, which is right for {percent(baseline)}"
    gain = skill(share.value, baseline)
    if share.high < baseline:
        return f"That is worse than {guess}: do not use this model.", "poor"
    if share.low <= baseline:
        return f"That may be no better than {guess}: the rows do not suffice to tell.", "poor"
    if gain >= 0.8:
        return f"That is far better than {guess}.", "good"
    if gain >= 0.4:
        return f"That is clearly better than {guess}.", "good"
    return f"That is better than {guess}, but it is still often wrong.", "fair"


def _interruption(fit: TableFit) -> list[str]:
    if not fit.interrupted:
        return []
    learned, there = fit.pipeline["columns"].n_rows_, len(fit.table)
    rows = plural(there, "row") if learned == there else f"{count(learned)} of {plural(there, 'row')}"
    return [
        f"Training was interrupted: the model learned from {rows} and is the best state reached until then. "
        "A full run may do better."
    ]


def _improbable(judged: Evaluation, known: Evaluation) -> list[str]:
    """Whether the probabilities are worth no more than the shares of the classes."""
    loss, base = judged.log_loss.value, baseline_log_loss(judged, known)
    if loss < base:
        return []
    return [
        "The model's probabilities are no better than the class shares: its log-loss is "
        f"{number(loss)}, and giving every class its share of the rows has {number(base)} (lower is better). "
        "Do not rely on them."
    ]


def _alarm(alarms: Sequence[Pitfall]) -> list[str]:
    if not alarms:
        return []
    first = alarms[0].title[:1].lower() + alarms[0].title[1:]
    more = f" (and {plural(len(alarms) - 1, 'more alarm')})" if len(alarms) > 1 else ""
    return [f"Before you believe these figures: {tied(first)}{more}. See below."]


# --- Accuracy and log-loss, with intervals and what to compare them with.


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


# --- How to load the model and predict with it.


# Suffixes of tables that can be read, wherever they stand in a caption.
_SUFFIX = re.compile(r"\.(?:parquet|pq|(?:csv|tsv)(?:\.(?:gz|bz2|xz|zst))?)(?!\w)", re.IGNORECASE)


@dataclass(frozen=True)
class UsageSection:
    """Texts and code of how to use the model."""

    lead: str
    command: str
    python: str


def usage_section(
    fit: TableFit, model_path: str | os.PathLike[str] | None, source: str | None, max_error: float
) -> UsageSection:
    """Commands and code with the names of this fit."""
    model = "model.skops" if model_path is None else Path(model_path).name
    new, out = f"new{_suffix(source or '')}", "predictions.csv"
    saved = f"The model is in the file {quoted(model)}"
    if model_path is None:
        saved = f"The model was not saved with this report; save it as {quoted(model)} first (bayesvm.save)"
    return UsageSection(
        lead=f"{saved}. Give it any table with the same columns; {quoted(fit.target)} is not needed.",
        command=f"bayesvm predict {shlex.quote(model)} {new} --abstain {max_error:g} --output {out}",
        python=(
            "import bayesvm\n"
            "from bayesvm.tables import predict_table, read_table\n\n"
            f"model = bayesvm.load({model!r})\n"
            f"new = read_table({new!r}, model=model)\n"
            f"answers = predict_table(model, new, max_error={max_error:g})\n"
            'answers[["prediction", "probability", "ask_a_person"]]'
        ),
    )


def _suffix(source: str) -> str:
    """The last suffix of a table in a file name or caption, or that of CSV."""
    return (_SUFFIX.findall(source) or [".csv"])[-1].lower()
