"""Results as lines of a file to which lines are only ever added.

A line is written by one call, under a lock, and forced to the disk. Whatever
kills the process, the file holds every result reported before, and at most
one torn line at its end, which readers ignore and the next writer removes.

A finished file may be kept compressed: where ``X.jsonl`` does not exist,
``X.jsonl.xz`` is read in its place, and unpacked before a line is added.
"""

from __future__ import annotations

import lzma
import os
import tempfile
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


def plain_path(path: str | os.PathLike[str]) -> Path:
    """The name of a file of lines without the ``.xz`` of its compressed form."""
    path = Path(path)
    return path.with_suffix("") if path.suffix == ".xz" else path


def compressed_path(path: str | os.PathLike[str]) -> Path:
    """The name of the compressed form of a file of lines."""
    path = plain_path(path)
    return path.with_name(path.name + ".xz")


def lines_exist(path: str | os.PathLike[str]) -> bool:
    """Whether a file of lines is there, compressed or not."""
    return plain_path(path).is_file() or compressed_path(path).is_file()


def read_lines(path: str | os.PathLike[str], start: int = 0) -> bytes:
    """The content of a file of lines, compressed or not, from a byte on; empty if there is none.

    Where both forms exist the plain one counts: it is the compressed one and what was added since.
    """
    try:
        with plain_path(path).open("rb") as file:
            file.seek(start)
            return file.read()
    except FileNotFoundError:
        pass
    try:
        return lzma.decompress(compressed_path(path).read_bytes())[start:]
    except FileNotFoundError:
        # Another process may have unpacked it between the two attempts.
        return read_lines(path, start) if plain_path(path).is_file() else b""


def unpack_lines(path: str | os.PathLike[str]) -> None:
    """Replace the compressed form of a file of lines by the plain one; nothing to do if there is none."""
    plain, packed = plain_path(path), compressed_path(path)
    if not plain.exists():
        try:
            content = lzma.decompress(packed.read_bytes())
        except FileNotFoundError:
            return
        descriptor, whole = tempfile.mkstemp(dir=plain.parent, prefix=plain.name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                os.fsync(file.fileno())
            Path(whole).chmod(0o644)
            os.link(whole, plain)  # never replaces what another process has unpacked and added to
        except FileExistsError:
            pass
        finally:
            Path(whole).unlink()
    packed.unlink(missing_ok=True)


class Store:
    """A file of results.

    Several processes may add to it at the same time: a result that another
    one has added meanwhile is not added again.

    Parameters
    ----------
    path : path-like
        Made, with its folder, when the first result is added; its compressed
        form has ``.xz`` at its end, and is found under either name.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = plain_path(path)
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
        unpack_lines(self.path)
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
        new = read_lines(self.path, self._seen)
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
    if not lines_exist(path):
        raise FileNotFoundError(f"no results in {path}; 'bayesvm reproduce {made_by}' makes some")
    return list({(result.key, result.machine): result for result in Store(path).results()}.values())
