"""Processes that fit side by side, each fit with a time limit."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from bayesvm_studies.datasets import DatasetError
from bayesvm_studies.results import Result, Task
from bayesvm_studies.worker import error_words, thread_environment

_POLL_SECONDS = 0.25
_LAST_WORDS = 300


class _Worker:
    """A process and what it is busy with."""

    def __init__(self) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        path = os.pathsep.join(p for p in sys.path if p)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bayesvm_studies.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**os.environ, **thread_environment(), "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C goes to the parent, which ends its workers
        )
        self.task: Task | None = None
        self.started = 0.0
        self._deadline: float | None = None
        self._rest = b""

    @property
    def answers(self) -> IO[bytes]:
        """Where its answers come from."""
        assert self.process.stdout is not None
        return self.process.stdout

    def give(self, task: Task, folder: Path) -> None:
        """Give it something to do."""
        self.task, self.started = task, time.time()
        self._set_deadline()
        content = json.dumps({**asdict(task), "folder": str(folder)}) + "\n"
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it is dead, which its end of the other pipe will tell
            self.process.stdin.write(content.encode())
            self.process.stdin.flush()

    def read(self) -> dict[str, Any] | None:
        """What came of the task, if it is over."""
        new = os.read(self.answers.fileno(), 1 << 16)
        if not new:
            return {"status": "error", "error": self._last_words()}
        self._rest += new
        while b"\n" in self._rest:
            line, self._rest = self._rest.split(b"\n", 1)
            answer: dict[str, Any] = json.loads(line)
            if "status" in answer:
                return answer
            self._set_deadline()  # it began: what came before was loading and warming up
        return None

    def late(self) -> bool:
        """Whether the time for its task is over."""
        return self.task is not None and self._deadline is not None and time.monotonic() > self._deadline

    def end(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self._said.close()

    def _set_deadline(self) -> None:
        limit = None if self.task is None else self.task.timeout
        self._deadline = None if limit is None else time.monotonic() + limit

    def _last_words(self) -> str:
        status = self.process.wait()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        said = f": {lines[-1][-_LAST_WORDS:]}" if lines else ""
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        return f"the process ended {how}{said}"


def run_tasks(
    tasks: Sequence[Task],
    jobs: int,
    folder_of: Callable[[str], Path],
    started: Callable[[Task], None] = lambda task: None,
    until: float | None = None,
) -> Iterator[Result]:
    """Results as they come.

    Where a model ran out of time on one fold of a set, its other folds are
    not tried and are recorded as timed out too. Where a set cannot be used,
    its fits are recorded as errors.

    Parameters
    ----------
    tasks : sequence of Task
        Begun in this order.
    jobs : int
        Processes side by side.
    folder_of : callable
        From the name of a set to a folder with ``X.npy`` and ``y.npy``; raises
        DatasetError for a set that cannot be used.
    started : callable
        Told of every task that begins.
    until : float or None
        Value of ``time.monotonic()`` at which all ends; fits that are running then have no result.
    """
    waiting = list(reversed(tasks))
    workers: list[_Worker] = []
    selector = selectors.DefaultSelector()
    try:
        while waiting or any(worker.task for worker in workers):
            if until is not None and time.monotonic() >= until:
                return
            while waiting and len(workers) < jobs:
                workers.append(_Worker())
                selector.register(workers[-1].answers, selectors.EVENT_READ, workers[-1])
            for worker in workers:
                while worker.task is None and waiting:  # again if there was nothing to fit to
                    task = waiting.pop()
                    started(task)
                    try:
                        folder = folder_of(task.data)
                    except DatasetError as error:
                        yield Result.of(
                            task, "error", error=error_words(error), started=time.time(), jobs=jobs
                        )
                    else:
                        worker.give(task, folder)
            for key, _ in selector.select(_POLL_SECONDS):
                worker = key.data
                answer = worker.read()
                if answer is None:
                    continue
                over, worker.task = worker.task, None
                if worker.process.poll() is not None:
                    _dismiss(worker, workers, selector)
                if over is not None:
                    yield Result.of(over, answer.pop("status"), started=worker.started, jobs=jobs, **answer)
            for worker in [w for w in workers if w.late()]:
                over, worker.task = worker.task, None
                _dismiss(worker, workers, selector)
                if over is not None:
                    yield Result.of(
                        over,
                        "timeout",
                        error=f"ended after {over.timeout:g} s",
                        started=worker.started,
                        jobs=jobs,
                        total_s=time.time() - worker.started,
                    )
                    alike = [task for task in waiting if _other_fold(task, over)]
                    waiting = [task for task in waiting if task not in alike]
                    for task in alike:
                        reason = f"not tried: fold {over.split} was ended after {over.timeout:g} s"
                        yield Result.of(task, "timeout", error=reason, started=time.time(), jobs=jobs)
    finally:
        for worker in workers:
            worker.end()
        selector.close()


def _other_fold(task: Task, over: Task) -> bool:
    return (task.data, task.protocol, task.model) == (over.data, over.protocol, over.model)


def _dismiss(worker: _Worker, workers: list[_Worker], selector: selectors.BaseSelector) -> None:
    selector.unregister(worker.answers)
    workers.remove(worker)
    worker.end()
