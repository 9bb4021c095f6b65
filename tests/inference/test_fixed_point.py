"""Coordinate updates against the bound they maximise (eqs. 3.1-3.5)."""

import itertools

import pytest
import torch

from bayesvm._core import gaussian
from bayesvm._core.gaussian import Natural
from bayesvm._core.likelihoods import (
    AugmentedBinaryHinge,
    BinaryHinge,
    MulticlassHinge,
    expected,
    pair_bound,
)
from bayesvm._inference import coordinate
from bayesvm._inference.rivals import AllRivals
from bayesvm._inference.task import evaluate
from bayesvm._progress import silent
from tests.inference.bounds import bound, covariance, gradient, settle
from tests.problems import all_features, classification_rows
from tests.reference import multiclass_hinge_on_fine_grid

CASES = {
    "binary": (BinaryHinge(), 2, 1),
    "augmented binary": (AugmentedBinaryHinge(), 2, 1),
    "three classes": (MulticlassHinge(), 3, 3),
    "five classes": (MulticlassHinge(), 5, 5),
}
cases = pytest.mark.parametrize(("likelihood", "n_classes", "J"), CASES.values(), ids=CASES.keys())


def _value(likelihood, y):
    if isinstance(likelihood, AugmentedBinaryHinge):
        return lambda F, s2: likelihood.row_terms(y, F, s2).value
    return lambda F, s2: expected(likelihood, y, F, s2).value


def _fit(rows, likelihood, J, max_iter=400, tol=1e-11):
    prior = Natural.prior(J, rows.Lz)
    return coordinate.ascend(rows, AllRivals(likelihood), prior, prior, max_iter, tol, silent)


@cases
def test_fixed_point_is_a_stationary_point_of_the_bound(likelihood, n_classes, J):
    rows = classification_rows(30, n_classes, 7, seed=n_classes)
    value = _value(likelihood, rows.y)
    far_m, far_S = gradient(rows, value, gaussian.prior(J, 7, rows.X))
    by_m, by_S = gradient(rows, value, settle(rows, AllRivals(likelihood), J))
    assert float(by_m.abs().max()) < 1e-8 * float(far_m.abs().max())
    assert float(by_S.abs().max()) < 1e-8 * max(1.0, float(far_S.abs().max()))


def test_fixed_point_of_exact_rivals_is_stationary_for_an_independent_quadrature():
    rows = classification_rows(20, 3, 5, seed=3)
    q = settle(rows, AllRivals(MulticlassHinge(n_nodes=64)), 3)
    by_m, by_S = gradient(rows, lambda F, s2: multiclass_hinge_on_fine_grid(rows.y, F, s2), q)
    assert float(by_m.abs().max()) < 1e-4
    assert float(by_S.abs().max()) < 1e-3


@cases
def test_library_s_ascent_reaches_the_fixed_point(likelihood, n_classes, J):
    rows = classification_rows(30, n_classes, 7, seed=n_classes)
    result = _fit(rows, likelihood, J, tol=1e-3)
    assert result.converged
    q = settle(rows, AllRivals(likelihood), J)
    A, _ = all_features(rows)
    torch.testing.assert_close(gaussian.mean(result.q, A), gaussian.mean(q, A), atol=0.01, rtol=0)
    best = bound(rows, _value(likelihood, rows.y), q.m, covariance(q))
    assert result.curve[-1] == pytest.approx(float(best), abs=1e-4)


@pytest.mark.parametrize("n_classes", [3, 4, 8])
def test_tight_tolerances_are_reached_and_not_circled_around(n_classes):
    rows = classification_rows(30 * n_classes, n_classes, 10, seed=n_classes)
    result = _fit(rows, MulticlassHinge(), n_classes, max_iter=120, tol=1e-5)
    assert result.converged


@cases
def test_library_s_ascent_never_lowers_the_bound(likelihood, n_classes, J):
    rows = classification_rows(60, n_classes, 10, seed=70 + n_classes)
    curve = _fit(rows, likelihood, J, tol=1e-4).curve
    assert len(curve) > 4
    assert all(b >= a - 1e-6 * abs(a) for a, b in itertools.pairwise(curve))


@cases
def test_reported_bound_is_the_bound_of_the_q_returned(likelihood, n_classes, J):
    rows = classification_rows(25, n_classes, 6, seed=10 + n_classes)
    result = _fit(rows, likelihood, J, max_iter=7)
    direct = bound(rows, _value(likelihood, rows.y), result.q.m, covariance(result.q))
    assert result.curve[-1] == pytest.approx(float(direct), abs=1e-9)


@cases
def test_half_steps_never_lower_the_bound(likelihood, n_classes, J):
    """The bare update, without the step control of the library."""
    rows = classification_rows(40, n_classes, 8, seed=20 + n_classes)
    rule, base = AllRivals(likelihood), Natural.prior(J, rows.Lz)
    value = _value(likelihood, rows.y)
    natural, q = base.posterior(True)
    last = -float("inf")
    for sweep in range(30):
        now = float(bound(rows, value, q.m, covariance(q)))
        assert now >= last - 1e-6
        last = now
        natural, q = natural.towards(evaluate(rows, rule, q, base, sweep).target, 0.5).posterior(True)


def test_full_steps_of_the_augmented_binary_hinge_never_lower_the_bound():
    rows = classification_rows(40, 2, 8, seed=30)
    rule, base = AllRivals(AugmentedBinaryHinge()), Natural.prior(1, rows.Lz)
    value = _value(AugmentedBinaryHinge(), rows.y)
    q = gaussian.prior(1, 8, rows.X)
    values = []
    for sweep in range(15):
        values.append(float(bound(rows, value, q.m, covariance(q))))
        target = evaluate(rows, rule, q, base, sweep).target
        q = gaussian.from_natural(target.precision, target.linear)
    assert all(b >= a - 1e-10 for a, b in itertools.pairwise(values))
    assert values[-1] > values[0] + 1.0


def test_augmented_updates_with_fixed_rivals_one_class_at_a_time_never_lower_the_bound():
    C, P = 4, 6
    rows = classification_rows(40, C, P, seed=40)
    A, residual = all_features(rows)
    y, t = rows.y, (rows.y + 1 + torch.arange(40) % (C - 1)) % C
    index = torch.stack([y, t], 1)

    def value(F, s2):
        F, s2 = F.gather(1, index), s2.gather(1, index)
        return pair_bound(F, s2).value

    q = gaussian.prior(C, P, A)
    values = [float(bound(rows, value, q.m, covariance(q)))]
    for sweep in range(160):
        j = sweep % C
        F = gaussian.mean(q, A).gather(1, index)
        s2 = (gaussian.variance(q, A) + residual[:, None]).gather(1, index)
        pair = pair_bound(F, s2)
        W = torch.zeros(40, C).double().scatter_add(1, index, pair.W)
        G = torch.zeros(40, C).double().scatter_add(1, index, pair.slope + pair.W * F)
        precision = torch.eye(P).double() + (A * W[:, j : j + 1]).mT @ A
        R = q.R.clone()
        m = q.m.clone()
        R[j] = torch.linalg.cholesky(precision)
        m[j] = torch.linalg.solve(precision, A.mT @ G[:, j])
        q = gaussian.Gaussian(m, R)
        values.append(float(bound(rows, value, q.m, covariance(q))))
    assert all(b >= a - 1e-10 for a, b in itertools.pairwise(values))
    assert values[-1] > values[0] + 5.0
    by_m, by_S = gradient(rows, value, q)
    assert float(by_m.abs().max()) < 0.05
    assert float(by_S.abs().max()) < 0.05


def test_at_the_optimum_the_means_of_all_classes_sum_to_zero():
    rows = classification_rows(30, 4, 6, seed=50)
    base = Natural.prior(4, rows.Lz)
    rule = AllRivals(MulticlassHinge())
    q = settle(rows, rule, 4, 400)
    target = evaluate(rows, rule, q, base, 0).target
    uncentred = gaussian.from_natural(target.precision, target.linear)
    torch.testing.assert_close(uncentred.m.sum(0), torch.zeros(6).double(), atol=1e-7, rtol=0)


def test_weights_are_repeated_rows():
    weight = 1.0 + (torch.arange(18) % 3).double()
    weighted = classification_rows(18, 3, 5, seed=60, weight=weight)
    index = torch.arange(18).repeat_interleave(weight.long())
    repeated = type(weighted)(
        weighted.X[index],
        weighted.y[index],
        torch.ones(len(index)).double(),
        torch.ones(len(index)).double(),
        weighted.key[index],
        weighted.kernel,
        weighted.params,
        weighted.Z,
        3,
    )
    a, b = _fit(weighted, MulticlassHinge(), 3, 10), _fit(repeated, MulticlassHinge(), 3, 10)
    torch.testing.assert_close(a.q.m, b.q.m, atol=1e-10, rtol=0)
    torch.testing.assert_close(a.q.R, b.q.R, atol=1e-10, rtol=0)
    assert a.curve == pytest.approx(b.curve, abs=1e-9)
