"""Natural gradients and Adam from one evaluation (eqs. 8.15, 8.16)."""

import dataclasses
import math

import pytest
import torch

from bayesvm._core import gaussian
from bayesvm._core.features import inducing_factor, whitened_features
from bayesvm._core.gaussian import Gaussian, Natural
from bayesvm._core.likelihoods import MulticlassHinge, OneVsRest, RobustMax, Softmax, expected
from bayesvm._core.likelihoods.hinge import BinaryHinge
from bayesvm._inference import coordinate, natural_adam
from bayesvm._inference.natural_adam import METHOD, NaturalAdam, ascend
from bayesvm._inference.rivals import AllRivals, OneRival
from bayesvm._inference.task import Member, Settings, Task, evaluate
from bayesvm._progress import silent
from tests.inference.bounds import covariance, gradient, settle
from tests.problems import classification_rows, uniform

LIKELIHOODS = [Softmax(), RobustMax(n_nodes=64), MulticlassHinge(n_nodes=64)]
FIXED = Settings(learn_kernel=False, learn_inducing=False)
FREE = Settings(rate=0.05, max_iter=60, tol=-1.0, learn_kernel=True, learn_inducing=True)


def _walk(rows, likelihood, q, settings):
    base = Natural.prior(q.m.shape[0], rows.Lz)
    return NaturalAdam(rows, AllRivals(likelihood), Natural.of(q), base, settings)


def _some_q(rows, n_latents=3):
    return settle(rows, AllRivals(MulticlassHinge()), n_latents, steps=3)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_small_steps_go_along_the_natural_gradient(likelihood):
    """To first order q moves to the natural parameters that the gradient of the bound asks for."""
    rows = classification_rows(40, 3, 6, seed=0, weight=uniform(40, seed=1, low=0.5, high=2.0))
    q = _some_q(rows)
    base = Natural.prior(3, rows.Lz)
    target = evaluate(rows, AllRivals(likelihood), q, base, 0).target
    errors = []
    for rho in (1e-2, 1e-3):
        walk = _walk(rows, likelihood, q, Settings(natural_rate=rho))
        walk.step(None)
        _, plain = Natural.of(q).towards(target, rho).posterior(True)
        errors.append(
            float((covariance(walk.q) - covariance(plain)).norm() + (walk.q.m - plain.m).norm()) / rho
        )
    assert errors[1] < 0.15 * errors[0]
    # And what it asks for is the gradient of the bound, by autograd.
    value = lambda F, s2: expected(likelihood, rows.y, F, s2).value  # noqa: E731
    by_m, by_S = gradient(rows, value, q)
    torch.testing.assert_close(
        by_S, 0.5 * (torch.linalg.inv(covariance(q)) - target.precision), atol=2e-3, rtol=1e-4
    )
    slope = target.linear - (target.precision @ q.m.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(by_m, slope, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("index", [None, torch.tensor([3, 1, 30, 17, 5])])
def test_kernel_and_points_move_along_the_gradient_of_the_bound_at_fixed_q(likelihood, index):
    rows = classification_rows(40, 3, 6, seed=2, weight=uniform(40, seed=3, low=0.5, high=2.0))
    q = _some_q(rows)
    walk = _walk(rows, likelihood, q, FREE)
    found = []
    walk._adam.along = lambda grads, rate: found.extend(grads)
    walk.step(index)

    chosen = torch.arange(40) if index is None else index
    theta = {k: v.clone().requires_grad_() for k, v in rows.params.items()}
    Z = rows.Z.clone().requires_grad_()
    features = whitened_features(
        rows.kernel, theta, Z, inducing_factor(rows.kernel, theta, Z), rows.X[chosen]
    )
    s2 = gaussian.variance(q, features.A) + features.residual[:, None]
    value = expected(likelihood, rows.y[chosen], gaussian.mean(q, features.A), s2).value
    weight = rows.weight[chosen]
    bound = torch.dot(weight, value) * rows.weight.sum() / weight.sum()
    for ours, theirs in zip(found, torch.autograd.grad(bound, [*theta.values(), Z]), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-8, rtol=1e-7)


@pytest.mark.parametrize("likelihood", [Softmax(), MulticlassHinge(), OneVsRest(BinaryHinge())])
def test_a_fixed_kernel_leads_to_the_optimum_of_coordinate_ascent(likelihood):
    rows = classification_rows(50, 3, 6, seed=4)
    base = Natural.prior(3, rows.Lz)
    best = coordinate.ascend(rows, AllRivals(likelihood), base, base, 300, 1e-7, silent)
    settings = Settings(natural_rate=0.5, max_iter=80, tol=-1.0)
    result = ascend(rows, AllRivals(likelihood), base, base, settings, silent)
    assert result.ascent.curve[-1] == pytest.approx(best.curve[-1], abs=1e-3)
    A = rows.features(rows.X).A
    torch.testing.assert_close(gaussian.mean(result.ascent.q, A), gaussian.mean(best.q, A), atol=5e-3, rtol=0)
    # The optimum stays where it is.
    walk = _walk(rows, likelihood, result.ascent.q, Settings(natural_rate=1.0))
    before = walk.q
    walk.step(None)
    torch.testing.assert_close(walk.q.m, before.m, atol=1e-2, rtol=0)
    assert result.rows.params.keys() == rows.params.keys()
    assert all(torch.equal(v, rows.params[k]) for k, v in result.rows.params.items())
    assert torch.equal(result.rows.Z, rows.Z)


def test_robust_max_survives_full_steps_from_the_prior_where_plain_ones_do_not():
    rows = classification_rows(120, 4, 10, seed=5)
    likelihood = RobustMax()
    base = Natural.prior(4, rows.Lz)
    q = gaussian.prior(4, 10, rows.X)
    target = evaluate(rows, AllRivals(likelihood), q, base, 0).target
    assert bool((torch.linalg.eigvalsh(target.precision).amin(1) < 0).any())
    walk = _walk(rows, likelihood, q, Settings(natural_rate=1.0))
    for _ in range(30):
        walk.step(None)
        smallest = torch.linalg.eigvalsh(walk.outcome([], False, False).ascent.natural.precision).amin()
        assert float(smallest) > 0
    result = ascend(rows, AllRivals(likelihood), base, base, Settings(max_iter=100, tol=-1.0), silent)
    _, start = base.posterior(True)
    before = evaluate(rows, AllRivals(likelihood), start, base, 0).value
    assert result.ascent.curve[-1] > 0.6 * before  # both negative
    assert all(math.isfinite(b) for b in result.ascent.curve)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_learning_kernel_and_points_raises_the_bound_further(likelihood):
    rows = classification_rows(60, 3, 4, seed=6)
    base = Natural.prior(3, rows.Lz)
    fixed, free = (
        ascend(rows, AllRivals(likelihood), base, base, settings, silent)
        for settings in (Settings(max_iter=60, tol=-1.0), FREE)
    )
    assert free.ascent.curve[-1] > fixed.ascent.curve[-1] + 0.5
    assert not torch.equal(free.rows.Z, rows.Z)
    now = evaluate(free.rows, AllRivals(likelihood), free.ascent.q, base, 0)
    kl = gaussian.kl(free.ascent.q, gaussian.prior(3, 4, rows.X)).sum()
    # Value before the last step, divergence after it.
    assert now.value - float(kl) == pytest.approx(free.ascent.curve[-1], abs=0.3)
    torch.testing.assert_close(now.sites.W, free.ascent.sites.W)


def test_weights_are_repetitions():
    once = classification_rows(30, 3, 5, seed=7, weight=torch.tensor([1.0, 2.0, 3.0] * 10).double())
    twice = torch.repeat_interleave(torch.arange(30), once.weight.long())
    many = dataclasses.replace(
        once,
        X=once.X[twice],
        y=once.y[twice],
        key=once.key[twice],
        weight=torch.ones(60).double(),
        unit=torch.ones(60).double(),
    )
    base = Natural.prior(3, once.Lz)
    a, b = (ascend(rows, AllRivals(Softmax()), base, base, FREE, silent) for rows in (once, many))
    torch.testing.assert_close(a.ascent.q.m, b.ascent.q.m, atol=1e-7, rtol=0)
    torch.testing.assert_close(a.rows.Z, b.rows.Z, atol=1e-7, rtol=0)
    assert a.ascent.curve[-1] == pytest.approx(b.ascent.curve[-1], abs=1e-6)


def test_minibatches_depend_on_the_seed_alone_and_find_the_same_bound():
    rows = classification_rows(80, 3, 5, seed=8)
    base = Natural.prior(3, rows.Lz)

    def fitted(seed):
        settings = Settings(batch_size=20, max_iter=40, tol=-1.0, natural_rate=0.05, seed=seed)
        return ascend(rows, AllRivals(Softmax()), base, base, settings, silent).ascent

    first, again, other = fitted(0), fitted(0), fitted(1)
    torch.testing.assert_close(first.q.m, again.q.m, atol=0, rtol=0)
    assert not torch.equal(first.q.m, other.q.m)
    full = coordinate.ascend(rows, AllRivals(Softmax()), base, base, 100, 1e-6, silent)
    for found in (first, other):
        value = evaluate(rows, AllRivals(Softmax()), found.q, base, 0).value
        bound = value - float(gaussian.kl(found.q, gaussian.prior(3, 5, rows.X)).sum())
        assert full.curve[-1] - 1.5 < bound <= full.curve[-1] + 1e-6


def test_convergence_by_its_own_test():
    rows = classification_rows(60, 3, 5, seed=9)
    base = Natural.prior(3, rows.Lz)
    settings = Settings(max_iter=500, tol=1e-3, learn_kernel=True, learn_inducing=True)
    result = ascend(rows, AllRivals(Softmax()), base, base, settings, silent)
    assert result.ascent.converged
    assert 20 <= result.ascent.n_iter < 500
    short = ascend(rows, AllRivals(Softmax()), base, base, Settings(max_iter=10), silent)
    assert not short.ascent.converged


class _At:
    def __init__(self, step, stop):
        self.step, self.stop, self.seen = step, stop, None

    def __call__(self, step):
        if step.number == self.step:
            self.seen = step.state()
            if not self.stop:
                raise KeyboardInterrupt
            return True
        return False


def test_interrupted_is_what_the_last_step_reported():
    rows = classification_rows(60, 3, 6, seed=10)
    base = Natural.prior(3, rows.Lz)
    interrupting = _At(5, stop=False)
    broken = ascend(rows, AllRivals(Softmax()), base, base, FREE, interrupting)
    assert broken.ascent.interrupted
    assert broken.ascent.n_iter == 5
    torch.testing.assert_close(broken.ascent.q.m, interrupting.seen.ascent.q.m)
    torch.testing.assert_close(broken.rows.Z, interrupting.seen.rows.Z)
    stopping = _At(5, stop=True)
    stopped = ascend(rows, AllRivals(Softmax()), base, base, FREE, stopping)
    assert not stopped.ascent.interrupted
    assert stopped.ascent.curve == broken.ascent.curve
    torch.testing.assert_close(stopped.rows.Z, broken.rows.Z)


def test_in_the_end_q_is_what_the_sites_of_the_rows_make():
    """Leave-one-out rests on it; while kernel and points move, q lags behind."""
    rows = classification_rows(60, 3, 6, seed=14)
    base = Natural.prior(3, rows.Lz)
    stopping = _At(40, stop=True)
    outcome = ascend(rows, AllRivals(Softmax()), base, base, FREE, stopping)

    def gap(found):
        target = evaluate(found.rows, AllRivals(Softmax()), found.ascent.q, base, 0).target
        return float((target.precision - found.ascent.natural.precision).abs().max())

    assert gap(outcome) < 0.02 * gap(stopping.seen)


def test_a_rate_that_is_too_large_ends_where_numbers_were_last_good():
    rows = classification_rows(40, 3, 5, seed=11)
    base = Natural.prior(3, rows.Lz)
    settings = Settings(rate=40.0, max_iter=30, tol=-1.0, learn_kernel=True, learn_inducing=True)
    result = ascend(rows, AllRivals(Softmax()), base, base, settings, silent)
    assert bool(torch.isfinite(result.ascent.q.m).all())
    assert bool(torch.isfinite(result.rows.Z).all())
    assert all(float(v.abs().max()) < 50 for v in result.rows.params.values())
    assert not result.ascent.converged


def test_what_earlier_rows_taught_takes_the_place_of_the_prior():
    rows = classification_rows(40, 3, 5, seed=12)
    prior = Natural.prior(3, rows.Lz)
    forgotten = prior.plus(2.0 * prior.precision, 0.3 * torch.ones(3, 5).double())
    best = coordinate.ascend(rows, AllRivals(Softmax()), forgotten, forgotten, 200, 1e-7, silent)
    settings = Settings(natural_rate=0.5, max_iter=60, tol=-1.0)
    found = ascend(rows, AllRivals(Softmax()), forgotten, forgotten, settings, silent).ascent
    assert found.curve[-1] == pytest.approx(best.curve[-1], abs=1e-3)
    torch.testing.assert_close(found.q.m, best.q.m, atol=5e-3, rtol=0)


def test_method_names_what_is_missing():
    hinge = MulticlassHinge()
    assert METHOD.missing(Member(hinge, AllRivals(hinge))) is None
    assert "exact expectations" in METHOD.missing(Member(hinge, OneRival(sampled=True)))
    assert METHOD.learns_kernel
    rows = classification_rows(30, 3, 5, seed=13)
    base = Natural.prior(3, rows.Lz)
    outcome = METHOD.run(
        Task(rows, Member(hinge, AllRivals(hinge)), base, base, Settings(max_iter=3)), silent
    )
    assert outcome.ascent.n_iter == 3
    assert METHOD.max_iter == natural_adam.EPOCHS
    assert isinstance(outcome.ascent.q, Gaussian)
