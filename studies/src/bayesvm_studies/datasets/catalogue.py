"""What is known without reading data: the 68 sets of the paper, published accuracies, folders.

The sets are all those of PMLB's summary of February 2018 with at least three
classes and 128 rows, without mnist: the paper does not list them, this rule
gives its number. Names are those of today's ``pmlb`` package. Nothing here
needs numpy.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

DATA_VARIABLE = "BAYESVM_DATA"
IMAGES_VARIABLE = "BAYESVM_IMAGES"
CITATION = (
    "R. S. Olson, W. La Cava, Z. Mustahsan, A. Varik, J. H. Moore: Data-driven advice for applying machine "
    "learning to bioinformatics problems. Pacific Symposium on Biocomputing 23 (2018), 192-203. Results: "
    "github.com/EpistasisLab/Aliro, sklearn-benchmark-data-knowledgebase-r6"
)
CLASSIFIERS = ("LR", "SVC", "KNN", "DT", "RF", "GB")


class DatasetError(ValueError):
    """A set that is not there or cannot be used; the message says what to do."""


class SetInfo(NamedTuple):
    """Name and shape of a set."""

    name: str
    rows: int
    features: int
    classes: int


def _table(name: str) -> list[list[str]]:
    """Cells of a table of this package, the header first."""
    text = (files("bayesvm_studies.datasets") / "data" / name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()]


@cache
def _sets(table: str = "paper_sets.tsv") -> tuple[SetInfo, ...]:
    lines = _table(table)[1:]
    return tuple(SetInfo(name, int(rows), int(d), int(classes)) for name, rows, d, classes in lines)


@cache
def _published() -> dict[str, dict[str, float]]:
    head, *lines = _table("published.tsv")
    return {
        name: {column: float(v) for column, v in zip(head[1:], values, strict=True) if v}
        for name, *values in lines
    }


def paper_sets() -> list[SetInfo]:
    """The sets of the paper, the smallest first.

    Examples
    --------
    >>> len(paper_sets()), paper_sets()[-1]
    (68, SetInfo(name='poker', rows=1025009, features=10, classes=10))
    """
    return sorted(_sets(), key=lambda s: (s.rows, s.name))


def find_set(name: str) -> SetInfo | None:
    """The set of that name, or None if the paper has none.

    Examples
    --------
    >>> find_set("iris")
    SetInfo(name='iris', rows=150, features=4, classes=3)
    """
    return next((s for s in _sets() if s.name == name), None)


def two_class_sets() -> list[SetInfo]:
    """Sets of PMLB with two classes, which the paper leaves out; the smallest first.

    Examples
    --------
    >>> [s.name for s in two_class_sets()]
    ['german', 'titanic', 'spambase', 'churn', 'phoneme']
    """
    return sorted(_sets("two_class_sets.tsv"), key=lambda s: (s.rows, s.name))


def known_set(name: str) -> SetInfo | None:
    """The set of that name among those of the paper and those of two classes, or None."""
    return next((s for s in (*_sets(), *two_class_sets()) if s.name == name), None)


def equal_sets() -> dict[str, str]:
    """Sets that PMLB has twice but for the order of rows: the first name by the second."""
    return {"contraceptive": "cmc", "prnn_fglass": "glass"}


def published_accuracies() -> dict[str, dict[str, float]]:
    """Accuracies that Olson et al. (2018) published, by set and classifier.

    ``SVC_best`` is the best of many configurations on that set, chosen on the
    folds it is judged on; ``SVC_single`` is the one configuration with the
    best mean over all sets. Some sets lack some classifiers.

    Examples
    --------
    >>> published_accuracies()["iris"]["SVC_single"]
    0.973
    """
    return {name: dict(values) for name, values in _published().items()}


def fully_published() -> list[str]:
    """Names of the sets that have all six classifiers, both ways.

    Examples
    --------
    >>> len(fully_published())
    63
    """
    return [name for name, values in _published().items() if len(values) == 2 * len(CLASSIFIERS)]


def data_folder(data: str | os.PathLike[str] | None = None) -> Path:
    """The folder of PMLB sets: the one given, else that of BAYESVM_DATA, else one in the user's cache.

    A folder that was named must exist; that of the cache need not yet.

    Parameters
    ----------
    data : str, path-like or None
        Folder with ``<name>/<name>.tsv.gz`` files, the layout of PMLB's
        repository and of the ``local_cache_dir`` of the pmlb package.
    """
    return _folder(data, DATA_VARIABLE, "pmlb")


def image_folder(data: str | os.PathLike[str] | None = None) -> Path:
    """The folder of image sets: the one given, else that of BAYESVM_IMAGES, else one in the user's cache.

    A folder that was named must exist; that of the cache need not yet.

    Parameters
    ----------
    data : str, path-like or None
        Folder that holds the folders of the sets, or the folder of one set.
    """
    return _folder(data, IMAGES_VARIABLE, "images")


def _folder(data: str | os.PathLike[str] | None, variable: str, cached: str) -> Path:
    named = os.fspath(data) if data is not None else os.environ.get(variable)
    if named:
        folder = Path(named).expanduser()
        if not folder.is_dir():
            raise DatasetError(
                f"{'data' if data is not None else variable}: there is no folder {str(folder)!r}"
            )
        return folder
    cache_folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache_folder) / "bayesvm" / cached
