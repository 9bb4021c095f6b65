"""Reading IDX files, the format of MNIST and of sets made in its likeness."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bayesvm_studies.datasets.errors import DatasetError

_GZIP = b"\x1f\x8b"
_UNSIGNED_BYTE = 0x08


def read_idx(path: Path, n_axes: int) -> npt.NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes, packed with gzip or not.

    The file begins with two bytes of zero, the type of the entries (8 for
    unsigned bytes) and the number of axes; a length per axis follows, four
    bytes each, big end first; then the entries, last axis fastest.

    Parameters
    ----------
    path : Path
    n_axes : int
        Number of axes that the file must have: 3 for images, 1 for labels.
    """
    advice = "remove it and get it again"
    try:
        content = path.read_bytes()
        if content[:2] == _GZIP:
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{path} cannot be read: {error}; {advice}") from error
    start = 4 + 4 * n_axes
    if content[:4] != bytes((0, 0, _UNSIGNED_BYTE, n_axes)) or len(content) < start:
        raise DatasetError(
            f"{path} is no IDX file of unsigned bytes with {n_axes} axes: it begins with "
            f"{content[:4].hex() or 'nothing'}; {advice}"
        )
    shape = tuple(int(n) for n in np.frombuffer(content, ">u4", n_axes, 4))
    if len(content) - start != math.prod(shape):
        raise DatasetError(
            f"{path} holds {len(content) - start} bytes after its header instead of "
            f"{' x '.join(map(str, shape))} = {math.prod(shape)}; {advice}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()
