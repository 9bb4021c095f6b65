"""Sets as arrays on disk, so that every process has them at once and shares their memory."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bayesvm_studies.datasets import DatasetError, data_file, load

_PREFIX = "bayesvm-sets-"


def file_digest(name: str, data: str | os.PathLike[str] | None) -> str:
    """Twelve hexadecimal digits that stand for the file of a set."""
    return hashlib.sha256(data_file(name, data=data).read_bytes()).hexdigest()[:12]


class Spool:
    """A temporary folder with the arrays of the sets used so far.

    Parameters
    ----------
    data : str, path-like or None
        Folder of the sets.
    elsewhere : mapping or None
        Folders of sets that are not in it, by the name of the set.
    """

    def __init__(
        self,
        data: str | os.PathLike[str] | None,
        elsewhere: Mapping[str, str | os.PathLike[str] | None] | None = None,
    ) -> None:
        self._data, self._folders = data, dict(elsewhere or {})
        _sweep()
        self._folder = tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-")
        self.notes: dict[str, str] = {}
        self._faults: dict[str, str] = {}

    def folder_of(self, name: str) -> Path:
        """Where ``X.npy`` and ``y.npy`` of a set are; made at the first call.

        Raises
        ------
        DatasetError
            If the set cannot be used; it is read once, however often it is asked for.
        """
        if name in self._faults:
            raise DatasetError(self._faults[name])
        folder = Path(self._folder.name) / name
        if name not in self.notes:
            try:
                self.notes[name] = self._fill(name, folder)
            except DatasetError as error:
                self._faults[name] = str(error)
                raise
        return folder

    def _fill(self, name: str, folder: Path) -> str:
        """Make the folder and write the arrays; the answer is what must be said about the set."""
        loaded = load(name, data=self._folders.get(name, self._data))
        folder.mkdir()
        np.save(folder / "X.npy", loaded.X)
        np.save(folder / "y.npy", loaded.y)
        return loaded.note

    def close(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()


def _sweep() -> None:
    """Remove what runs that were killed have left behind."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        process = folder.name.removeprefix(_PREFIX).split("-")[0]
        if not process.isdigit():
            continue
        try:
            os.kill(int(process), 0)
        except ProcessLookupError:
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # of another user, and alive
