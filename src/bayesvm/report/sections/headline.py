"""What was predicted, how good it is in one sentence, and whether that is any good."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bayesvm._version import __version__
from bayesvm.report.pitfalls.predictors import skill
from bayesvm.report.sections.judgement import for_headline
from bayesvm.report.wording import between, count, percent, plural, quoted, rate, shorten

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
    """Texts of the top of a report; ``verdict`` is one of good, fair, poor."""

    target: str
    source: str | None
    sentence: str
    comparison: str
    verdict: str
    warning: str | None
    figures: tuple[KeyFigure, ...]
    made: str
    version: str


def headline(
    fit: TableFit, pitfalls: Sequence[Pitfall], source: str | None, answered: float, max_error: float
) -> Headline:
    """The top of the report.

    Parameters
    ----------
    fit : TableFit
    pitfalls : sequence of Pitfall
    source : str or None
        Name of the table's file.
    answered : float
        Share of rows answered at ``max_error``.
    max_error : float
    """
    judged = for_headline(fit)
    comparison, verdict = _comparison(judged)
    now = datetime.datetime.now()
    alarms = [pitfall for pitfall in pitfalls if pitfall.severity == "alarm"]
    return Headline(
        target=shorten(fit.target, 100),
        source=None if source is None else shorten(source, 100),
        sentence=_sentence(judged),
        comparison=comparison,
        verdict="fair" if alarms and verdict == "good" else verdict,
        warning=None if not alarms else _warning(alarms),
        figures=(
            KeyFigure(percent(judged.accuracy.value), "right answers"),
            KeyFigure(
                percent(judged.baseline_accuracy), f"by always answering {quoted(judged.majority, 24)}"
            ),
            KeyFigure(percent(answered), f"of rows answered, if at most {rate(max_error)} may be wrong"),
            KeyFigure(count(len(fit.table)), "rows to learn from"),
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
    return (
        f"{start} ({percent(share.value)}; between {between(share.low, share.high)} would not surprise us)."
    )


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


def _warning(alarms: Sequence[Pitfall]) -> str:
    first = alarms[0].title[:1].lower() + alarms[0].title[1:]
    more = f" (and {plural(len(alarms) - 1, 'more alarm')})" if len(alarms) > 1 else ""
    return f"Before you believe these figures: {first}{more}. See below."
