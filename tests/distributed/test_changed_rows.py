"""Blocks that give other rows each time they are computed are noticed on many workers too."""

import dask
import dask.array as da
import numpy as np
import pytest

from bayesvm import BayesianSVC
from bayesvm._fit import defaults
from bayesvm._fit.fitting import fit_chunks
from bayesvm.distributed._engine import DaskEngine
from bayesvm.distributed._inputs import as_groups

N = 2000


@pytest.mark.parametrize("changes", [True, False])
def test_blocks_that_change_between_passes_are_refused(monkeypatch, changes):
    monkeypatch.setattr(defaults, "IN_MEMORY_ROWS", 1000)
    X = np.random.default_rng(0).normal(size=(N, 3))
    y = (X[:, 0] > X[:, 1]).astype(int)
    calls = iter(range(1, 1000))

    def impure(block):
        return block + 1e-9 * next(calls) if changes else block

    rows = da.from_array(X, chunks=(500, 3)).map_blocks(impure, dtype=float, meta=np.empty((0, 0)))
    groups = as_groups(rows, da.from_array(y, chunks=500), None)
    estimator = BayesianSVC(15, kernel="rbf", hyperparameters="fixed", random_state=0)
    with dask.config.set(scheduler="synchronous"):
        engine = DaskEngine(groups.tasks, groups.n_features, groups.feature_names)
        if not changes:
            fit_chunks(estimator, engine)
            assert estimator.score(X, y) > 0.9
            return
        with pytest.raises(ValueError, match="rows changed between two passes: values or labels"):
            fit_chunks(estimator, engine)
