"""Predictions and leave-one-out from draws, against the same from known Gaussians and from refits."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bayesvm import _prediction
from bayesvm._core.calibration import Calibration, Deviations, fit_calibration
from bayesvm._core.kernels import RBF
from bayesvm._core.likelihoods import BinaryHinge, MulticlassHinge, Probabilities, Softmax
from bayesvm._fit.leave_one_out import leave_one_out, summarise
from bayesvm._fit.rows import Extent, Moments, Scaler
from bayesvm._fit.train import Trained
from bayesvm._inference import gibbs
from bayesvm._inference import slice as elliptical
from bayesvm._model import Model
from bayesvm._prediction import common_part, spread_of_draws
from tests.inference.posteriors import chains_of, moments, task_of
from tests.problems import classification_rows

S = 6000


def _model(n_latents: int, n_classes: int, seed: int, **fields) -> Model:
    """A posterior that is Gaussian, and draws from it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(6, 2))
    scaler: Scaler = Moments.of(Extent.of(X).position(X), np.ones(6)).scaler(Extent.of(X))
    Z = torch.as_tensor(scaler.transform(X))
    kernel = RBF(variance=2.0)
    params = kernel.init(Z)
    Lz = torch.linalg.cholesky(kernel.cross(params, Z, Z))
    m = 1.5 * rng.normal(size=(n_latents, 6))
    root = np.tril(0.3 * rng.normal(size=(n_latents, 6, 6)), -1) + 2.0 * np.eye(6)
    noise = rng.normal(size=(S, n_latents, 6))
    draws = m + np.stack([np.linalg.solve(root[j].T, noise[:, j].T).T for j in range(n_latents)], 1)
    gaussian = Model(
        scaler=scaler,
        kernel=kernel,
        params={k: v.numpy() for k, v in params.items()},
        Z=Z.numpy(),
        Lz=Lz.numpy(),
        m=m,
        R=root,
        calibration=(Calibration(1.7, 0.5),),
        n_classes=n_classes,
        draws=draws,
    )
    return replace(gaussian, **fields)


def _pair(model: Model):
    """Loaded with draws, and with q alone."""
    return model.on("cpu", torch.float64), replace(model, draws=None).on("cpu", torch.float64)


NEW = np.random.default_rng(9).normal(scale=1.5, size=(40, 2))


@pytest.mark.parametrize(("n_latents", "n_classes"), [(1, 2), (3, 3), (5, 5)])
def test_draws_of_a_gaussian_predict_what_the_gaussian_predicts(n_latents, n_classes):
    drawn, known = _pair(_model(n_latents, n_classes, seed=n_classes))
    p, q = _prediction.proba(drawn, NEW), _prediction.proba(known, NEW)
    np.testing.assert_allclose(p.sum(1), 1.0)
    np.testing.assert_allclose(p, q, atol=0.02)
    for part, whole in zip(
        _prediction.uncertainty(drawn, NEW), _prediction.uncertainty(known, NEW), strict=True
    ):
        np.testing.assert_allclose(part, whole, atol=0.03)
    ratio, exact = _prediction.variation_ratio(drawn, NEW), _prediction.variation_ratio(known, NEW)
    np.testing.assert_allclose(ratio, exact, atol=0.03)
    mean_std = _prediction.map_rows(drawn, NEW, lambda at: (at[0].F, at[0].s2.sqrt()), 1)
    for ours, theirs in zip(
        mean_std, _prediction.map_rows(known, NEW, lambda at: (at[0].F, at[0].s2.sqrt()), 1), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=0.06)


def test_log_ratios_are_finite_and_ordered_where_no_draw_disagrees():
    model = _model(3, 3, seed=1)
    sure = replace(model, m=40.0 * model.m, draws=model.draws + 39.0 * model.m)
    drawn, known = _pair(sure)
    ours, theirs = _prediction.log_variation_ratio(drawn, NEW), _prediction.log_variation_ratio(known, NEW)
    assert np.isfinite(ours).all()
    # Residuals far from the inducing points leave some rows unsure; the others are ordered as by quadrature.
    tail = theirs < np.log(1e-4)
    assert tail.sum() > 5
    np.testing.assert_allclose(ours[tail], theirs[tail], rtol=0.15)
    seen = theirs > np.log(0.05)
    assert seen.any()
    np.testing.assert_allclose(ours[seen], theirs[seen], atol=0.2)


def test_batches_do_not_matter(monkeypatch):
    drawn, _ = _pair(_model(3, 3, seed=2))
    whole = _prediction.proba(drawn, NEW), _prediction.log_variation_ratio(drawn, NEW)
    monkeypatch.setattr(_prediction, "_BLOCK_NUMBERS", 1)
    np.testing.assert_allclose(_prediction.proba(drawn, NEW), whole[0], rtol=1e-12)
    np.testing.assert_allclose(_prediction.log_variation_ratio(drawn, NEW), whole[1], rtol=1e-9)
    np.testing.assert_allclose(_prediction.proba(drawn, NEW[::-1])[::-1], whole[0], rtol=1e-12)


@pytest.mark.parametrize(("n_latents", "n_classes"), [(1, 2), (3, 3)])
def test_samples_of_latents_and_probabilities_have_the_moments_of_the_draws(n_latents, n_classes):
    drawn, _ = _pair(_model(n_latents, n_classes, seed=3))
    f = _prediction.sample_latents(drawn, NEW, 4000, torch.Generator().manual_seed(0))
    F, s = _prediction.map_rows(drawn, NEW, lambda at: (at[0].F, at[0].s2.sqrt()), 1)
    np.testing.assert_allclose(f.mean(0), F, atol=0.1)
    np.testing.assert_allclose(f.std(0), s, rtol=0.08)
    p = _prediction.sample_probabilities(drawn, NEW, 4000, torch.Generator().manual_seed(0))
    np.testing.assert_allclose(p.mean(0), _prediction.proba(drawn, NEW), atol=0.03)


def test_centred_draws_have_the_variances_of_the_functions_they_came_from():
    f = torch.randn(50_000, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    centred = (f - f.mean(2, keepdim=True)).var(0)
    np.testing.assert_allclose(spread_of_draws(centred, True), 1.0, rtol=0.03)
    assert torch.equal(spread_of_draws(centred, False), centred)


def test_the_common_part_of_centred_draws_has_the_variance_that_their_spread_adds():
    draws = torch.as_tensor(_model(3, 3, seed=5).draws) * torch.tensor([[[0.3], [1.0], [2.0]]])
    draws = draws - draws.mean(1, keepdim=True)
    deviations = draws - draws.mean(0)
    A = torch.randn(20, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    variance = torch.einsum("np,sjp->snj", A, deviations).square().mean(0)
    added = spread_of_draws(variance, True) - variance
    u = A @ common_part(deviations, 20_000, torch.Generator().manual_seed(2))
    np.testing.assert_allclose(u.var(1)[:, None].expand(-1, 3), added, rtol=0.06)
    assert float((u.mean(1) / u.std(1)).abs().max()) < 0.03


def test_samples_of_centred_draws_have_the_predicted_spread_and_the_same_differences():
    model = _model(3, 3, seed=7)
    draws = model.draws - model.draws.mean(1, keepdims=True)
    drawn, _ = _pair(replace(model, draws=draws, centred=True))
    f = _prediction.sample_latents(drawn, NEW, 6000, torch.Generator().manual_seed(0))
    mean, std = _prediction.map_rows(drawn, NEW, lambda at: (at[0].F, at[0].s2.sqrt()), 1)
    np.testing.assert_allclose(f.mean(0), mean, atol=0.1)
    np.testing.assert_allclose(f.std(0), std, rtol=0.06)
    plain, _ = _pair(model)
    other = _prediction.sample_latents(plain, NEW, 6000, torch.Generator().manual_seed(0))
    lead, same = f[..., :1] - f[..., 1:], other[..., :1] - other[..., 1:]
    np.testing.assert_allclose(lead.std(0), same.std(0), rtol=0.06)


def test_a_single_draw_says_little_about_the_ratio():
    for n_latents, n_classes in ((1, 2), (3, 3), (8, 8)):
        model = _model(n_latents, n_classes, seed=6)
        lone, _ = _pair(replace(model, draws=model.draws[:1]))
        ratio = _prediction.log_variation_ratio(lone, NEW)
        assert (ratio > np.log(1.0 / 3.0)).all()
        assert (ratio <= np.log(1.0 - 1.0 / n_classes)).all()


class Known:
    """A likelihood with class probabilities of its own."""

    def probabilities(self, F, s2):
        p = torch.softmax(F, 1)
        return Probabilities(p, torch.special.entr(p).sum(1))

    def conditional(self, f):
        return torch.softmax(f, -1)


@pytest.mark.parametrize("n_latents", [1, 3])
def test_a_likelihood_of_its_own_takes_the_place_of_the_calibrated_softmax(n_latents):
    n_classes = max(2, n_latents)
    drawn, known = _pair(_model(n_latents, n_classes, seed=4, likelihood=Known()))
    F = _prediction.map_rows(known, NEW, lambda at: (at[0].F,), 1)[0]
    expected = torch.softmax(torch.as_tensor(F), 1).numpy()
    np.testing.assert_allclose(_prediction.proba(known, NEW), expected)
    total, aleatoric, epistemic = _prediction.uncertainty(known, NEW)
    np.testing.assert_allclose(total, -(expected * np.log(expected)).sum(1))
    np.testing.assert_allclose(aleatoric + epistemic, total)
    f = _prediction.sample_latents(drawn, NEW, 3000, torch.Generator().manual_seed(1))
    by_hand = torch.softmax(torch.as_tensor(f), 2).mean(0).numpy()
    np.testing.assert_allclose(_prediction.proba(drawn, NEW), by_hand, atol=0.03)
    p = _prediction.sample_probabilities(known, NEW, 50, torch.Generator().manual_seed(2))
    np.testing.assert_allclose(p.sum(2), 1.0)


# ---------------------------------------------------------------- leave-one-out

LONG = {"max_iter": 3000, "n_draws": 1000, "n_chains": 8}


@pytest.mark.parametrize("group", [None, torch.arange(20) // 2], ids=["rows", "pairs"])
@pytest.mark.parametrize("fitc", [True, False])
def test_weighted_draws_are_those_of_chains_without_the_row(fitc, group):
    """Or without one of two equal rows, or without its pair."""
    weight = torch.tensor([1.0, 2.0, 0.5, 1.1] * 5, dtype=torch.float64)
    unit = weight.where(weight != 2.0, 1.0)
    if group is not None:
        weight = unit = 0.3 * weight
    rows = classification_rows(20, 2, 6, seed=0, weight=weight, unit=unit, group=group)
    ascent = gibbs.METHOD.run(task_of(rows, BinaryHinge(), 1, fitc=fitc, **LONG), lambda s: False).ascent
    loo = leave_one_out(rows, ascent)
    assert float(loo.remaining.min()) == 1.0
    for n in (0, 1, 3):
        left = weight.clone()
        gone = n if group is None else group == group[n]
        left[gone] = (weight - unit)[gone].clamp_min(1e-9)
        refit = chains_of(
            gibbs.METHOD, task_of(replace(rows, weight=left), BinaryHinge(), 1, fitc=fitc, **LONG)
        )
        mean, sd = moments(refit)
        variance = sd[n, 0] ** 2 + (0.0 if fitc else float(rows.features(rows.X[n : n + 1]).residual))
        # The difference is dealt evenly to two classes.
        assert float(loo.F[0, n, 1]) == pytest.approx(0.5 * mean[n, 0], abs=0.1 * sd[n, 0])
        assert float(loo.s2[0, n, 1]) == pytest.approx(0.5 * variance, rel=0.15)


def test_summary_of_chains_and_of_a_likelihood_of_its_own():
    rows = classification_rows(40, 3, 8, seed=1)
    task = task_of(rows, MulticlassHinge(), 3, fitc=True, max_iter=1500, n_draws=200)
    outcome = elliptical.METHOD.run(task, lambda s: False)
    trained = Trained(rows, outcome.ascent, [], False)
    summary = summarise(trained)
    np.testing.assert_allclose(summary.proba.sum(1), 1.0)
    assert 0.0 <= summary.clipped < 0.2
    # Close to the closed form of the variational fit, which is an approximation of the same.
    closed = summarise(Trained(rows, outcome.ascent._replace(chains=None), [], False))
    assert summary.log_loss == pytest.approx(closed.log_loss, abs=0.1)
    # The temperature suits draws as they are; their moments alone would ask for several times as much.
    assert 0.5 < summary.calibration[0].temperature / closed.calibration[0].temperature < 2.0
    own = summarise(trained, likelihood=Softmax())
    assert own.calibration[0].temperature == 1.0
    assert own.calibration[0].mixing is None
    loo = leave_one_out(rows, outcome.ascent)
    np.testing.assert_allclose(own.proba, Softmax().probabilities(loo.F[0], loo.s2[0]).proba, atol=0.04)
    variational = outcome.ascent._replace(chains=None)
    loo = leave_one_out(rows, variational)
    own = summarise(Trained(rows, variational, [], False), likelihood=Softmax())
    np.testing.assert_allclose(own.proba, Softmax().probabilities(loo.F[0], loo.s2[0]).proba, atol=1e-12)


def test_calibration_of_draws_is_that_of_the_gaussian_they_come_from():
    """Deviations stand where variances do: same temperature and spread, up to sampling."""
    generator = torch.Generator().manual_seed(3)
    F = 1.5 * torch.randn(400, 3, generator=generator, dtype=torch.float64)
    s2 = torch.full((400, 3), 0.5, dtype=torch.float64)
    d = s2.sqrt()[..., None] * torch.randn(400, 3, 512, generator=generator, dtype=torch.float64)
    y = torch.multinomial(torch.softmax(2.0 * (F + d[..., 0]), 1), 1, generator=generator)[:, 0]
    ones = torch.ones(400, dtype=torch.float64)
    by_draws, by_moments = fit_calibration(F, Deviations(d), y, ones), fit_calibration(F, s2, y, ones)
    assert by_draws.temperature == pytest.approx(by_moments.temperature, rel=0.3)
    assert by_draws.spread == by_moments.spread
    np.testing.assert_allclose(by_draws.mixing, by_moments.mixing, atol=0.05)


def test_a_single_draw_still_gives_finite_numbers():
    rows = classification_rows(20, 3, 5, seed=2)
    task = task_of(rows, MulticlassHinge(), 3, fitc=True, max_iter=1, n_draws=5)
    outcome = elliptical.METHOD.run(task, lambda s: False)
    summary = summarise(Trained(rows, outcome.ascent, [], False))
    assert np.isfinite(summary.proba).all()
    assert np.isfinite(summary.log_loss)
