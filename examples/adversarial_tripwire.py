"""A tripwire in front of a classifier: attacks, detectors, and an attacker who knows them.

A small network with a Bayesian SVM as its last layer reads scikit-learn's
digits. It is attacked by adversarial-robustness-toolbox and by an attack that
also lowers the score; two detectors keep a false-alarm rate of 5 %.
"""

from __future__ import annotations

import numpy as np
from art.attacks.evasion import FastGradientMethod, ProjectedGradientDescent
from sklearn.datasets import load_digits
from torch import nn

from bayesvm.adversarial import AdaptiveAttack, ArtClassifier, CombinedDetector, ScoreDetector, roc_auc
from bayesvm.nn import HybridClassifier


def network() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(512, 32), nn.ReLU()),
    )


def main() -> None:
    X, y = load_digits(return_X_y=True)
    X = (X / 16.0).astype(np.float32).reshape(-1, 1, 8, 8)
    order = np.random.default_rng(0).permutation(len(y))
    train, held, test = order[:900], order[900:1300], order[1300:1600]
    model = HybridClassifier(network, n_inducing=20, epochs=15, random_state=0, device="cpu")
    classifier = ArtClassifier.from_hybrid(model.fit(X[train], y[train]), input_shape=(1, 8, 8))

    # One needs clean images only; the other learns from attacks on training images, at other strengths.
    tripwire = ScoreDetector(classifier, "log_variation_ratio", false_positive_rate=0.05)
    tripwire.fit(X[held])
    alarm = CombinedDetector(classifier, strengths=(0.05, 0.15, 0.25), false_positive_rate=0.05)
    alarm.fit(X[train], y[train], batch_size=900)
    alarm.calibrate(X[held])
    detectors = {"log variation ratio": tripwire, "all scores": alarm}

    accuracy = (classifier.classes(X[test]) == y[test]).mean()
    print(f"clean: accuracy {accuracy:.3f}; ", end="")
    rates = [f"{name} {detector.detect(X[test])[1].mean():.3f}" for name, detector in detectors.items()]
    print(f"false alarms: {', '.join(rates)}\n")
    print(f"{'attack':24}{'accuracy':>9}", *(f"{name + ': area':>26}{'caught':>8}" for name in detectors))
    for eps in (0.1, 0.2):
        pgd = {"eps_step": eps / 8, "max_iter": 20, "batch_size": 512, "verbose": False}
        attacks = {
            "FGSM": FastGradientMethod(classifier, eps=eps, batch_size=512),
            "PGD": ProjectedGradientDescent(classifier, eps=eps, **pgd),
            "adaptive": AdaptiveAttack(classifier, eps, score="log_variation_ratio", n_steps=20),
            "mimic": AdaptiveAttack(classifier, eps, score="mimic", n_steps=20),
        }
        for name, attack in attacks.items():
            attacked = attack.generate(X[test], y[test])
            columns = []
            for detector in detectors.values():
                area = roc_auc(detector.suspicion(X[test]), detector.suspicion(attacked))
                columns.append(f"{area:26.3f}{detector.detect(attacked)[1].mean():8.2f}")
            accuracy = (classifier.classes(attacked) == y[test]).mean()
            print(f"{name + f', eps {eps}':24}{accuracy:9.3f}", *columns)


if __name__ == "__main__":
    main()
