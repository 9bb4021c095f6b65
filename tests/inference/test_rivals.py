"""Rivals at the mean or in posterior draws (eq. 4.4)."""

import pytest
import torch

from bayesvm._core import gaussian
from bayesvm._core.features import Features
from bayesvm._core.gaussian import Natural
from bayesvm._core.grouping import TiledPairs, Tiles, stable_order
from bayesvm._core.likelihoods import MulticlassHinge, pair_bound
from bayesvm._core.variation_ratio import argmax_probability
from bayesvm._inference import blocks, rivals
from bayesvm._inference.rivals import (
    N_DRAWS,
    AllRivals,
    Draws,
    OneRival,
    _deal,
    _tiled_argmax,
    drawn_argmax,
    mean_argmax,
)
from bayesvm._inference.task import evaluate
from tests.problems import all_features, classification_rows, generator, normal


def _q(rows, J, sweeps=3):
    base = Natural.prior(J, rows.Lz)
    state, q = base.posterior(True)
    for sweep in range(sweeps):
        target = evaluate(rows, AllRivals(MulticlassHinge()), q, base, sweep).target
        state, q = state.towards(target, 0.5).posterior(True)
    return base, q


def test_mean_rival_is_the_largest_other_mean():
    rows = classification_rows(30, 4, 5, seed=0)
    _, q = _q(rows, 4)
    A, _ = all_features(rows)
    rival = mean_argmax(q.m, A, rows.y)
    F = gaussian.mean(q, A)
    for n in range(30):
        others = [j for j in range(4) if j != int(rows.y[n])]
        assert int(rival[n]) == max(others, key=lambda j: float(F[n, j]))


def test_drawn_rivals_depend_on_content_not_on_position_or_company():
    rows = classification_rows(200, 5, 6, seed=1)
    _, q = _q(rows, 5)
    A, residual = all_features(rows)
    draws = Draws.of_factor(*gaussian.roots(q), seed=3, sweep=7)
    whole = drawn_argmax(draws, Features(A, residual), rows.y, rows.key)
    assert bool((whole != rows.y).all())
    order = torch.randperm(200, generator=generator(2))
    shuffled = drawn_argmax(draws, Features(A[order], residual[order]), rows.y[order], rows.key[order])
    assert torch.equal(shuffled, whole[order])
    for chunk in torch.arange(200).split(33):
        part = drawn_argmax(draws, Features(A[chunk], residual[chunk]), rows.y[chunk], rows.key[chunk])
        assert torch.equal(part, whole[chunk])
    other = drawn_argmax(Draws.of_factor(*gaussian.roots(q), 3, 8), Features(A, residual), rows.y, rows.key)
    assert not torch.equal(other, whole)


@pytest.mark.parametrize("n_classes", [5, 80])
def test_an_accelerator_finds_the_same_rivals(n_classes):
    """The way of an accelerator, on this device."""
    rows = classification_rows(500, n_classes, 6, seed=2)
    _, q = _q(rows, n_classes, sweeps=1)
    features = Features(*all_features(rows))
    draws = Draws.of_factor(*gaussian.roots(q), seed=3, sweep=7)
    dealt = _deal(rows.key, 7)
    tiles = Tiles.of(dealt, stable_order(dealt, N_DRAWS), N_DRAWS)
    here = drawn_argmax(draws, features, rows.y, rows.key)
    assert torch.equal(_tiled_argmax(draws, features, rows.y, tiles), here)


@pytest.mark.parametrize("single", [False, True])
def test_tiles_give_the_sums_of_one_product_per_class(single, monkeypatch):
    rows = classification_rows(900, 7, 6, seed=4)
    base, q = _q(rows, 7, sweeps=1)
    rule = OneRival(sampled=True, seed=1, single=single)
    here = evaluate(rows, rule, q, base, 2)
    monkeypatch.setattr(rivals, "grouped_pairs", TiledPairs.of)
    there = evaluate(rows, rule, q, base, 2)
    tolerance = {"rtol": 1e-5, "atol": 1e-4} if single else {"rtol": 1e-11, "atol": 1e-11}
    torch.testing.assert_close(there.target.precision, here.target.precision, **tolerance)
    torch.testing.assert_close(there.target.linear, here.target.linear, **tolerance)
    assert there.value == pytest.approx(here.value, rel=1e-6 if single else 1e-12)


@pytest.mark.parametrize(
    "rule", [OneRival(sampled=True, seed=4), OneRival(sampled=False), AllRivals(MulticlassHinge())]
)
def test_many_blocks_give_the_statistics_of_one(rule, monkeypatch):
    rows = classification_rows(700, 4, 6, seed=3)
    base, q = _q(rows, 4, sweeps=1)
    one = evaluate(rows, rule, q, base, 2)
    monkeypatch.setattr(type(rule), "block_rows", lambda self, q: 1)
    monkeypatch.setattr(blocks, "_CACHE_BYTES", 0)
    again = classification_rows(700, 4, 6, seed=3)
    assert sum(1 for _ in again.blocks(1)) > 1
    many = evaluate(again, rule, q, base, 2)
    assert many.value == pytest.approx(one.value, rel=1e-12)
    torch.testing.assert_close(many.target.precision, one.target.precision)
    torch.testing.assert_close(many.target.linear, one.target.linear)
    torch.testing.assert_close(many.sites.W, one.sites.W)
    torch.testing.assert_close(many.sites.G, one.sites.G)


def test_frequencies_of_drawn_rivals_are_the_probabilities_of_winning():
    rows = classification_rows(16, 4, 5, seed=5)
    _, q = _q(rows, 4)
    A, residual = all_features(rows)
    sweeps, counts = 1500, torch.zeros(16, 4)
    for sweep in range(sweeps):
        rival = drawn_argmax(
            Draws.of_factor(*gaussian.roots(q), 0, sweep), Features(A, residual), rows.y, rows.key
        )
        counts[torch.arange(16), rival] += 1
    F, s2 = gaussian.mean(q, A), gaussian.variance(q, A) + residual[:, None]
    others = torch.stack([torch.tensor([j for j in range(4) if j != int(y)]) for y in rows.y])
    P = argmax_probability(F.gather(1, others), s2.gather(1, others))
    frequency = (counts / sweeps).double().gather(1, others)
    torch.testing.assert_close(frequency, P, atol=4.5 * 0.5 / sweeps**0.5, rtol=0)
    assert float((P > 0.05).double().mean()) > 0.5  # there is something to be right about


def test_draws_have_the_moments_of_q_by_either_factor():
    rows = classification_rows(20, 3, 4, seed=6)
    _, q = _q(rows, 3)
    S = torch.cholesky_inverse(q.R)
    L = torch.linalg.cholesky(S)
    for draw in (
        lambda sweep: Draws.of_factor(*gaussian.roots(q), 1, sweep),
        lambda sweep: Draws.of_factor(q.m, L, 1, sweep),
    ):
        every = [draw(sweep) for sweep in range(400)]
        weights = torch.cat([d.v for d in every])
        v, e = weights[..., :-1], weights[..., -1]
        n = 400 * N_DRAWS
        torch.testing.assert_close(v.mean(0), q.m, atol=5 / n**0.5, rtol=0)
        centred = v - q.m
        sample = torch.einsum("scp,scq->cpq", centred, centred) / n
        torch.testing.assert_close(sample, S, atol=8 / n**0.5, rtol=0)
        assert float(e.mean().abs()) < 0.03
        assert float(e.var()) == pytest.approx(1.0, abs=0.03)


def test_rows_are_dealt_evenly_and_anew_in_every_sweep():
    from bayesvm._inference.rivals import _deal

    key = torch.randint(2**62, (64_000,), generator=generator(8))
    a, b = _deal(key, 1), _deal(key, 2)
    for dealt in (a, b):
        counts = torch.bincount(dealt, minlength=N_DRAWS).double()
        chi2 = float(((counts - 2000.0) ** 2 / 2000.0).sum())
        assert chi2 < 80  # 31 degrees of freedom
    joint = torch.bincount(a * N_DRAWS + b, minlength=N_DRAWS**2).double()
    assert float(((joint - 62.5) ** 2 / 62.5).sum()) < N_DRAWS**2 + 5 * (2.0 * N_DRAWS**2) ** 0.5


def test_one_rival_sites_are_those_of_the_pair_bound():
    rows = classification_rows(30, 4, 5, seed=9)
    base, q = _q(rows, 4)
    A, residual = all_features(rows)
    out = evaluate(rows, OneRival(sampled=False), q, base, 0)
    t = mean_argmax(q.m, A, rows.y)
    index = torch.stack([rows.y, t], 1)
    assert torch.equal(out.sites.classes, index)
    F = gaussian.mean(q, A).gather(1, index)
    s2 = (gaussian.variance(q, A) + residual[:, None]).gather(1, index)
    pair = pair_bound(F, s2)
    W, G = out.sites.dense(slice(0, 30), 4)
    torch.testing.assert_close(W.gather(1, index), pair.W)
    torch.testing.assert_close(G.gather(1, index), pair.slope + pair.W * F)
    assert out.value == pytest.approx(float(pair.value.sum()))
    torch.testing.assert_close(out.target.linear, G.mT @ A)


def test_many_classes_draw_in_single_precision_and_still_avoid_the_own_class():
    C = 70
    rows = classification_rows(140, C, 5, seed=10)
    q = gaussian.from_natural(torch.eye(5).double().expand(C, 5, 5) * 2, normal(C, 5, seed=11))
    A, residual = all_features(rows)
    rival = drawn_argmax(Draws.of_factor(*gaussian.roots(q), 0, 0), Features(A, residual), rows.y, rows.key)
    assert bool((rival != rows.y).all())
    assert rival.dtype == rows.y.dtype
