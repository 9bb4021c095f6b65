"""A network with a Bayesian SVM as its last layer, without writing a loop.

``HybridClassifier`` takes a network without its last layer and does the rest:
rows held out to choose the epoch and to calibrate, checkpoints that survive
a kill, files without code in them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from torch import nn

from bayesvm.metrics import expected_calibration_error
from bayesvm.nn import HybridClassifier


def network() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.LazyLinear(64), nn.ReLU()),
    )


def main() -> None:
    images, y = load_digits(return_X_y=True)
    X = (images / 16.0).reshape(-1, 1, 8, 8)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)

    with tempfile.TemporaryDirectory() as folder:
        # Killed and started again, the same lines go on where they were.
        model = HybridClassifier(network, epochs=20, checkpoint=folder, random_state=0)
        model.fit(X_train, y_train)
        file = model.save(Path(folder) / "digits.safetensors")
        loaded = HybridClassifier.load(file, network)
    assert np.allclose(model.predict_proba(X_test), loaded.predict_proba(X_test))

    best = model.history_[model.best_epoch_ - 1]
    print(f"{len(model.history_)} epochs, the best is number {best.number}: validation log-loss ", end="")
    print(f"{best.validation_log_loss:.4f}, temperature {model.temperature_:.2f}")
    proba = model.predict_proba(X_test)
    print(
        f"held out: accuracy {model.score(X_test, y_test):.4f}, log-loss {log_loss(y_test, proba):.4f}, ",
        end="",
    )
    print(f"calibration error {expected_calibration_error(y_test, proba):.4f}\n")

    doubt = model.log_variation_ratio(X_test)
    wrong = model.predict(X_test) != y_test
    order = np.argsort(-doubt)
    for share in (0.01, 0.05, 0.1):
        handed_over = order[: round(share * len(order))]
        print(f"the {share:.0%} it doubts most hold {wrong[handed_over].sum()} of {wrong.sum()} mistakes")


if __name__ == "__main__":
    main()
