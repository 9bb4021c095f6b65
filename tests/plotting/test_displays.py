"""What holds for every display."""

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from bayesvm import BayesianSVC
from bayesvm.plotting import (
    CoverageDisplay,
    DecisionRegionDisplay,
    FeatureRelevanceDisplay,
    ReliabilityDisplay,
    TrainingCurveDisplay,
)

PROBA = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]])
Y = np.array([0, 0, 1, 0])
SQUARE = {
    "x": np.array([0.0, 1.0]),
    "y": np.array([0.0, 1.0]),
    "proba": PROBA.reshape(2, 2, 2),
    "epistemic": np.ones((2, 2)),
    "classes": np.array(["a", "b"]),
}


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: CoverageDisplay.from_predictions(Y, PROBA, ax=ax),
        lambda ax: ReliabilityDisplay.from_predictions(Y, PROBA, ax=ax),
        lambda ax: FeatureRelevanceDisplay([0.5, 0.5]).plot(ax),
        lambda ax: TrainingCurveDisplay([-3.0, -2.0], [-9.0, -5.0, -4.0]).plot(ax),
        lambda ax: DecisionRegionDisplay(**SQUARE).plot(ax),
    ],
    ids=["coverage", "reliability", "relevance", "training", "regions"],
)
def test_draws_into_given_axes(draw):
    figure, axes = plt.subplots(1, 2)
    display = draw(axes[1])
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    assert not axes[0].has_data()
    assert all(panel in axes[1].child_axes for panel in getattr(display, "axes_", []))
    figure.canvas.draw()


def test_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'bayesvm\[plot\]'"):
        TrainingCurveDisplay([1.0, 2.0]).plot()


def test_importing_the_displays_does_not_import_matplotlib():
    code = "import sys, bayesvm, bayesvm.plotting; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unfitted_models_are_refused():
    with pytest.raises(NotFittedError):
        TrainingCurveDisplay.from_estimator(BayesianSVC())
