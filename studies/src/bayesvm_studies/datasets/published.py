"""Accuracies that Olson et al. (2018) published for these sets."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

CITATION = (
    "R. S. Olson, W. La Cava, Z. Mustahsan, A. Varik, J. H. Moore: Data-driven advice for applying machine "
    "learning to bioinformatics problems. Pacific Symposium on Biocomputing 23 (2018), 192-203. Results: "
    "github.com/EpistasisLab/Aliro, sklearn-benchmark-data-knowledgebase-r6"
)
CLASSIFIERS = ("LR", "SVC", "KNN", "DT", "RF", "GB")


@cache
def _read() -> dict[str, dict[str, float]]:
    text = (files("bayesvm_studies.datasets") / "data" / "published.tsv").read_text(encoding="utf-8")
    head, *lines = (line.split("\t") for line in text.splitlines())
    return {
        name: {column: float(v) for column, v in zip(head[1:], values, strict=True) if v}
        for name, *values in lines
    }


def published_accuracies() -> dict[str, dict[str, float]]:
    """Published accuracies by set and classifier.

    ``SVC_best`` is the best of many configurations on that set, chosen on the
    folds it is judged on; ``SVC_single`` is the one configuration with the
    best mean over all sets. Some sets lack some classifiers.

    Examples
    --------
    >>> published_accuracies()["iris"]["SVC_single"]
    0.973
    """
    return {name: dict(values) for name, values in _read().items()}


def fully_published() -> list[str]:
    """Names of the sets that have all six classifiers, both ways.

    Examples
    --------
    >>> len(fully_published())
    63
    """
    return [name for name, values in _read().items() if len(values) == 2 * len(CLASSIFIERS)]
