"""Leave-one-out and probabilities where classes have few rows (eq. 5.8)."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from bayesvm import BayesianSVC
from bayesvm._core.gaussian import Natural
from bayesvm._core.likelihoods import MulticlassHinge
from bayesvm._fit.leave_one_out import leave_one_out, short_classes
from bayesvm._inference import coordinate
from bayesvm._inference.rivals import AllRivals, OneRival
from bayesvm._progress import silent
from tests.problems import all_features, classification_rows
from tests.reference import gaussian_from_sites


def _fitted(labels, rule, n_sweeps=30):
    y = torch.as_tensor(labels)
    rows = replace(classification_rows(len(y), int(y.max()) + 1, 6, seed=3), y=y)
    base = Natural.prior(rows.n_classes, rows.Lz)
    return rows, coordinate.ascend(rows, rule, base, base, n_sweeps, 0.0, silent)


@pytest.mark.parametrize("rule", [AllRivals(MulticlassHinge()), OneRival(True, 0)])
def test_rivals_are_without_one_of_their_rows_on_average(rule):
    """Against taking the own site of each row of a class away, one at a time."""
    rows, ascent = _fitted(np.repeat(np.arange(4), 2), rule)
    A, _ = all_features(rows)
    W, G = (t.clone() for t in ascent.sites.dense(slice(0, len(rows)), 4))
    m_all, _ = gaussian_from_sites(A, W, G)
    without = torch.zeros_like(m_all)
    for i, j in enumerate(rows.y.tolist()):
        W_i, G_i = W.clone(), G.clone()
        W_i[i, j] = G_i[i, j] = 0.0
        without[j] += gaussian_from_sites(A, W_i, G_i)[0][j] / 2
    plain = leave_one_out(rows, ascent)
    loo = leave_one_out(rows, ascent, None, short_classes(rows, ascent))
    assert torch.equal(loo.s2, plain.s2)
    change = A @ (without - m_all).mT
    own = torch.nn.functional.one_hot(rows.y, 4).bool()
    # Removing a row also removes what it says against its rivals: both are in the plain cavity.
    torch.testing.assert_close((loo.F - plain.F)[0], torch.where(own, 0.0, change), atol=1e-7, rtol=0)
    assert float(change.abs().max()) > 0.05


def test_rows_of_large_classes_stay_as_they_are():
    rows, ascent = _fitted([0] * 6 + [1] * 2 + [2] * 2 + [3] * 2 + [4] * 2, AllRivals(MulticlassHinge()))
    short = short_classes(rows, ascent)
    plain, loo = leave_one_out(rows, ascent), leave_one_out(rows, ascent, None, short)
    assert torch.equal(loo.F[0, :6], plain.F[0, :6])
    assert bool((loo.F[0, 6:, 0] < plain.F[0, 6:, 0]).any())


@pytest.mark.parametrize("last", [2, 3])
def test_a_few_short_classes_among_larger_ones_change_nothing(last):
    rows, ascent = _fitted([0] * 6 + [1] * 6 + [2] * last, AllRivals(MulticlassHinge()))
    assert short_classes(rows, ascent) is None


def test_weights_count_as_rows():
    rows, ascent = _fitted([0, 0, 1, 1], AllRivals(MulticlassHinge()))
    assert short_classes(rows, ascent) is not None
    assert short_classes(replace(rows, weight=2.0 * rows.weight), ascent) is None


@pytest.mark.parametrize("per_class", [2, 3, 5])
def test_probabilities_keep_what_the_latents_know(per_class):
    """With two rows each, leave-one-out used to be wrong for all rows, and the probabilities flat."""
    C = 120
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.standard_normal((C, 20))
    y, y_new = np.repeat(np.arange(C), per_class), rng.integers(C, size=600)
    X = centres[y] + rng.standard_normal((len(y), 20))
    X_new = centres[y_new] + rng.standard_normal((600, 20))
    model = BayesianSVC(n_inducing=64, kernel="rbf+anova", rivals="sampled", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    proba = model.predict_proba(X_new)
    known = np.mean(model.predict_latent(X_new)[0].argmax(1) == y_new)
    assert known > 0.8
    assert np.mean(proba.argmax(1) == y_new) > known - 0.02
    log_loss = -np.log(proba[np.arange(600), y_new]).mean()
    assert np.isfinite(proba).all()
    assert log_loss < 0.3 * np.log(C)
    assert model.loo_score_ > 0.3
    assert model.loo_log_loss_ < 0.6 * np.log(C)
