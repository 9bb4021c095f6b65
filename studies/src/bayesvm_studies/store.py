"""Results as lines of a file to which lines are only ever added.

A line is written by one call, under a lock, and forced to the disk. Whatever
kills the process, the file holds every result reported before, and at most
one torn line at its end, which readers ignore and the next writer removes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bayesvm_studies.result import Result


def _fcntl() -> tuple[Callable[[int], None], Callable[[int], None]]:
    """Ways to lock and unlock a file; where the system has none, writers must be alone."""
    try:
        import fcntl
    except ImportError:  # Windows
        return (lambda descriptor: None), (lambda descriptor: None)
    return (
        lambda descriptor: fcntl.flock(descriptor, fcntl.LOCK_EX),
        lambda descriptor: fcntl.flock(descriptor, fcntl.LOCK_UN),
    )


class Store:
    """A file of results.

    Several processes may add to it at the same time: a result that another
    one has added meanwhile is not added again.

    Parameters
    ----------
    path : path-like
        Made, with its folder, when the first result is added.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._seen = 0  # bytes read so far
        self._results: list[Result] = []
        self._scored: set[str] = set()  # keys of results that no other can replace

    def results(self) -> list[Result]:
        """All results in the order they came; of equal keys the last counts for readers."""
        self._catch_up()
        return list(self._results)

    def add(self, result: Result) -> bool:
        """Add a line; False if the same fit is there already and has scores."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked() as descriptor:
            self._repair(descriptor)
            self._catch_up()
            if result.key in self._scored:
                return False
            line = result.to_line().encode()
            written = os.write(descriptor, line)
            if written != len(line):  # the disk is full: take the part back
                os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
                raise OSError(f"{self.path}: could not write a whole line; is the disk full?")
            os.fsync(descriptor)
        self._catch_up()
        return True

    @contextmanager
    def _locked(self) -> Iterator[int]:
        lock, unlock = _fcntl()
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            lock(descriptor)
            try:
                yield descriptor
            finally:
                unlock(descriptor)
        finally:
            os.close(descriptor)

    def _repair(self, descriptor: int) -> None:
        """Cut off a line without an end: a process was killed while it wrote it."""
        size = os.fstat(descriptor).st_size
        if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
            return
        end = size
        while end > 0:
            start = max(0, end - 65536)
            cut = os.pread(descriptor, end - start, start).rfind(b"\n")
            if cut >= 0:
                os.ftruncate(descriptor, start + cut + 1)
                return
            end = start
        os.ftruncate(descriptor, 0)

    def _catch_up(self) -> None:
        """Read whole lines added since the last time."""
        if not self.path.is_file():
            return
        with self.path.open("rb") as file:
            file.seek(self._seen)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._seen += len(whole)
        for number, line in enumerate(whole.decode().splitlines(), 1):
            try:
                result = Result.from_line(line)
            except (ValueError, TypeError) as error:
                raise ValueError(
                    f"{self.path}: a line is not a result ({error}); it ends at byte {self._seen} or before, "
                    f"line {number} of what was new"
                ) from error
            self._results.append(result)
            if result.ok:
                self._scored.add(result.key)


def read_results(path: str | os.PathLike[str], made_by: str = "structured") -> list[Result]:
    """The results of a file: of equal keys the last of every machine.

    Parameters
    ----------
    path : path-like
        Must exist.
    made_by : str
        The experiment whose results they are, for the error message.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"no results in {path}; 'bayesvm reproduce {made_by}' makes some")
    return list({(result.key, result.machine): result for result in Store(path).results()}.values())
