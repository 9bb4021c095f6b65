"""One data set, the whole family: what the models agree on and what each of them adds."""

import time

import numpy as np
from sklearn.datasets import load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from bayesvm import BayesianSVC, LinearBayesianSVC, OneVsRestBayesianSVC, SVGPClassifier


def main() -> None:
    X, y = load_wine(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
    models = {
        "multi-class": BayesianSVC(random_state=0),
        "its mode, the SVM": BayesianSVC(inference="ecm", random_state=0),
        "one against the rest": OneVsRestBayesianSVC(random_state=0),
        "SVGP, softmax": SVGPClassifier(random_state=0),
        "linear": LinearBayesianSVC(random_state=0),
    }
    print(f"{'':<22}{'accuracy':>10}{'log-loss':>10}{'estimated':>10}{'seconds':>10}")
    for name, model in models.items():
        start = time.perf_counter()
        model.fit(X_train, y_train)
        seconds = time.perf_counter() - start
        loss = log_loss(y_test, model.predict_proba(X_test))
        print(
            f"{name:<22}{model.score(X_test, y_test):>10.3f}{loss:>10.3f}{model.loo_log_loss_:>10.3f}"
            f"{seconds:>10.2f}"
        )

    print(f"\nThe mode is within {models['its mode, the SVM'].duality_gap_:.0e} of the best, certified.")

    linear = models["linear"]
    lower, upper = linear.coef_interval(0.9)
    sure = (lower > 0) | (upper < 0)
    names = np.array(load_wine().feature_names)
    for label, row in zip(linear.classes_, sure, strict=True):
        print(f"class {label}: weights surely not zero: {', '.join(names[row]) or 'none'}")


if __name__ == "__main__":
    main()
