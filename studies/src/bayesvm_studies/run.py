"""Making the fits of a plan that are not in the results yet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from bayesvm_studies.estimate import TimeLeft
from bayesvm_studies.plan import Plan
from bayesvm_studies.pool import run_tasks
from bayesvm_studies.result import Result
from bayesvm_studies.spool import Spool
from bayesvm_studies.store import Store
from bayesvm_studies.task import Task
from bayesvm_studies.versions import commit, environment, machine


class Listener(Protocol):
    """Somebody who is told how a run goes."""

    def planned(self, known: int, todo: int, left: float | None) -> None:
        """So many fits are known, so many are to be made, in about so many seconds."""

    def began(self, task: Task) -> None:
        """A fit begins."""

    def ended(self, result: Result, done: int, todo: int, left: float | None) -> None:
        """A fit is over and its result is on disk."""


class _Nobody:
    def planned(self, known: int, todo: int, left: float | None) -> None:
        """Do nothing."""

    def began(self, task: Task) -> None:
        """Do nothing."""

    def ended(self, result: Result, done: int, todo: int, left: float | None) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Outcome:
    """Numbers of fits: known before, made now, and of these failed and ended by the time limit.

    The notes are what must be said about the sets that were used.
    """

    known: int
    made: int
    failed: int
    timed_out: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Standing:
    """Fits to be made, and numbers of fits that are known, and of these failed and timed out."""

    todo: list[Task]
    known: int
    failed: int
    timed_out: int


def standing(
    tasks: Sequence[Task], results: Sequence[Result], *, retry: bool = False, any_version: bool = False
) -> Standing:
    """What of a plan is known and what is to be made.

    Parameters
    ----------
    tasks : sequence of Task
    results : sequence of Result
    retry : bool
        Whether failures and fits that took too long are tried again.
    any_version : bool
        Whether a result of other versions counts too.
    """
    status: dict[str, str] = {}
    for result in results:
        if not result.ok and retry:
            continue
        name = result.place if any_version else result.key
        if status.get(name) != "ok":  # scores of one version are not lost by a failure of another
            status[name] = result.status
    todo = []
    counts = dict.fromkeys(("ok", "error", "timeout"), 0)
    for task in tasks:
        found = status.get(task.place if any_version else task.key)
        if found is None:
            todo.append(task)
        else:
            counts[found] += 1
    return Standing(todo, len(tasks) - len(todo), counts["error"], counts["timeout"])


def unfinished(
    tasks: Sequence[Task], results: Sequence[Result], *, retry: bool = False, any_version: bool = False
) -> list[Task]:
    """Tasks that have no result; see :func:`standing`."""
    return standing(tasks, results, retry=retry, any_version=any_version).todo


def run_plan(
    plan: Plan,
    results: str | os.PathLike[str],
    *,
    data: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    retry: bool = False,
    any_version: bool = False,
    listener: Listener | None = None,
    spool: Spool | None = None,
) -> Outcome:
    """Make the fits that are not known, adding each to the results as soon as it is made.

    Parameters
    ----------
    plan : Plan
    results : path-like
        File of results; a run that was ended at any moment goes on where it stopped.
    data : str, path-like or None
        Folder of the sets.
    jobs : int
        Processes side by side, one thread each.
    retry : bool
        Try failures and fits that took too long again.
    any_version : bool
        Do not repeat what was measured with other versions.
    listener : Listener or None
    spool : Spool or None
        Where the arrays of the sets come from; None: the tables of ``data``.
    """
    if jobs < 1:
        raise ValueError(f"jobs {jobs} is not valid; give a number >= 1")
    told: Listener = listener or _Nobody()
    store = Store(results)
    before = store.results()
    todo = unfinished(plan.tasks, before, retry=retry, any_version=any_version)
    left = TimeLeft(before)
    told.planned(len(plan.tasks) - len(todo), len(todo), left.seconds(todo, jobs))
    waiting = {task.key: task for task in todo}
    arrays = spool or Spool(data)
    counts = dict.fromkeys(("ok", "error", "timeout"), 0)
    notes: list[str] = []
    try:
        for done, bare in enumerate(run_tasks(todo, jobs, arrays.folder_of, told.began), 1):
            result = replace(
                bare,
                machine=machine(),
                commit=commit(),
                environment={k: v for k, v in environment().items() if k not in bare.versions},
                note=arrays.notes.get(bare.data, ""),  # none of a set that cannot be read
            )
            store.add(result)
            counts[result.status] += 1
            notes.append(result.note)
            left.learn(result)
            waiting.pop(result.key, None)
            told.ended(result, done, len(todo), left.seconds(waiting.values(), jobs))
    finally:
        if spool is None:
            arrays.close()
    return Outcome(
        len(plan.tasks) - len(todo),
        sum(counts.values()),
        counts["error"],
        counts["timeout"],
        tuple(dict.fromkeys(note for note in notes if note)),
    )
