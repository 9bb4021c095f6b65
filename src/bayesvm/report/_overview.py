"""The top of a report, how training went, and how to use the model."""

from __future__ import annotations

import datetime
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from bayesvm._formatting import between, count, percent, plural, quoted, rate, shorten, tied
from bayesvm._version import __version__
from bayesvm.report._figures import training_figure
from bayesvm.report._quality import ModelVerdict, verdict_of

if TYPE_CHECKING:
    from bayesvm.report._pitfall import Pitfall
    from bayesvm.tables import Evaluation, TableFit


def headline(
    fit: TableFit, pitfalls: Sequence[Pitfall], source: str | None, max_error: float
) -> SimpleNamespace:
    """The top of the report: what is predicted, how good in a sentence, and warnings before all else.

    Parameters
    ----------
    fit : TableFit
    pitfalls : sequence of Pitfall
    source : str or None
        Name of the table's file.
    max_error : float
        Error rate at which abstention is shown.
    """
    verdict = verdict_of(fit)
    judged = verdict.judged
    answered = judged.answered(fit.abstention_threshold(max_error))[0]
    rows = "held-out rows" if judged is fit.heldout else "rows, each left out in turn,"
    now = datetime.datetime.now()
    alarms = [pitfall for pitfall in pitfalls if pitfall.severity == "alarm"]
    comparison, mark = _comparison(verdict)
    doubt = [fit.doubt[:1].upper() + fit.doubt[1:] + "."] if fit.doubt else []
    return SimpleNamespace(
        target=shorten(fit.target, 100),
        source=None if source is None else shorten(source, 100),
        sentence=_sentence(judged),
        comparison=comparison,
        verdict="fair" if alarms and mark == "good" else mark,
        warnings=(*_interruption(fit), *doubt, *_alarm(alarms)),
        figures=(
            (percent(judged.accuracy.value), f"of {rows} right"),
            (percent(judged.baseline_accuracy), f"by always answering {quoted(judged.majority, 24)}"),
            (percent(answered), f"of {rows} answered, if at most {rate(max_error)} may be wrong"),
            (count(fit.pipeline["columns"].n_rows_), "rows it learned from"),
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


def _comparison(verdict: ModelVerdict) -> tuple[str, str]:
    """How the answers compare with always giving the same one, and the mark for it."""
    judged = verdict.judged
    baseline = percent(judged.baseline_accuracy)
    guess = f"always answering {quoted(judged.majority)}, which is right for {baseline}"
    if verdict.answers == "worse":
        return f"That is worse than {guess}: do not use its answers.", "poor"
    if verdict.answers == "unclear":
        return f"That may be no better than {guess}: there are too few rows to tell.", "poor"
    if verdict.empty:
        return f"That is better than {guess}, but its probabilities are not to be relied on.", "fair"
    if verdict.answers == "often wrong":
        return f"That is better than {guess}, but it is still often wrong.", "fair"
    return f"That is {verdict.answers} than {guess}.", "good"


def _interruption(fit: TableFit) -> list[str]:
    if not fit.interrupted:
        return []
    learned, there = fit.pipeline["columns"].n_rows_, len(fit.table)
    rows = plural(there, "row") if learned == there else f"{count(learned)} of {plural(there, 'row')}"
    return [
        f"Training was interrupted: the model learned from {rows} and is the best state reached until then. "
        "A full run may do better."
    ]


def _alarm(alarms: Sequence[Pitfall]) -> list[str]:
    if not alarms:
        return []
    first = alarms[0].title[:1].lower() + alarms[0].title[1:]
    more = f" (and {plural(len(alarms) - 1, 'more alarm')})" if len(alarms) > 1 else ""
    return [f"Before you believe these figures: {tied(first)}{more}. See below."]


# --- Training.


def training_section(fit: TableFit) -> SimpleNamespace:
    """The training curve and whether it levelled off."""
    model = fit.pipeline["model"]
    lead = _training_lead(fit)
    return SimpleNamespace(
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
        "max_iter if you want the last bit of accuracy."
    )


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f}\u00a0s" if seconds < 10 else f"{seconds:.0f}\u00a0s"
    minutes = round(seconds / 60)
    return plural(minutes, "minute") if minutes < 100 else plural(round(seconds / 3600), "hour")


# --- Usage.


# Suffixes of tables that can be read, wherever they stand in a caption.
_SUFFIX = re.compile(r"\.(?:parquet|pq|(?:csv|tsv)(?:\.(?:gz|bz2|xz|zst))?)(?!\w)", re.IGNORECASE)


def usage_section(
    fit: TableFit, model_path: str | os.PathLike[str] | None, source: str | None, max_error: float
) -> SimpleNamespace:
    """Commands and code with the names of this fit."""
    model = "model.skops" if model_path is None else Path(model_path).name
    new, out = f"new{_suffix(source or '')}", "predictions.csv"
    saved = f"The model is in the file {quoted(model)}"
    if model_path is None:
        saved = f"The model was not saved with this report; save it as {quoted(model)} first (bayesvm.save)"
    return SimpleNamespace(
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
