"""Where data sets are looked for."""

from __future__ import annotations

import os
from pathlib import Path

from bayesvm_studies.datasets.errors import DatasetError

DATA_VARIABLE = "BAYESVM_DATA"


def data_folder(data: str | os.PathLike[str] | None = None) -> Path:
    """The folder given, else the one named by BAYESVM_DATA, else a folder of the user's cache.

    A folder that somebody named must exist; that of the cache need not yet.

    Parameters
    ----------
    data : str, path-like or None
        Folder with ``<name>/<name>.tsv.gz`` files, the layout of PMLB's
        repository and of the ``local_cache_dir`` of the pmlb package.
    """
    named = os.fspath(data) if data is not None else os.environ.get(DATA_VARIABLE)
    if named:
        folder = Path(named).expanduser()
        if not folder.is_dir():
            said = "data" if data is not None else DATA_VARIABLE
            raise DatasetError(f"{said}: there is no folder {str(folder)!r}")
        return folder
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "bayesvm" / "pmlb"
