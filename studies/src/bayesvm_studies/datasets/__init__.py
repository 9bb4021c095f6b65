"""The data sets of the paper: 68 classification sets of PMLB, and what was published about them.

numpy is imported when a name of this package is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._lazy import lazy_names

if TYPE_CHECKING:
    from bayesvm_studies.datasets.catalogue import SetInfo, find_set, paper_sets
    from bayesvm_studies.datasets.dataset import Dataset
    from bayesvm_studies.datasets.errors import DatasetError
    from bayesvm_studies.datasets.loading import data_file, load
    from bayesvm_studies.datasets.places import data_folder
    from bayesvm_studies.datasets.poker_rules import poker_hand
    from bayesvm_studies.datasets.published import CITATION, fully_published, published_accuracies

__all__ = [
    "CITATION",
    "Dataset",
    "DatasetError",
    "SetInfo",
    "data_file",
    "data_folder",
    "find_set",
    "fully_published",
    "load",
    "paper_sets",
    "poker_hand",
    "published_accuracies",
]


_HOME = {
    "CITATION": "published",
    "Dataset": "dataset",
    "DatasetError": "errors",
    "SetInfo": "catalogue",
    "data_file": "loading",
    "data_folder": "places",
    "find_set": "catalogue",
    "fully_published": "published",
    "load": "loading",
    "paper_sets": "catalogue",
    "poker_hand": "poker_rules",
    "published_accuracies": "published",
}

__getattr__, __dir__ = lazy_names(globals(), _HOME)
