"""A stream of rows: ``partial_fit`` learns each batch and forgets none of the earlier ones.

The digits arrive in batches that are then thrown away. Worse, the second half
of the stream contains no zeros to four at all; what the first half taught
about them stays in the posterior.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from bayesvm import BayesianSVC


def main() -> None:
    X, y = load_digits(return_X_y=True)
    X = PCA(12, random_state=0).fit_transform(X)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)

    # First a mixed half, then only the digits from five up.
    half = len(y_train) // 2
    late = half + np.flatnonzero(y_train[half:] >= 5)
    batches = [*np.array_split(np.arange(half), 3), *np.array_split(late, 2)]

    old, new = y_test < 5, y_test >= 5
    model = BayesianSVC(n_inducing=100, random_state=0)
    print(f"{'rows seen':>10}{'digits':>8}{'accuracy on 0-4':>17}{'on 5-9':>8}")
    seen = 0
    for batch in batches:
        model.partial_fit(X_train[batch], y_train[batch], classes=np.arange(10) if seen == 0 else None)
        seen += len(batch)
        right = model.predict(X_test) == y_test
        digits = f"{y_train[batch].min()}-{y_train[batch].max()}"
        print(f"{seen:>10}{digits:>8}{right[old].mean():>17.3f}{right[new].mean():>8.3f}")

    rows = np.concatenate(batches)
    right = (
        BayesianSVC(n_inducing=100, random_state=0).fit(X_train[rows], y_train[rows]).predict(X_test)
        == y_test
    )
    print(f"{'at once':>10}{'':>8}{right[old].mean():>17.3f}{right[new].mean():>8.3f}")


if __name__ == "__main__":
    main()
