"""Pictures of fitted models, in the style of scikit-learn's displays.

Needs matplotlib (``pip install 'bayesvm[plot]'``), which is imported when a
picture is drawn, not before.
"""

from bayesvm.plotting._coverage import CoverageDisplay
from bayesvm.plotting._decision_region import DecisionRegionDisplay
from bayesvm.plotting._feature_relevance import FeatureRelevanceDisplay
from bayesvm.plotting._reliability import ReliabilityDisplay
from bayesvm.plotting._training_curve import TrainingCurveDisplay

__all__ = [
    "CoverageDisplay",
    "DecisionRegionDisplay",
    "FeatureRelevanceDisplay",
    "ReliabilityDisplay",
    "TrainingCurveDisplay",
]
