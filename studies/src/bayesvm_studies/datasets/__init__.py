"""Data sets: the 68 PMLB sets of the paper, image sets and corruptions of images, published results.

numpy is imported when a name that needs it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._lazy import lazy_names

if TYPE_CHECKING:
    from bayesvm_studies.datasets.catalogue import (
        CITATION,
        DatasetError,
        SetInfo,
        data_folder,
        find_set,
        fully_published,
        image_folder,
        paper_sets,
        published_accuracies,
    )
    from bayesvm_studies.datasets.corruptions import CORRUPTIONS, corrupt
    from bayesvm_studies.datasets.images import IMAGE_SETS, ImageSet, load_images
    from bayesvm_studies.datasets.pmlb import Dataset, data_file, load
    from bayesvm_studies.datasets.poker import poker_hand

__all__ = [
    "CITATION",
    "CORRUPTIONS",
    "Dataset",
    "DatasetError",
    "IMAGE_SETS",
    "ImageSet",
    "SetInfo",
    "corrupt",
    "data_file",
    "data_folder",
    "find_set",
    "fully_published",
    "image_folder",
    "load",
    "load_images",
    "paper_sets",
    "poker_hand",
    "published_accuracies",
]

_HOME = {
    **dict.fromkeys(("CITATION", "DatasetError", "SetInfo", "data_folder", "find_set"), "catalogue"),
    **dict.fromkeys(("fully_published", "image_folder", "paper_sets", "published_accuracies"), "catalogue"),
    **dict.fromkeys(("CORRUPTIONS", "corrupt"), "corruptions"),
    **dict.fromkeys(("IMAGE_SETS", "ImageSet", "load_images"), "images"),
    **dict.fromkeys(("Dataset", "data_file", "load"), "pmlb"),
    "poker_hand": "poker",
}

__getattr__, __dir__ = lazy_names(globals(), _HOME)
