"""Active learning: which rows to label next.

Public: the loop, the labelling of a table by a person, the query policies as
scikit-activeml's strategies (extra ``active``), and the scores that they rank rows by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._lazy import lazy_package

if TYPE_CHECKING:
    from bayesvm.active._labelling import Labelling as Labelling
    from bayesvm.active._learner import ActiveLearner as ActiveLearner
    from bayesvm.active._policies import BatchVariationRatio as BatchVariationRatio
    from bayesvm.active._policies import Margin as Margin
    from bayesvm.active._policies import MutualInformation as MutualInformation
    from bayesvm.active._policies import PredictiveEntropy as PredictiveEntropy
    from bayesvm.active._policies import Random as Random
    from bayesvm.active._policies import SoftmaxEntropy as SoftmaxEntropy
    from bayesvm.active._policies import VariationRatio as VariationRatio
    from bayesvm.active._scores import entropy_scores as entropy_scores
    from bayesvm.active._scores import margin_scores as margin_scores
    from bayesvm.active._scores import mutual_information_scores as mutual_information_scores
    from bayesvm.active._scores import softmax_entropy_scores as softmax_entropy_scores
    from bayesvm.active._scores import variation_ratio_scores as variation_ratio_scores
    from bayesvm.active._scores import vote_scores as vote_scores
else:
    __all__, __getattr__, __dir__ = lazy_package(
        __name__,
        {
            "_labelling": ["Labelling"],
            "_learner": ["ActiveLearner"],
            "_policies": [
                "BatchVariationRatio",
                "Margin",
                "MutualInformation",
                "PredictiveEntropy",
                "Random",
                "SoftmaxEntropy",
                "VariationRatio",
            ],
            "_scores": [
                "entropy_scores",
                "margin_scores",
                "mutual_information_scores",
                "softmax_entropy_scores",
                "variation_ratio_scores",
                "vote_scores",
            ],
        },
    )
