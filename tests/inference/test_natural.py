"""Natural gradients, minibatches and natural parameters (eqs. 3.3, 3.4, 7.2)."""

from dataclasses import replace

import pytest
import torch

from bayesvm._core import gaussian
from bayesvm._core.features import inducing_factor, whitened_features
from bayesvm._core.gaussian import Natural
from bayesvm._core.likelihoods import BinaryHinge, MulticlassHinge, expected
from bayesvm._core.sites import Statistics
from bayesvm._inference import coordinate, natural
from bayesvm._inference.rivals import AllRivals, OneRival
from bayesvm._inference.task import evaluate
from bayesvm._progress import silent
from tests.inference.bounds import covariance, gradient
from tests.problems import classification_rows, generator, normal, uniform


def _some_q(rows, rule, J, sweeps=2):
    base = Natural.prior(J, rows.Lz)
    state, q = base.posterior(True)
    for sweep in range(sweeps):
        state, q = state.towards(evaluate(rows, rule, q, base, sweep).target, 0.5).posterior(True)
    return base, state, q


@pytest.mark.parametrize(("likelihood", "n_classes", "J"), [(BinaryHinge(), 2, 1), (MulticlassHinge(), 3, 3)])
def test_coordinate_update_is_a_natural_gradient_step_of_size_one(likelihood, n_classes, J):
    rows = classification_rows(25, n_classes, 6, seed=1)
    base, _, q = _some_q(rows, AllRivals(likelihood), J)
    by_m, by_S = gradient(rows, lambda F, s2: expected(likelihood, rows.y, F, s2).value, q)
    # With expectation parameters (m, S + m m^T) the natural gradient is an ordinary one.
    by_first, by_second = by_m - 2.0 * (by_S @ q.m.unsqueeze(-1)).squeeze(-1), by_S
    now = Natural.of(q)
    target = evaluate(rows, AllRivals(likelihood), q, base, 0).target
    torch.testing.assert_close(target.linear, now.linear + by_first, atol=1e-8, rtol=1e-8)
    torch.testing.assert_close(target.precision, now.precision - 2.0 * by_second, atol=1e-8, rtol=1e-8)


def test_one_epoch_with_the_whole_data_as_batch_is_a_damped_coordinate_step():
    rows = classification_rows(30, 3, 6, seed=2)
    rule = AllRivals(MulticlassHinge())
    base, state, q = _some_q(rows, rule, 3)
    once = natural.ascend(rows, rule, state, base, len(rows), 1, 0.0, 0, silent)
    target = evaluate(rows, rule, q, base, 0).target
    _, expected_q = state.towards(target, 0.5).posterior(True)
    torch.testing.assert_close(once.q.m, expected_q.m)
    torch.testing.assert_close(once.q.R, expected_q.R)


@pytest.mark.parametrize(
    "rule", [AllRivals(MulticlassHinge()), OneRival(sampled=True), OneRival(sampled=False)]
)
def test_minibatches_average_to_the_full_value_and_statistics(rule):
    weight = uniform(60, seed=3, low=0.5, high=2.0)
    rows = classification_rows(60, 4, 6, seed=4, weight=weight)
    base, _, q = _some_q(rows, rule, 4)
    full = evaluate(rows, rule, q, base, 5)
    order, total = torch.randperm(60, generator=generator(5)), weight.sum()
    value, precision, linear = 0.0, 0.0, 0.0
    for index in order.split(17):
        share = float(weight[index].sum() / total)  # chance-weighted average of unbiased estimates
        block = rows.batch(index)
        block = replace(block, weight=block.weight / share)
        sums = Statistics.zeros(*q.m.shape, q.m)
        sites = rule.under(q, 5)(block, sums)
        value += share * float(torch.dot(block.weight, sites.value))
        precision, linear = precision + share * sums.precision, linear + share * sums.linear
    assert value == pytest.approx(full.value, abs=1e-9)
    torch.testing.assert_close(base.precision + precision, full.target.precision)
    torch.testing.assert_close(base.linear + linear, full.target.linear)


def test_minibatch_steps_approach_the_coordinate_optimum():
    rows = classification_rows(120, 3, 8, seed=6)
    rule, base = AllRivals(MulticlassHinge()), Natural.prior(3, rows.Lz)
    best = coordinate.ascend(rows, rule, base, base, 300, 1e-9, silent)
    noisy = natural.ascend(rows, rule, base, base, 30, 60, 1e-12, 0, silent)
    A = rows.features(rows.X).A
    difference = (gaussian.mean(noisy.q, A) - gaussian.mean(best.q, A)).square().mean().sqrt()
    assert float(difference) < 0.05 * float(gaussian.mean(best.q, A).square().mean().sqrt())
    assert noisy.curve[-1] == pytest.approx(best.curve[-1], abs=0.01 * abs(best.curve[-1]))


def test_damped_step_mixes_natural_parameters():
    a = Natural(normal(2, 3, 3, seed=7), normal(2, 3, seed=8))
    b = Natural(normal(2, 3, 3, seed=9), normal(2, 3, seed=10))
    mixed = a.towards(b, 0.3)
    torch.testing.assert_close(mixed.precision, 0.7 * a.precision + 0.3 * b.precision)
    torch.testing.assert_close(mixed.linear, 0.7 * a.linear + 0.3 * b.linear)
    torch.testing.assert_close(a.towards(b, 1.0).linear, b.linear)
    torch.testing.assert_close(a.towards(b, 0.0).precision, a.precision)


def test_natural_parameters_and_gaussian_are_inverses():
    rows = classification_rows(20, 3, 5, seed=11)
    _, state, q = _some_q(rows, AllRivals(MulticlassHinge()), 3)
    again = Natural.of(q)
    torch.testing.assert_close(again.precision, state.precision)
    torch.testing.assert_close(again.linear, state.linear)
    torch.testing.assert_close(torch.linalg.inv(again.precision), covariance(q))


def _moments_at(q, rows, Z, X):
    Lz = inducing_factor(rows.kernel, rows.params, Z)
    A, residual = whitened_features(rows.kernel, rows.params, Z, Lz, X)
    return gaussian.mean(q, A), gaussian.variance(q, A) + residual[:, None], Lz


def test_carrying_to_inducing_points_that_contain_the_old_ones_is_exact():
    rows = classification_rows(30, 3, 6, seed=12)
    _, state, q = _some_q(rows, AllRivals(MulticlassHinge()), 3)
    Z = torch.cat([rows.Z, rows.X[10:14], normal(2, 2, seed=13)])
    X = normal(25, 2, seed=14)
    F_old, s2_old, L_old = _moments_at(q, rows, rows.Z, X)
    L_new = inducing_factor(rows.kernel, rows.params, Z)
    carried = state.carried(rows.kernel.cross(rows.params, rows.Z, Z), L_old, L_new)
    q_new = gaussian.from_natural(*carried)
    F_new, s2_new, _ = _moments_at(q_new, rows, Z, X)
    torch.testing.assert_close(F_new, F_old, atol=1e-5, rtol=0)
    torch.testing.assert_close(s2_new, s2_old, atol=1e-5, rtol=0)
    kl = [gaussian.kl(p, gaussian.prior(*p.m.shape, p.m)).sum() for p in (q, q_new)]
    torch.testing.assert_close(*kl, atol=1e-4, rtol=1e-6)


def test_carrying_to_other_inducing_points_keeps_most_of_q():
    rows = classification_rows(60, 3, 12, seed=15)
    _, state, q = _some_q(rows, AllRivals(MulticlassHinge()), 3, sweeps=8)
    Z = rows.X[12:36]
    F_old, _, L_old = _moments_at(q, rows, rows.Z, rows.X)
    L_new = inducing_factor(rows.kernel, rows.params, Z)
    carried = state.carried(rows.kernel.cross(rows.params, rows.Z, Z), L_old, L_new)
    F_new, _, _ = _moments_at(gaussian.from_natural(*carried), rows, Z, rows.X)
    assert float((F_new - F_old).square().mean() / F_old.square().mean()) < 0.05


def test_same_seed_same_result_and_other_seed_another_path():
    rows = classification_rows(60, 3, 6, seed=16)
    rule, base = AllRivals(MulticlassHinge()), Natural.prior(3, rows.Lz)
    a, b, c = (natural.ascend(rows, rule, base, base, 20, 2, 0.0, seed, silent) for seed in (1, 1, 2))
    assert torch.equal(a.q.m, b.q.m)
    assert not torch.equal(a.q.m, c.q.m)
