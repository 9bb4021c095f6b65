"""From a fitted model to a service: compile, save, load where only numpy is, predict row by row.

The second half runs in a process of its own, as a service would. It never
imports torch or scikit-learn.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from bayesvm import BayesianSVC

SERVICE = """
import json, sys
from bayesvm import CompiledPredictor

predictor = CompiledPredictor.load(sys.argv[1])
for line in sys.stdin:                          # one row after the other, as they come
    p = predictor.predict_proba_one(json.loads(line))
    print(json.dumps({"digit": int(predictor.classes_[p.argmax()]), "probability": round(float(p.max()), 3)}))
print("torch was imported:", "torch" in sys.modules)
"""


def milliseconds(call: Callable[[np.ndarray], object], rows: np.ndarray) -> float:
    """The least time of a call for one row."""
    seconds = []
    for row in rows:
        start = time.perf_counter()
        call(row)
        seconds.append(time.perf_counter() - start)
    return 1e3 * min(seconds)


def main() -> None:
    X, y = load_digits(return_X_y=True)
    X = PCA(20, random_state=0).fit_transform(X)
    X_train, X_test, y_train, _ = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
    model = BayesianSVC(n_inducing=128, random_state=0).fit(X_train, y_train)

    predictor = model.compile_predictor()
    difference = np.abs(predictor.predict_proba(X_test) - model.predict_proba(X_test)).max()
    print(f"largest difference of a probability: {difference:.1e} in {predictor.dtype}")
    print(f"one row, estimator: {milliseconds(lambda x: model.predict_proba(x[None]), X_test):.2f} ms")
    print(f"one row, compiled:  {milliseconds(predictor.predict_one, X_test):.2f} ms")

    with tempfile.TemporaryDirectory() as folder:
        path = predictor.save(Path(folder) / "digits.npz")
        print(f"the file has {path.stat().st_size / 1e6:.1f} MB; the service answers:")
        rows = "\n".join(str(x.tolist()) for x in X_test[:3])
        done = subprocess.run(
            [sys.executable, "-c", SERVICE, str(path)], input=rows, capture_output=True, text=True, check=True
        )
    print(done.stdout.strip())


if __name__ == "__main__":
    main()
