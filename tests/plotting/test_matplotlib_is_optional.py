import subprocess
import sys

import pytest

from bayesvm.plotting import TrainingCurveDisplay


def test_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'bayesvm\[plot\]'"):
        TrainingCurveDisplay([1.0, 2.0]).plot()


def test_importing_the_displays_does_not_import_matplotlib():
    code = "import sys, bayesvm, bayesvm.plotting; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unfitted_models_are_refused():
    from sklearn.exceptions import NotFittedError

    from bayesvm import BayesianSVC

    with pytest.raises(NotFittedError):
        TrainingCurveDisplay.from_estimator(BayesianSVC())
