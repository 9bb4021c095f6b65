"""What was predicted, how good it is in one sentence, and whether that is any good."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bayesvm._version import __version__
from bayesvm.report.pitfalls.predictors import skill
from bayesvm.report.sections.judgement import baseline_log_loss, for_headline
from bayesvm.report.wording import between, count, number, percent, plural, quoted, rate, shorten, tied

if TYPE_CHECKING:
    from bayesvm.report.pitfalls.pitfall import Pitfall
    from bayesvm.tables import Evaluation, TableFit

__all__ = ["Headline", "KeyFigure", "headline"]


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
