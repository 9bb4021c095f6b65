"""Adversarial images: attacks on networks, and detectors of them (extra ``adversarial``).

Public: a network as attacks see it (``ImageModel``, ``ArtClassifier``), attacks, scores of
images, detectors, and how to measure these. Only what subclasses a class of
adversarial-robustness-toolbox, ``ArtClassifier`` and the detectors, needs that package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._lazy import lazy_package

if TYPE_CHECKING:
    from bayesvm.adversarial._attack import AdaptiveAttack as AdaptiveAttack
    from bayesvm.adversarial._attack import SqueezingAwareAttack as SqueezingAwareAttack
    from bayesvm.adversarial._attack import fgsm as fgsm
    from bayesvm.adversarial._attack import gradient_signs as gradient_signs
    from bayesvm.adversarial._attack import pgd as pgd
    from bayesvm.adversarial._attack import roughness as roughness
    from bayesvm.adversarial._attack import step_along as step_along
    from bayesvm.adversarial._detector import CombinedDetector as CombinedDetector
    from bayesvm.adversarial._detector import ScoreDetector as ScoreDetector
    from bayesvm.adversarial._estimator import ArtClassifier as ArtClassifier
    from bayesvm.adversarial._evaluate import random_signs as random_signs
    from bayesvm.adversarial._evaluate import roc_auc as roc_auc
    from bayesvm.adversarial._evaluate import tpr_at_fpr as tpr_at_fpr
    from bayesvm.adversarial._model import ImageModel as ImageModel
    from bayesvm.adversarial._scores import SCORES as SCORES
    from bayesvm.adversarial._scores import SQUEEZING as SQUEEZING
    from bayesvm.adversarial._scores import score_images as score_images
else:
    __all__, __getattr__, __dir__ = lazy_package(
        __name__,
        {
            "_attack": [
                "AdaptiveAttack",
                "SqueezingAwareAttack",
                "fgsm",
                "gradient_signs",
                "pgd",
                "roughness",
                "step_along",
            ],
            "_detector": ["CombinedDetector", "ScoreDetector"],
            "_estimator": ["ArtClassifier"],
            "_evaluate": ["random_signs", "roc_auc", "tpr_at_fpr"],
            "_model": ["ImageModel"],
            "_scores": ["SCORES", "SQUEEZING", "score_images"],
        },
        extra="adversarial",
    )
