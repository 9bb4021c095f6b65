"""Rows that are never all in memory: a folder of Parquet files, a generator, and a stream that drifts.

A fit reads the rows chunk by chunk, as often as it needs sums over them. The
same rows give the same model, wherever they come from. A stream whose law
drifts is followed by a model that forgets.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bayesvm import BayesianSVC

Batch = tuple[np.ndarray, np.ndarray]


def batch(number: int, angle: float = 0.0, n: int = 500) -> Batch:
    """Rows of three classes, sectors of the plane turned by an angle."""
    X = np.random.default_rng(number).normal(size=(n, 2))
    turn = (np.arctan2(X[:, 1], X[:, 0]) - angle) % (2 * np.pi)
    return X, np.floor(turn / (2 * np.pi / 3)).astype(int)


def generated() -> Iterator[Batch]:
    """Eight batches, one after the other."""
    for number in range(8):
        yield batch(number)


def main() -> None:
    X_new, y_new = batch(100)

    with tempfile.TemporaryDirectory() as name:
        for number, (X, y) in enumerate(generated()):
            pq.write_table(
                pa.table({"a": X[:, 0], "b": X[:, 1], "sector": y}), Path(name) / f"{number}.parquet"
            )
        files = BayesianSVC(n_inducing=64, random_state=0).fit(name, "sector")
    once = BayesianSVC(n_inducing=64, random_state=0).fit(generated())
    named = pd.DataFrame(X_new, columns=["a", "b"])
    apart = np.abs(files.predict_proba(named) - once.predict_proba(X_new)).max()
    print(
        f"fitted to files: accuracy {files.score(named, y_new):.3f}, columns {list(files.feature_names_in_)}"
    )
    print(f"fitted to a generator: differs by {apart:.0e}")

    print("\na stream whose sectors turn by 15 degrees with every batch")
    print(f"{'batch':>6}{'remembers all':>15}{'forgets a third':>17}")
    models = {
        share: BayesianSVC(n_inducing=64, hyperparameters="fixed", random_state=0) for share in (0.0, 1 / 3)
    }
    for number in range(12):
        angle = np.deg2rad(15 * number)
        X, y = batch(number, angle)
        X_new, y_new = batch(200 + number, angle)
        scores = []
        for share, model in models.items():
            model.partial_fit(X, y, classes=[0, 1, 2], forgetting=share)
            scores.append(model.score(X_new, y_new))
        print(f"{number:>6}{scores[0]:>15.3f}{scores[1]:>17.3f}")


if __name__ == "__main__":
    main()
