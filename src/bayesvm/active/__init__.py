"""Active learning: which rows to label next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._lazy import lazy_names

if TYPE_CHECKING:
    from bayesvm.active._learner import ActiveLearner
    from bayesvm.active._policies import (
        POLICIES,
        BatchVariationRatio,
        Margin,
        MutualInformation,
        PredictiveEntropy,
        Random,
        SoftmaxEntropy,
        VariationRatio,
    )
    from bayesvm.active._rules import RULES
    from bayesvm.active._scores import (
        entropy_scores,
        margin_scores,
        mutual_information_scores,
        softmax_entropy_scores,
        variation_ratio_scores,
        vote_scores,
    )
    from bayesvm.active._shortlist import top_by_variation_ratio

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
    "POLICIES": "_policies",
    "RULES": "_rules",
    "ActiveLearner": "_learner",
    "BatchVariationRatio": "_policies",
    "Margin": "_policies",
    "MutualInformation": "_policies",
    "PredictiveEntropy": "_policies",
    "Random": "_policies",
    "SoftmaxEntropy": "_policies",
    "VariationRatio": "_policies",
    "entropy_scores": "_scores",
    "margin_scores": "_scores",
    "mutual_information_scores": "_scores",
    "softmax_entropy_scores": "_scores",
    "top_by_variation_ratio": "_shortlist",
    "variation_ratio_scores": "_scores",
    "vote_scores": "_scores",
}

__getattr__, __dir__ = lazy_names(globals(), _HOME)
