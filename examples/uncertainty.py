"""Two moons: between the classes data are ambiguous, far away the model is ignorant.

The total uncertainty of a prediction has two parts. The aleatoric one stays
however many rows are collected; the epistemic one is what more rows would
remove, so it is high where there are none. ``abstain`` turns confidence into
a decision: which rows should a person look at?
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_moons

from bayesvm import BayesianSVC


def main() -> None:
    X, y = make_moons(400, noise=0.25, random_state=0)
    model = BayesianSVC(kernel="rbf", random_state=0).fit(X, y)

    places = {
        "inside a moon": [-0.9, 0.4],
        "between the moons": [0.5, 0.25],
        "far from all data": [6.0, -5.0],
    }
    rows = np.array(list(places.values()))
    proba = model.predict_proba(rows).max(1)
    doubt = model.uncertainty(rows)
    print(f"{'':<20}{'confidence':>11}{'aleatoric':>11}{'epistemic':>11}")
    for i, place in enumerate(places):
        print(f"{place:<20}{proba[i]:>11.3f}{doubt.aleatoric[i]:>11.3f}{doubt.epistemic[i]:>11.3f}")

    X_new, y_new = make_moons(2000, noise=0.25, random_state=1)
    wrong = model.predict(X_new) != y_new
    print(f"\n{'asked for':>10}{'answered':>10}{'error':>8}")
    print(f"{'anything':>10}{1:>10.1%}{wrong.mean():>8.1%}")
    for max_error in (0.05, 0.02, 0.01):
        accepted = ~model.abstain(X_new, max_error=max_error)
        # With few rows a very small error cannot be promised: then all are handed over.
        error = wrong[accepted].mean() if accepted.any() else float("nan")
        print(f"{f'<= {max_error:.0%}':>10}{accepted.mean():>10.1%}{error:>8.1%}")


if __name__ == "__main__":
    main()
