"""Where image sets are looked for."""

from __future__ import annotations

import os
from pathlib import Path

from bayesvm_studies.datasets.errors import DatasetError

IMAGES_VARIABLE = "BAYESVM_IMAGES"


def image_folder(data: str | os.PathLike[str] | None = None) -> Path:
    """The folder given, else the one named by BAYESVM_IMAGES, else a folder of the user's cache.

    A folder that somebody named must exist; that of the cache need not yet.

    Parameters
    ----------
    data : str, path-like or None
        Folder that holds the folders of the sets, or the folder of one set.
    """
    named = os.fspath(data) if data is not None else os.environ.get(IMAGES_VARIABLE)
    if named:
        folder = Path(named).expanduser()
        if not folder.is_dir():
            said = "data" if data is not None else IMAGES_VARIABLE
            raise DatasetError(f"{said}: there is no folder {str(folder)!r}")
        return folder
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "bayesvm" / "images"
