"""Sets of PMLB, from their names to their rows: found, downloaded, read and checked."""

from __future__ import annotations

import gzip
import os
import warnings
import zlib
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayesvm_studies.datasets.catalogue import (
    DATA_VARIABLE,
    DatasetError,
    data_folder,
    known_set,
    paper_sets,
)
from bayesvm_studies.datasets.poker import complete_poker
from bayesvm_studies.study import near_name


class Dataset(NamedTuple):
    """Rows, labels, and what is to be known about them.

    Attributes
    ----------
    name : str
    X : ndarray of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
        Labels as numbers, as they stand in the file.
    feature_names : tuple of str
    completed : bool
        Whether rows were generated that are not in the file.
    note : str
        What every output that uses these rows must say; empty if nothing.
    """

    name: str
    X: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    feature_names: tuple[str, ...]
    completed: bool = False
    note: str = ""


class Columns(NamedTuple):
    """Features, labels and the names of the features."""

    X: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    feature_names: tuple[str, ...]


def load(name: str, *, data: str | os.PathLike[str] | None = None, download: bool = True) -> Dataset:
    """Load a set of PMLB by name.

    It is read from ``<folder>/<name>/<name>.tsv.gz``. If that is not there
    and the ``pmlb`` package is installed, the package downloads it to that
    place. Of ``poker`` a part is enough, in the folder or beside it in
    ``pmlb_partial``: the rest is generated, and the note says so.

    Parameters
    ----------
    name : str
        Such as "iris"; :func:`paper_sets` lists those of the paper.
    data : str, path-like or None
        The folder; None: the environment variable BAYESVM_DATA, or a folder
        in the user's cache.
    download : bool, default=True
        Whether pmlb may be asked for a set that is not there.

    Returns
    -------
    Dataset
    """
    loaded = Dataset(name, *read_tsv(data_file(name, data=data, download=download)))
    if name == "poker":
        return complete_poker(loaded)
    return loaded._replace(note=_other_shape(loaded))


def data_file(name: str, *, data: str | os.PathLike[str] | None = None, download: bool = True) -> Path:
    """The file of a set, downloaded if need be.

    Parameters
    ----------
    name, data, download
        As in :func:`load`.
    """
    folder = data_folder(data)
    path = folder / name / f"{name}.tsv.gz"
    if path.is_file():
        return path
    partial = folder.parent / "pmlb_partial" / name / f"{name}.tsv.gz"
    if name == "poker" and partial.is_file():
        return partial
    return _fetch(name, folder, download)


def _fetch(name: str, folder: Path, download: bool) -> Path:
    """Let pmlb download the set into the folder."""
    path = folder / name / f"{name}.tsv.gz"
    if known_set(name) is None:
        hint = near_name(name, (s.name for s in paper_sets()))
        nowhere = f"there is no set {name!r} in {folder} nor among the 68 of the paper"
        raise DatasetError("; ".join(filter(None, [nowhere, hint])))
    advice = (
        f"the set {name!r} is not in {folder}. Put it there as {name}/{name}.tsv.gz (from "
        "https://github.com/EpistasisLab/pmlb, folder datasets), name another folder with "
        f"--data, data= or {DATA_VARIABLE}, or pip install pmlb on a machine with a network, "
        "which downloads it"
    )
    if not download:
        raise DatasetError(advice)
    try:
        pmlb = import_module("pmlb")
    except ImportError as error:
        raise DatasetError(advice) from error
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what pandas says to the authors of pmlb
            pmlb.fetch_data(name, local_cache_dir=str(folder))
    except Exception as error:  # whatever pandas and urllib make of a missing network
        path.unlink(missing_ok=True)  # perhaps half-written
        raise DatasetError(
            f"{advice}. The pmlb package could not: {type(error).__name__}: {error}"
        ) from error
    return path


def _other_shape(loaded: Dataset) -> str:
    """A note if the rows are not those that the paper had."""
    known = known_set(loaded.name)
    if known is None:
        return "not one of the 68 sets of the paper"
    found = (*loaded.X.shape, len(set(loaded.y.tolist())))
    if found == known[1:]:
        return ""
    return (
        f"not the {loaded.name} of 2018: {found[0]} rows, {found[1]} features, {found[2]} classes instead of "
        f"{known.rows}, {known.features}, {known.classes}"
    )


def read_tsv(path: Path) -> Columns:
    """Read a set's file: gzipped, tab-separated numbers with a header and a column ``target``."""
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
