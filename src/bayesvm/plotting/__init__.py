"""Pictures of fitted models, in the style of scikit-learn's displays.

Needs matplotlib (``pip install 'bayesvm[plot]'``), which is imported when a
picture is drawn, not before.
"""

from bayesvm.plotting.coverage import CoverageDisplay
from bayesvm.plotting.decision_region import DecisionRegionDisplay
from bayesvm.plotting.feature_relevance import FeatureRelevanceDisplay
from bayesvm.plotting.reliability import ReliabilityDisplay
from bayesvm.plotting.training_curve import TrainingCurveDisplay

__all__ = [
    "CoverageDisplay",
    "DecisionRegionDisplay",
    "FeatureRelevanceDisplay",
    "ReliabilityDisplay",
    "TrainingCurveDisplay",
]
