"""Data sets: the 68 PMLB sets of the paper, image sets and corruptions of images, published results.

numpy is imported when a name that needs it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._lazy import lazy_package

if TYPE_CHECKING:
    from bayesvm_studies.datasets.catalogue import (
        CITATION as CITATION,
    )
    from bayesvm_studies.datasets.catalogue import (
        DatasetError as DatasetError,
    )
    from bayesvm_studies.datasets.catalogue import (
        SetInfo as SetInfo,
    )
    from bayesvm_studies.datasets.catalogue import (
        data_folder as data_folder,
    )
    from bayesvm_studies.datasets.catalogue import (
        equal_sets as equal_sets,
    )
    from bayesvm_studies.datasets.catalogue import (
        find_set as find_set,
    )
    from bayesvm_studies.datasets.catalogue import (
        fully_published as fully_published,
    )
    from bayesvm_studies.datasets.catalogue import (
        image_folder as image_folder,
    )
    from bayesvm_studies.datasets.catalogue import (
        known_set as known_set,
    )
    from bayesvm_studies.datasets.catalogue import (
        paper_sets as paper_sets,
    )
    from bayesvm_studies.datasets.catalogue import (
        published_accuracies as published_accuracies,
    )
    from bayesvm_studies.datasets.catalogue import (
        two_class_sets as two_class_sets,
    )
    from bayesvm_studies.datasets.corruptions import CORRUPTIONS as CORRUPTIONS
    from bayesvm_studies.datasets.corruptions import corrupt as corrupt
    from bayesvm_studies.datasets.images import IMAGE_SETS as IMAGE_SETS
    from bayesvm_studies.datasets.images import ImageSet as ImageSet
    from bayesvm_studies.datasets.images import load_images as load_images
    from bayesvm_studies.datasets.pmlb import Dataset as Dataset
    from bayesvm_studies.datasets.pmlb import data_file as data_file
    from bayesvm_studies.datasets.pmlb import load as load
    from bayesvm_studies.datasets.poker import poker_hand as poker_hand
else:
    __all__, __getattr__, __dir__ = lazy_package(
        __name__,
        {
            "catalogue": [
                "CITATION",
                "DatasetError",
                "SetInfo",
                "data_folder",
                "equal_sets",
                "find_set",
                "fully_published",
                "image_folder",
                "known_set",
                "paper_sets",
                "published_accuracies",
                "two_class_sets",
            ],
            "corruptions": ["CORRUPTIONS", "corrupt"],
            "images": ["IMAGE_SETS", "ImageSet", "load_images"],
            "pmlb": ["Dataset", "data_file", "load"],
            "poker": ["poker_hand"],
        },
    )
