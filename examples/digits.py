"""Handwritten digits: how good is the model, and does it know how good it is?

Trains on 70 % of scikit-learn's digits and prints, for every figure, the
estimate that closed-form leave-one-out gives without any held-out row beside
the truth on the other 30 %. Saves the model and a picture.

Usage: python examples/digits.py [output folder, default demo-output]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split

import bayesvm
from bayesvm import BayesianSVC
from bayesvm.metrics import expected_calibration_error
from bayesvm.plotting import CoverageDisplay, ReliabilityDisplay

MAX_ERROR = 0.01


def draw(model: BayesianSVC, X: np.ndarray, y: np.ndarray, target: Path) -> None:
    """Reliability, coverage, and the images the model is least sure of."""
    fig = plt.figure(figsize=(9.0, 6.7), layout="constrained")
    top, bottom = fig.subfigures(2, 1, height_ratios=[2.6, 1.0])
    left, right = top.subplots(1, 2)
    ReliabilityDisplay.from_estimator(model, X, y, name="held out", ax=left)
    left.set_title("Is its confidence justified?", loc="left")
    CoverageDisplay.from_estimator(model, X, y, max_error=MAX_ERROR, name="held out", ax=right)
    right.set_title("What if it may abstain?", loc="left")

    bottom.suptitle("The images it is least sure of (orange: its first guess is wrong)", x=0.01, ha="left")
    proba = model.predict_proba(X)
    least_sure = np.argsort(proba.max(1))[:10]
    for ax, row in zip(bottom.subplots(1, 10), least_sure, strict=True):
        first, second = np.argsort(-proba[row])[:2]
        ax.imshow(X[row].reshape(8, 8), cmap="gray_r", interpolation="nearest")
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_color("#BBBBBB")
        guesses = "\n".join(f"{model.classes_[c]}: {proba[row, c]:.0%}" for c in (first, second))
        wrong = model.classes_[first] != y[row]
        ax.set_xlabel(f"{guesses}\nis {y[row]}", fontsize="small", color="#D55E00" if wrong else "#333333")
    fig.savefig(target, dpi=120)
    plt.close(fig)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)

    start = time.perf_counter()
    model = BayesianSVC(random_state=0).fit(X_train, y_train)
    seconds = time.perf_counter() - start
    proba = model.predict_proba(X_test)

    handed_over = model.abstain(X_test, max_error=MAX_ERROR)
    accepted = ~handed_over
    kept = accuracy_score(y_test[accepted], model.predict(X_test)[accepted])

    figures = {
        "accuracy": (model.loo_score_, accuracy_score(y_test, model.predict(X_test))),
        "log-loss": (model.loo_log_loss_, log_loss(y_test, proba)),
        "calibration error": (
            expected_calibration_error(y_train, model.loo_proba_),
            expected_calibration_error(y_test, proba),
        ),
    }
    print(f"digits: fitted {len(y_train)} rows, {len(model.classes_)} classes in {seconds:.1f} s\n")
    print(f"{'':<18}{'leave-one-out':>14}{'held out':>10}")
    for name, (estimate, truth) in figures.items():
        print(f"{name:<18}{estimate:>14.4f}{truth:>10.4f}")
    print(f"\nasked for at most {MAX_ERROR:.0%} error, it answers {accepted.mean():.1%} of the held-out rows")
    print(f"and is right on {kept:.1%} of those; the other {handed_over.sum()} go to a person\n")

    model_file = bayesvm.save(model, folder / "digits.skops")
    picture = folder / "digits.png"
    draw(model, X_test, y_test, picture)
    summary = ", ".join(f"{name} {truth:.4f}" for name, (_, truth) in figures.items())
    print(f"held out: {summary}, fit {seconds:.1f} s")
    print(f"model:    {model_file}")
    print(f"picture:  {picture}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output"))
