"""Adversarial images: attacks on networks, and detectors of them (extra ``adversarial``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._lazy import lazy_names

if TYPE_CHECKING:
    from bayesvm.adversarial._attack import AdaptiveAttack, SqueezingAwareAttack, fgsm, pgd, roughness
    from bayesvm.adversarial._detector import CombinedDetector, ScoreDetector
    from bayesvm.adversarial._estimator import ArtClassifier
    from bayesvm.adversarial._evaluate import random_signs, roc_auc, tpr_at_fpr
    from bayesvm.adversarial._model import ImageModel, MixtureOutput, Rows
    from bayesvm.adversarial._scores import SCORES, SQUEEZING, score_images, score_rows

__all__ = [
    "AdaptiveAttack",
    "ArtClassifier",
    "CombinedDetector",
    "ImageModel",
    "MixtureOutput",
    "Rows",
    "SCORES",
    "SQUEEZING",
    "ScoreDetector",
    "SqueezingAwareAttack",
    "fgsm",
    "pgd",
    "random_signs",
    "roc_auc",
    "roughness",
    "score_images",
    "score_rows",
    "tpr_at_fpr",
]

# Names come when they are used: scores and attacks do without the toolbox.
_HOME = {
    "AdaptiveAttack": "bayesvm.adversarial._attack",
    "ArtClassifier": "bayesvm.adversarial._estimator",
    "CombinedDetector": "bayesvm.adversarial._detector",
    "ImageModel": "bayesvm.adversarial._model",
    "MixtureOutput": "bayesvm.adversarial._model",
    "Rows": "bayesvm.adversarial._model",
    "SCORES": "bayesvm.adversarial._scores",
    "SQUEEZING": "bayesvm.adversarial._scores",
    "ScoreDetector": "bayesvm.adversarial._detector",
    "SqueezingAwareAttack": "bayesvm.adversarial._attack",
    "fgsm": "bayesvm.adversarial._attack",
    "pgd": "bayesvm.adversarial._attack",
    "random_signs": "bayesvm.adversarial._evaluate",
    "roc_auc": "bayesvm.adversarial._evaluate",
    "roughness": "bayesvm.adversarial._attack",
    "score_images": "bayesvm.adversarial._scores",
    "score_rows": "bayesvm.adversarial._scores",
    "tpr_at_fpr": "bayesvm.adversarial._evaluate",
}

__getattr__, __dir__ = lazy_names(globals(), _HOME)
