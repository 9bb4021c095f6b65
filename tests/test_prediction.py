"""Predictions of many rows at once are those of few."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bayesvm import BayesianSVC, _prediction

from .estimators.data import FAST, problem


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-11), ("float32", 1e-4)])
def test_many_rows_at_once(n_classes, dtype, tolerance):
    """Variances then come from products with inverse factors instead of solves."""
    X, y = problem(n_classes)
    model = BayesianSVC(20, dtype=dtype, local=False, **FAST).fit(X, y)
    many = np.random.default_rng(0).normal(size=(_prediction._ROWS_FOR_ROOTS + 7, X.shape[1]))
    few = np.concatenate([model.predict_proba(part) for part in np.array_split(many, 5)])
    assert_allclose(model.predict_proba(many), few, rtol=0, atol=tolerance)
    mean, std = model.predict_latent(many)
    few_mean, few_std = model.predict_latent(many[:50])
    assert_allclose(mean[:50], few_mean, rtol=0, atol=tolerance)
    assert_allclose(std[:50], few_std, rtol=0, atol=10 * tolerance)
