"""The paper's experiment on images: networks, augmentation, and what is made of them.

Nothing heavy is imported before a name of this package is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._lazy import lazy_names

if TYPE_CHECKING:
    from bayesvm_studies.images.augmentation import CropFlipCutout
    from bayesvm_studies.images.heads import SoftmaxHead
    from bayesvm_studies.images.laplace import LastLayerLaplace
    from bayesvm_studies.images.models import Model, load_model
    from bayesvm_studies.images.networks import paper_cifar10, paper_mnist, residual9
    from bayesvm_studies.images.outputs import SoftmaxOutput
    from bayesvm_studies.images.page import save_image_figures, write_image_page
    from bayesvm_studies.images.plan import ImagePlan, ImageSettings, make_image_plan
    from bayesvm_studies.images.run import run_images
    from bayesvm_studies.images.summary import ImageSummary, summarise_images

__all__ = [
    "CropFlipCutout",
    "ImagePlan",
    "ImageSettings",
    "ImageSummary",
    "LastLayerLaplace",
    "Model",
    "SoftmaxHead",
    "SoftmaxOutput",
    "load_model",
    "make_image_plan",
    "paper_cifar10",
    "paper_mnist",
    "residual9",
    "run_images",
    "save_image_figures",
    "summarise_images",
    "write_image_page",
]


_HOME = {
    "CropFlipCutout": "augmentation",
    "ImagePlan": "plan",
    "ImageSettings": "plan",
    "ImageSummary": "summary",
    "LastLayerLaplace": "laplace",
    "Model": "models",
    "SoftmaxHead": "heads",
    "SoftmaxOutput": "outputs",
    "load_model": "models",
    "make_image_plan": "plan",
    "paper_cifar10": "networks",
    "paper_mnist": "networks",
    "residual9": "networks",
    "run_images": "run",
    "save_image_figures": "page",
    "summarise_images": "summary",
    "write_image_page": "page",
}

__getattr__, __dir__ = lazy_names(globals(), _HOME)
