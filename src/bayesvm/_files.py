"""Atomic writes: files are written under a temporary name, then moved."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path to write to; the file is moved to ``path`` on success.

    On any exception the temporary file is removed and an existing file at
    ``path`` stays as it was. A symbolic link stays a link: the file it
    points to is replaced. Devices and pipes are written to directly.

    Parameters
    ----------
    path : str or path-like
        The final path.

    Yields
    ------
    Path
        Where to write it, in the same folder.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "answer.txt"
    >>> with replacing(target) as part:
    ...     _ = part.write_text("42")
    >>> target.read_text()
    '42'
    """
    target = Path(path).resolve()
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file")
    if target.exists() and not target.is_file():
        yield target
        return
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist; create it first")
    part = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")
    try:
        yield part
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
