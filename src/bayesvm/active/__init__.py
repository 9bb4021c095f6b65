"""Active learning: which rows to label next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm.lazy import lazy_names

if TYPE_CHECKING:
    from bayesvm.active.learner import ActiveLearner
    from bayesvm.active.policies import (
        POLICIES,
        BatchVariationRatio,
        Margin,
        MutualInformation,
        PredictiveEntropy,
        Random,
        SoftmaxEntropy,
        VariationRatio,
    )
    from bayesvm.active.rules import RULES
    from bayesvm.active.scores import (
        entropy_scores,
        margin_scores,
        mutual_information_scores,
        softmax_entropy_scores,
        variation_ratio_scores,
        vote_scores,
    )
    from bayesvm.active.shortlist import top_by_variation_ratio

__all__ = [
    "POLICIES",
    "RULES",
    "ActiveLearner",
    "BatchVariationRatio",
    "Margin",
    "MutualInformation",
    "PredictiveEntropy",
    "Random",
    "SoftmaxEntropy",
    "VariationRatio",
    "entropy_scores",
    "margin_scores",
    "mutual_information_scores",
    "softmax_entropy_scores",
    "top_by_variation_ratio",
    "variation_ratio_scores",
    "vote_scores",
]

# Names come when they are used: the learner does without scikit-activeml.
_HOME = {
    "POLICIES": "policies",
    "RULES": "rules",
    "ActiveLearner": "learner",
    "BatchVariationRatio": "policies",
    "Margin": "policies",
    "MutualInformation": "policies",
    "PredictiveEntropy": "policies",
    "Random": "policies",
    "SoftmaxEntropy": "policies",
    "VariationRatio": "policies",
    "entropy_scores": "scores",
    "margin_scores": "scores",
    "mutual_information_scores": "scores",
    "softmax_entropy_scores": "scores",
    "top_by_variation_ratio": "shortlist",
    "variation_ratio_scores": "scores",
    "vote_scores": "scores",
}

__getattr__, __dir__ = lazy_names(globals(), _HOME)
