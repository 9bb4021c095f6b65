"""Image sets in their published formats: MNIST, Fashion-MNIST and CIFAR-10, and corruptions of images.

numpy is imported when a name of this package is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._lazy import lazy_names

if TYPE_CHECKING:
    from bayesvm_studies.datasets.images.catalogue import IMAGE_SETS
    from bayesvm_studies.datasets.images.corruptions import CORRUPTIONS, corrupt
    from bayesvm_studies.datasets.images.image_set import ImageSet
    from bayesvm_studies.datasets.images.loading import load_images
    from bayesvm_studies.datasets.images.places import image_folder

__all__ = ["CORRUPTIONS", "IMAGE_SETS", "ImageSet", "corrupt", "image_folder", "load_images"]


_HOME = {
    "CORRUPTIONS": "corruptions",
    "IMAGE_SETS": "catalogue",
    "ImageSet": "image_set",
    "corrupt": "corruptions",
    "image_folder": "places",
    "load_images": "loading",
}

__getattr__, __dir__ = lazy_names(globals(), _HOME)
