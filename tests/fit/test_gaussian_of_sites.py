"""Leave-one-out of a posterior that gradient steps made: from what its sites make, or not at all."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs

from bayesvm import BayesianSVC, SVGPClassifier, TooFewRowsWarning
from bayesvm._core import gaussian
from bayesvm._core.gaussian import Natural
from bayesvm._core.likelihoods import MulticlassHinge
from bayesvm._fit.leave_one_out import leave_one_out
from bayesvm._inference import adam
from bayesvm._inference.rivals import AllRivals, OneRival
from bayesvm._inference.task import Settings, evaluate
from bayesvm._progress import silent
from tests.problems import classification_rows


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(150, 3, centers=4, cluster_std=3.0, random_state=1)


@pytest.mark.parametrize("rule", [AllRivals(MulticlassHinge()), OneRival(sampled=False)])
def test_leave_one_out_of_adam_is_a_posterior_made_without_the_row(rule):
    rows = classification_rows(30, 3, 5, seed=4)
    base = Natural.prior(3, rows.Lz)
    settings = Settings(rate=0.05, batch_size=30, max_iter=200, tol=-1.0)
    ascent = adam.ascend(rows, rule, base, settings, silent).ascent
    assert ascent.loo_valid
    loo = leave_one_out(rows, ascent)
    A, residual = rows.features(rows.X)
    for n in range(0, 30, 7):
        keep = torch.arange(30) != n
        others = replace(rows, X=rows.X[keep], y=rows.y[keep], weight=rows.weight[keep], key=rows.key[keep])
        _, q = evaluate(others, rule, ascent.q, base, 200).target.posterior(False)
        torch.testing.assert_close(loo.F[0, n], gaussian.mean(q, A[n : n + 1])[0])
        torch.testing.assert_close(loo.s2[0, n], gaussian.variance(q, A[n : n + 1])[0] + residual[n])


def test_adam_predicts_by_the_largest_mean(blobs):
    X, y = blobs
    model = BayesianSVC.paper(n_inducing=20, max_iter=30, random_state=0).fit(X, y)
    F = model.predict_latent(X)[0]
    assert np.array_equal(model.predict(X), model.classes_[F.argmax(1)])
    assert np.array_equal(model.predict_proba(X).argmax(1), F.argmax(1))
    assert not model.mixing_.any()
    assert np.isfinite(model.loo_score_)


def test_a_likelihood_with_probabilities_keeps_them_with_adam(blobs):
    X, y = blobs
    model = SVGPClassifier(20, inference="adam", max_iter=30, tol=0.0, random_state=0).fit(X, y)
    assert not model.model_.pooled


def test_leave_one_out_is_unavailable_where_sites_make_another_posterior(blobs):
    X, y = blobs
    model = BayesianSVC(
        inference="adam",
        rivals="mean",
        hyperparameters="fixed",
        max_iter=3,
        learning_rate=1.0,
        random_state=0,
    )
    with pytest.warns(UserWarning, match="leave-one-out is not available"):
        model.set_params(tol=0.0).fit(X, y)
    assert np.isnan(model.loo_score_)
    assert np.isnan(model.loo_log_loss_)
    assert model.loo_proba_ is None
    with pytest.warns(TooFewRowsWarning, match="there are none, so no row is answered"):
        assert model.abstain(X).all()
    assert np.allclose(model.predict_proba(X).sum(1), 1.0)


@pytest.mark.parametrize("seed", [0, 2])
def test_rows_of_great_weight_do_not_make_leave_one_out_absurd(seed):
    """Rare rows of weight five, labels that are noise: sites still move where q has settled."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(500, 5)), (rng.random(500) < 0.1).astype(int)
    model = BayesianSVC(class_weight="balanced", random_state=0).fit(X, y)
    assert model.loo_log_loss_ < 0.75  # .693 is what can be known; 6.5 and 25.7 were estimated
    assert model.loo_clipped_ == 0.0
    new, label = rng.normal(size=(4000, 5)), rng.integers(0, 2, 4000)
    own = model.predict_proba(new)[np.arange(4000), label]
    assert -np.log(own).mean() < 1.0
    assert abs(model.predict_proba(new).mean(0)[0] - 0.5) < 0.15  # of a population with classes alike
