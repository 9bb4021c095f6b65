"""Reading a set's file: gzipped, tab-separated numbers with a header and a column ``target``."""

from __future__ import annotations

import gzip
import warnings
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayesvm_studies.datasets.errors import DatasetError


class Columns(NamedTuple):
    """Features, labels and the names of the features."""

    X: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    feature_names: tuple[str, ...]


def read_tsv(path: Path) -> Columns:
    """Read one file."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a file without rows, which is refused below
            names = file.readline().rstrip("\r\n").split("\t")
            table = np.loadtxt(file, delimiter="\t", ndmin=2)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DatasetError(f"{path} cannot be read: {error}; remove it and get it again") from error
    if "target" not in names or table.shape[1] != len(names) or len(table) == 0:
        raise DatasetError(f"{path} is no set of PMLB: it needs a header with a column 'target', and rows")
    if not np.isfinite(table).all():
        raise DatasetError(f"{path} holds missing or infinite values, which no set of the paper does")
    target = names.index("target")
    X = np.ascontiguousarray(np.delete(table, target, 1))
    return Columns(X, table[:, target].copy(), tuple(n for n in names if n != "target"))
