"""Evaluations and relevances, in rows for people and in dictionaries for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesvm.cli.sections import Row, Section
from bayesvm.cli.wording import MOST_SHOWN, bar, count_of, cut, interval, percent
from bayesvm.tables import Evaluation

__all__ = ["abstention", "confusions", "quality", "relevance_rows"]

_MOST_CLASSES = 8
_MOST_CONFUSIONS = 10
_LEAST_RELEVANCE = 0.005


def quality(judged: Sequence[Evaluation], thresholds: Sequence[float], max_error: float) -> Section:
    """Figures of one or more evaluations side by side, each with its model's abstention threshold."""
    answers = []
    for evaluation, threshold in zip(judged, thresholds, strict=True):
        share, right = evaluation.answered(threshold)
        answers.append(f"{percent(share)}, right in {percent(right.value)}" if right else "none")
    rows: list[Row] = [
        ("accuracy", *(interval(*e.accuracy, rows=len(e.labels), share=True) for e in judged)),
        (f"always {cut(str(judged[0].majority), 20)}", *(percent(e.baseline_accuracy) for e in judged)),
        ("log-loss", *(interval(*e.log_loss, rows=len(e.labels)) for e in judged)),
        ("Brier score", *(f"{e.brier:.3f}" for e in judged)),
        ("calibration error", *(f"{e.calibration_error:.3f}" for e in judged)),
        (f"answers at {100 * max_error:g} % error", *answers),
    ]
    return Section("How good", rows, tuple(f"{e.origin}, {count_of(len(e.labels), 'row')}" for e in judged))


def abstention(evaluation: Evaluation, threshold: float, max_error: float) -> dict[str, Any]:
    """What happens if the model may hand rows to a person."""
    answered, accuracy = evaluation.answered(threshold)
    return {
        "max_error": max_error,
        "threshold": threshold,
        "origin": evaluation.origin,
        "answered": answered,
        "accuracy": None if accuracy is None else accuracy._asdict(),
    }


def confusions(evaluation: Evaluation) -> Section:
    """The whole matrix for a few classes, else the most frequent mistakes."""
    names = [cut(str(label), 20) for label in evaluation.classes]
    matrix = evaluation.confusion
    if len(names) <= _MOST_CLASSES:
        rows: list[Row] = [(f"is {name}", *map(str, matrix[i])) for i, name in enumerate(names)]
        return Section("Confusions", rows, tuple(f"said {name}" for name in names))
    wrong = matrix.copy()
    np.fill_diagonal(wrong, 0)
    order = wrong.ravel().argsort(kind="stable")[::-1][:_MOST_CONFUSIONS]
    cells = [(int(wrong.flat[i]), *divmod(int(i), len(names))) for i in order]
    rows = [(count_of(n, "row"), f"said {names[said]}, is {names[true]}") for n, true, said in cells if n]
    return Section("Most frequent mistakes", rows)


def relevance_rows(relevance: Any) -> list[Row]:
    """The most relevant columns with bars; takes what ``column_relevance`` returns."""
    largest = float(relevance.max())
    shown = [(str(name), float(share)) for name, share in relevance.head(MOST_SHOWN).items()]
    return [
        (cut(name, 30), f"{100 * share:2.0f} %", bar(share, largest))
        for name, share in shown
        if share >= _LEAST_RELEVANCE
    ]
