"""Making the fits of a plan that are not in the results yet; the same for every study."""

from __future__ import annotations

import os
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bayesvm_studies.datasets import known_set
from bayesvm_studies.pool import run_tasks
from bayesvm_studies.results import Result, Store, Task
from bayesvm_studies.spool import Spool
from bayesvm_studies.versions import commit, environment, machine


@dataclass(frozen=True)
class Stage:
    """Fits that may run side by side, after those of the stages before.

    Attributes
    ----------
    tasks : list of Task
        Begun in this order.
    alone : bool
        Whether each must have the machine for itself, as clocks must.
    results : Path or None
        File of its results, if not that of the run; what it held before is
        set aside, so that all of its fits are made.
    replanned : callable or None
        Gives the tasks anew when the stage's turn comes, if they depend on what was made before.
    """

    tasks: list[Task]
    alone: bool = False
    results: Path | None = None
    replanned: Callable[[], list[Task]] | None = None


@dataclass(frozen=True)
class Plan:
    """What a run consists of.

    Attributes
    ----------
    stages : list of Stage
    spool : callable
        Makes the :class:`Spool` of the sets, given the file of results.
    absent : dict of str to str
        Models that cannot run here, with the reason.
    """

    stages: list[Stage]
    spool: Callable[[Path], Spool]
    absent: dict[str, str] = field(default_factory=dict)

    @property
    def tasks(self) -> list[Task]:
        """All of them, in order."""
        return [task for stage in self.stages for task in stage.tasks]


class Listener:
    """Follows a run; this one says nothing of it."""

    def planned(self, known: int, todo: int, left: float | None) -> None:
        """So many fits are known, so many are to be made, in about so many seconds."""

    def began(self, task: Task) -> None:
        """A fit begins."""

    def ended(self, result: Result, done: int, todo: int, left: float | None) -> None:
        """A fit is over and its result is on disk."""


@dataclass(frozen=True)
class Outcome:
    """Numbers of fits: known before, made now, and of these failed and ended by the time limit.

    The notes are what must be said about the sets that were used; ``left`` is the number of fits for which
    there was no time.
    """

    known: int
    made: int
    failed: int
    timed_out: int
    notes: tuple[str, ...] = ()
    left: int = 0


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
    """Which tasks are known and which are to be made.

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
    found = [status.get(task.place if any_version else task.key) for task in tasks]
    todo = [task for task, known in zip(tasks, found, strict=True) if known is None]
    counts = Counter(found)
    return Standing(todo, len(tasks) - len(todo), counts["error"], counts["timeout"])


def run_plan(
    plan: Plan,
    results: str | os.PathLike[str],
    *,
    jobs: int = 1,
    retry: bool = False,
    any_version: bool = False,
    listener: Listener | None = None,
    until: float | None = None,
) -> Outcome:
    """Make the fits that are not known, adding each to the results as soon as it is made.

    Parameters
    ----------
    plan : Plan
    results : path-like
        File of results; a run that was ended at any moment goes on where it stopped.
    jobs : int
        Processes side by side, one thread each.
    retry : bool
        Try failures and fits that took too long again.
    any_version : bool
        Do not repeat what was measured with other versions.
    listener : Listener or None
    until : float or None
        Value of ``time.monotonic()`` at which the run ends; what is running then is made by the next one.
    """
    if jobs < 1:
        raise ValueError(f"jobs {jobs} is not valid; give a number >= 1")
    spool = plan.spool(Path(results))
    known, todo, made, notes = 0, 0, Counter[str](), dict[str, None]()
    try:
        for stage in plan.stages:
            if stage.results is not None and stage.tasks:
                _set_aside(stage.results)
            tasks = stage.tasks if stage.replanned is None else stage.replanned()
            store = Store(results if stage.results is None else stage.results)
            before = standing(tasks, store.results(), retry=retry, any_version=any_version)
            if tasks:
                known, todo = known + before.known, todo + len(before.todo)
                run = _Run(store, spool, 1 if stage.alone else jobs, until, listener or Listener())
                run.make(before, made, notes)
    finally:
        spool.close()
    n = made.total()
    return Outcome(known, n, made["error"], made["timeout"], tuple(notes), todo - n)


@dataclass(frozen=True)
class _Run:
    """Where results go, where sets come from, and how fits are made."""

    store: Store
    spool: Spool
    jobs: int
    until: float | None
    listener: Listener

    def make(self, before: Standing, made: Counter[str], notes: dict[str, None]) -> None:
        """Make the fits of one stage; count them by status and gather notes on their sets."""
        left = TimeLeft(self.store.results())
        waiting = {task.key: task for task in before.todo}
        n = len(before.todo)
        self.listener.planned(before.known, n, left.seconds(before.todo, self.jobs))
        fits = run_tasks(before.todo, self.jobs, self.spool.folder_of, self.listener.began, self.until)
        for done, bare in enumerate(fits, 1):
            result = replace(
                bare,
                machine=machine(),
                commit=commit(),
                environment={k: v for k, v in environment().items() if k not in bare.versions},
                note=self.spool.notes.get(bare.data, ""),  # none of a set that cannot be read
            )
            self.store.add(result)
            made[result.status] += 1
            if result.note:
                notes[result.note] = None
            left.learn(result)
            waiting.pop(result.key, None)
            self.listener.ended(result, done, n, left.seconds(waiting.values(), self.jobs))


def _set_aside(file: Path) -> None:
    """Give a file the next free name: trained.1.jsonl, trained.2.jsonl and so on."""
    if file.exists():
        n = 1
        while (free := file.with_suffix(f".{n}{file.suffix}")).exists():
            n += 1
        file.rename(free)


# A fit of nothing still takes some time; in rows. Regressions over all sets gave
# powers of the rows from .3 (boosting) to .8 (BayesianSVC), and 1.3 for an SVC
# on sets that are searched whole: limits on points, rows and bins are at work.
_LEAST_ROWS = 300.0
_POWER = 0.7
_RECENT = 40


def set_size(data: str) -> float:
    """A rough measure of the work that a set makes, the same for all models."""
    known = known_set(data)
    if known is None:
        return 1.0
    return (known.rows + _LEAST_ROWS) ** _POWER * (known.features * known.classes) ** 0.5


class TimeLeft:
    """Seconds per unit of size for every model and protocol, as seen so far.

    Parameters
    ----------
    results : iterable of Result
        Of earlier runs.
    """

    def __init__(self, results: Iterable[Result] = ()) -> None:
        self._rates: dict[tuple[str, str], list[float]] = defaultdict(list)
        for result in results:
            self.learn(result)

    def learn(self, result: Result) -> None:
        """Take a fit into account that was made."""
        if result.status != "error":
            rates = self._rates[result.protocol, result.model]
            rates.append(result.total_s / set_size(result.data))
            # Sets come in order of size: the last ones are most like those to come.
            del rates[:-_RECENT]

    def seconds(self, tasks: Iterable[Task], jobs: int) -> float | None:
        """Seconds for these fits; None while nothing is known."""
        if not self._rates:
            return None
        medians = {name: statistics.median(rates) for name, rates in self._rates.items()}
        of_all = statistics.median(medians.values())
        total = 0.0
        for task in tasks:
            expected = medians.get((task.protocol, task.model), of_all) * set_size(task.data)
            total += expected if task.timeout is None else min(expected, task.timeout)
        return total / jobs
