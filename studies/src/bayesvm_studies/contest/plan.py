"""Which fits the contest consists of, and in which order they begin."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bayesvm_studies.contest import ContestSettings
from bayesvm_studies.contest.contestants import PROTOCOL, contestants
from bayesvm_studies.datasets import SetInfo, data_folder, two_class_sets
from bayesvm_studies.results import Task
from bayesvm_studies.runner import Plan, Stage, set_size
from bayesvm_studies.spool import Spool, file_digest
from bayesvm_studies.structured.plan import (
    SMALL_ROWS,
    able_contestants,
    chosen_sets,
    fits_of,
    named_sets,
    wanted_models,
)

_BINARY = "pmlb_binary"
_WORDS = ("all", "small", "multi_class", "two_class")


def contest_sets(subset: str = "all") -> list[SetInfo]:
    """Sets that a word or a list of names stands for, the smallest first; see :class:`ContestSettings`.

    Examples
    --------
    >>> len(contest_sets()), len(contest_sets("multi_class"))
    (72, 67)
    """
    several, two = chosen_sets("all", PROTOCOL), two_class_sets()
    every = sorted([*several, *two], key=lambda s: (s.rows, s.name))
    small = [s for s in every if s.rows <= SMALL_ROWS]
    words = dict(zip(_WORDS, (every, small, several, two), strict=True))
    return words[subset] if subset in words else named_sets(subset, every, "the contest", _WORDS)


def make_plan(settings: ContestSettings, data: str | os.PathLike[str] | None = None) -> Plan:
    """The fits that the settings ask for; ``data`` is the folder of the sets with more than two classes."""
    known = contestants()
    wanted = wanted_models(settings.models, list(known))
    sets = contest_sets(settings.subset)
    elsewhere = _folders_of_two_class_sets(settings.binary, data)
    absent: dict[str, str] = {}
    able = able_contestants(known, wanted, absent)
    tasks: list[Task] = []
    for info in sets:
        digest = file_digest(info.name, elsewhere.get(info.name, data))
        tasks += fits_of(info, digest, able, PROTOCOL, folds=settings.folds, timeout=settings.timeout)
    return Plan([Stage(in_order(tasks))], lambda _: Spool(data, elsewhere), absent)


def _folders_of_two_class_sets(
    given: Path | None, data: str | os.PathLike[str] | None
) -> dict[str, str | os.PathLike[str]]:
    """Folders by the names of the sets; none if they are in the folder of the others."""
    beside = data_folder(data).parent / _BINARY
    folder = given or (beside if beside.is_dir() else None)
    return {} if folder is None else {info.name: folder for info in two_class_sets()}


# Seconds of a fit per unit of size, on one core: medians over the sets of earlier runs, guesses for the
# models that had not run; more for the SVM, which had run on small sets only and grows faster. Nothing but
# the order depends on them.
_PACE = {
    "bayesvm": 0.0013,
    "catboost": 0.006,
    "random_forest": 0.0011,
    "hist_gradient_boosting": 0.0005,
    "lightgbm": 0.0002,
    "logistic_regression": 0.00002,
    "svc_grid": 0.01,
    "realmlp": 0.02,
    "ebm": 0.02,
}
_LONG_S = 10.0


def in_order(tasks: Sequence[Task]) -> list[Task]:
    """Tasks with the longest first, so that no core waits for a long one at the end.

    Where a model may run out of time, one fold comes with the long fits and the others after them: by
    then it is mostly known whether they need to be tried.
    """

    def place(task: Task) -> tuple[int, float]:
        expected = _PACE.get(task.model, 0.0) * set_size(task.data)
        doubtful = task.timeout is not None and expected > task.timeout / 4
        if doubtful and task.split > 0:
            return 1, -expected
        return (0 if doubtful or expected >= _LONG_S else 2), -expected

    return sorted(tasks, key=place)
