"""Worker of peers.py: classifiers of scikit-learn, which have one point each: fit time and test score."""

from __future__ import annotations

import time
from typing import Any

from peers_worker import Options, Problem, Recorder, Result, run_worker
from quality import MODELS
from sklearn.calibration import CalibratedClassifierCV
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

__all__ = ["fit"]


def _classifier(name: str, n_features: int) -> Any:
    if name == "gpc":  # one length scale: with ARD its gradients would cost as much again per feature
        kernel = ConstantKernel() * RBF(n_features**0.5)
        return make_pipeline(StandardScaler(), GaussianProcessClassifier(kernel, random_state=0))
    if name == "svc":
        return CalibratedClassifierCV(make_pipeline(StandardScaler(), SVC()))
    return MODELS[name]()


def fit(problem: Problem, options: Options) -> Result:
    """A curve of one point."""
    model = _classifier(options["classifier"], problem.X.shape[1])
    recorder = Recorder(problem)
    start = time.perf_counter()
    model.fit(problem.X, problem.y)
    seconds = time.perf_counter() - start
    recorder.add(seconds, model.predict_proba(problem.X_test))
    return recorder.result()


if __name__ == "__main__":
    run_worker(fit)
