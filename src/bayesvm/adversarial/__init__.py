"""Adversarial images: attacks on networks, and detectors of them (extra ``adversarial``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm.lazy import lazy_names

if TYPE_CHECKING:
    from bayesvm.adversarial.attack import AdaptiveAttack, fgsm, pgd
    from bayesvm.adversarial.combined import CombinedDetector
    from bayesvm.adversarial.detector import ScoreDetector
    from bayesvm.adversarial.estimator import ArtClassifier
    from bayesvm.adversarial.evaluate import random_signs, roc_auc, tpr_at_fpr
    from bayesvm.adversarial.model import ImageModel, Rows
    from bayesvm.adversarial.outputs import MixtureOutput
    from bayesvm.adversarial.pixels import roughness
    from bayesvm.adversarial.scores import SCORES, score_images, score_rows
    from bayesvm.adversarial.squeezing import SQUEEZING
    from bayesvm.adversarial.squeezing_attack import SqueezingAwareAttack

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
    "AdaptiveAttack": "bayesvm.adversarial.attack",
    "ArtClassifier": "bayesvm.adversarial.estimator",
    "CombinedDetector": "bayesvm.adversarial.combined",
    "ImageModel": "bayesvm.adversarial.model",
    "MixtureOutput": "bayesvm.adversarial.outputs",
    "Rows": "bayesvm.adversarial.model",
    "SCORES": "bayesvm.adversarial.scores",
    "SQUEEZING": "bayesvm.adversarial.squeezing",
    "ScoreDetector": "bayesvm.adversarial.detector",
    "SqueezingAwareAttack": "bayesvm.adversarial.squeezing_attack",
    "fgsm": "bayesvm.adversarial.attack",
    "pgd": "bayesvm.adversarial.attack",
    "random_signs": "bayesvm.adversarial.evaluate",
    "roc_auc": "bayesvm.adversarial.evaluate",
    "roughness": "bayesvm.adversarial.pixels",
    "score_images": "bayesvm.adversarial.scores",
    "score_rows": "bayesvm.adversarial.scores",
    "tpr_at_fpr": "bayesvm.adversarial.evaluate",
}

__getattr__, __dir__ = lazy_names(globals(), _HOME)
