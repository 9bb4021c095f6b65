"""Learning the kernel: inducing points, sample, objective, gradient, and how it ends (eqs. 3.6, 5.4-5.6)."""

import math
from dataclasses import replace

import pytest
import torch

from bayesvm._core.kernels import RBF, Anova, resolve_kernel
from bayesvm._core.kernels.compose import deviation_scales
from bayesvm._core.likelihoods import BinaryHinge, MulticlassHinge
from bayesvm._core.sites import dense_statistics, ridge_sites, ridge_statistics, ridge_target
from bayesvm._fit import defaults
from bayesvm._fit import kernel as learning
from bayesvm._fit.kernel import (
    LearningOptions,
    LearningSample,
    choose_inducing,
    learn_kernel,
    learning_sample,
    log_prior,
)
from bayesvm._progress import silent
from tests.problems import classification_rows, labels, normal, uniform
from tests.reference import gaussian_from_sites, multiclass_hinge_on_fine_grid


def _options(**changes):
    defaults = {
        "bound_weight": 1.0,
        "loo_weight": 1.0,
        "steps": 1,
        "rate": 0.05,
        "damping": 0.5,
        "learn_inducing": False,
        "level_scale": math.inf,
    }
    return LearningOptions(**{**defaults, **changes})


def _learn(rows, likelihood, options, progress=silent, scale=1.0, steps=1):
    sample = LearningSample(rows.X, rows.y, rows.weight, rows.unit, scale, rows.n_classes)
    options = replace(options, steps=steps)
    return learn_kernel(rows.kernel, rows.params, rows.Z, sample, likelihood, options, progress)


def _objective(rows, params, Z, J, bound_weight, loo_weight, scale, T):
    """Bound and leave-one-out log-likelihood at the starting sites, the slow way.

    Each row stands for ``scale`` rows; one unit of it leaves with all it stands for.
    """
    y, weight, N = rows.y, scale * rows.weight, len(rows)
    W, G = ridge_sites(ridge_target(y, J, True, rows.X))
    K = rows.kernel.cross(params, Z, Z)
    K = K + 1e-9 * K.diagonal().mean() * torch.eye(len(Z)).double()
    A = torch.linalg.solve(torch.linalg.cholesky(K), rows.kernel.cross(params, Z, rows.X)).mT
    residual = rows.kernel.diag(params, rows.X) - A.square().sum(1)
    c = weight[:, None]
    m, S = gaussian_from_sites(A, c * W, c * G)
    F = A @ m.mT
    V = torch.einsum("np,cpq,nq->nc", A, S, A)
    s2 = V + residual[:, None]
    kl = 0.5 * (S.diagonal(dim1=1, dim2=2).sum() + m.square().sum() - m.numel() - torch.logdet(S).sum())
    if J == 1:
        sign = (2 * y - 1).double()
        b, s = 1 - sign * F[:, 0], s2[:, 0].sqrt()
        phi = torch.exp(-0.5 * (b / s) ** 2) / math.sqrt(2 * math.pi)
        value = -2 * (s * phi + b * torch.special.ndtr(b / s))
    else:
        value = multiclass_hinge_on_fine_grid(y, F, s2, 2001)
    total = bound_weight * (weight @ value - kl)
    for n in range(N if loo_weight else 0):
        less = weight.clone()
        less[n] = scale * (rows.weight[n] - rows.unit[n])
        m, S = gaussian_from_sites(A, less[:, None] * W, less[:, None] * G)
        mean, var = m @ A[n], torch.einsum("p,cpq,q->c", A[n], S, A[n]) + residual[n]
        if J == 1:
            mean, var = torch.cat([-mean, mean]) / 2, torch.cat([var, var]) / 2
        z = T * (mean[:, None] - mean) / torch.sqrt(1 + math.pi / 8 * T * T * (var[:, None] + var))
        log_p = torch.log_softmax(-torch.logsumexp(-z, 1), 0)
        total = total + loo_weight * weight[n] * log_p[y[n]]
    return float(total)


class _Recorder:
    """Stands in for the optimiser: keeps objective and gradients, moves nothing."""

    last = None

    def __init__(self, params, betas=(0.9, 0.999)):
        self.params = list(params)

    def ascend(self, objective, rate):
        grads = torch.autograd.grad(objective, self.params, allow_unused=True)
        type(self).last = (float(objective.detach()), grads)


@pytest.mark.parametrize(
    ("bound_weight", "loo_weight", "scale"), [(1, 0, 1), (0, 1, 1), (1, 1, 1), (1, 1, 2.5)]
)
@pytest.mark.parametrize(("likelihood", "n_classes"), [(BinaryHinge(), 2), (MulticlassHinge(64), 3)])
def test_objective_and_gradient_are_those_of_the_slow_objective(
    likelihood, n_classes, bound_weight, loo_weight, scale, monkeypatch
):
    monkeypatch.setattr(learning, "Adam", _Recorder)
    kernel = resolve_kernel("rbf+anova", True)
    weight = uniform(14, seed=0, low=0.4, high=2.5)
    unit = weight / (1.0 + torch.arange(14).double() % 3)
    rows = classification_rows(14, n_classes, 5, seed=1, kernel=kernel, weight=weight, unit=unit)
    options = _options(bound_weight=bound_weight, loo_weight=loo_weight, learn_inducing=True)
    _learn(rows, likelihood, options, scale=scale)
    value, grads = _Recorder.last
    J = likelihood.n_latents(n_classes)

    def slow(params, Z, T=2.0):
        return _objective(rows, params, Z, J, bound_weight, loo_weight, scale, T)

    assert value == pytest.approx(slow(rows.params, rows.Z), abs=1e-4)
    h = 1e-4
    for name, gradient in zip(rows.params, grads, strict=False):
        flat = gradient.reshape(-1)
        for i in range(flat.numel()):
            moved = []
            for sign in (1.0, -1.0):
                values = rows.params[name].clone()
                values.view(-1)[i] += sign * h
                moved.append(slow({**rows.params, name: values}, rows.Z))
            difference = (moved[0] - moved[1]) / (2 * h)
            assert float(flat[i]) == pytest.approx(difference, abs=2e-4, rel=2e-4), name
    up, down = (slow(rows.params, rows.Z, 2.0 * math.exp(s * h)) for s in (1, -1))
    by_T = grads[len(rows.params)]
    by_T = 0.0 if by_T is None else float(by_T)
    assert by_T == pytest.approx((up - down) / (2 * h), abs=1e-4)
    for i, d in ((0, 0), (3, 1)):
        moved = []
        for sign in (1.0, -1.0):
            Z = rows.Z.clone()
            Z[i, d] += sign * h
            moved.append(slow(rows.params, Z))
        assert float(grads[-1][i, d]) == pytest.approx((moved[0] - moved[1]) / (2 * h), abs=2e-4, rel=2e-4)


def test_start_is_a_ridge_regression_on_centred_targets():
    y = torch.tensor([0, 2, 1, 2])
    target = ridge_target(y, 3, True, torch.zeros(1).double())
    torch.testing.assert_close(target.sum(1), torch.zeros(4).double(), atol=1e-14, rtol=0)
    assert torch.equal(target.argmax(1), y)
    margins = target.gather(1, y[:, None]) - target.sort(1).values[:, :2]
    torch.testing.assert_close(margins, torch.full((4, 2), 2.0).double())
    binary = ridge_target(torch.tensor([0, 1]), 1, False, torch.zeros(1).double())
    assert binary.tolist() == [[-1.0], [1.0]]
    A, weight = normal(4, 2, seed=1), uniform(4, seed=2)
    W, G = ridge_sites(target)
    precision, linear = dense_statistics(A, weight[:, None] * W, weight[:, None] * G)
    common, same = ridge_statistics(A, target, weight)
    torch.testing.assert_close(precision, common.expand(3, -1, -1))
    torch.testing.assert_close(linear, same)


def test_learning_raises_the_bound_and_moves_every_parameter():
    rows = classification_rows(60, 3, 10, seed=2)
    learned = _learn(rows, MulticlassHinge(), _options(rate=0.1, loo_weight=0.0), steps=40)
    assert learned.curve[-1] > learned.curve[0] + 5.0
    assert all(not torch.equal(v, rows.params[k]) for k, v in learned.params.items())
    assert torch.equal(learned.Z, rows.Z)
    assert not learned.interrupted


def test_prior_keeps_levels_near_their_start():
    rows = classification_rows(60, 3, 10, seed=2)
    free, tight = (
        _learn(rows, MulticlassHinge(), _options(rate=0.02, level_scale=scale), steps=60).params
        for scale in (math.inf, 0.01)
    )
    for name, start in rows.params.items():
        assert abs(float((tight[name] - start).mean())) < 0.02
        assert abs(float((free[name] - start).mean())) > 0.1


def test_prior_is_normal_in_the_level_and_cauchy_in_the_deviations():
    moved = torch.tensor([0.5, -0.2, 0.3, 1.0]).double()
    normal_level = torch.distributions.Normal(0.0, 0.7)
    cauchy = torch.distributions.Cauchy(0.0, 0.1)

    def density(m):
        return normal_level.log_prob(m.mean()) + cauchy.log_prob(m - m.mean()).sum()

    expected = density(moved) - density(0.0 * moved)
    torch.testing.assert_close(log_prior(moved, 0.7, 0.1), expected)
    one = torch.tensor([0.4]).double()
    torch.testing.assert_close(
        log_prior(one, 0.7, 0.1), normal_level.log_prob(one[0]) - normal_level.log_prob(0.0 * one[0])
    )


def test_kernels_say_how_far_columns_may_deviate():
    kernel = resolve_kernel("rbf*linear + anova", True)
    scales = deviation_scales(kernel, kernel.init(normal(5, 3, seed=1)))
    assert scales["0.0.log_length_scale"] == RBF.deviation_scale
    assert scales["0.1.log_slope"] == 0.1
    assert scales["1.logits"] == scales["1.log_length_scale"] == Anova.deviation_scale


def test_inducing_points_move_only_if_asked():
    rows = classification_rows(40, 3, 6, seed=3)
    moved = _learn(rows, MulticlassHinge(), _options(learn_inducing=True), steps=5)
    assert not torch.equal(moved.Z, rows.Z)


@pytest.mark.parametrize("step", [1, 6])
def test_interruption_returns_the_last_parameters_that_worked(step):
    rows = classification_rows(40, 3, 6, seed=4)
    seen = []

    def record(now):
        seen.append(now.bound)
        return False

    def interrupt(now):
        if now.number == step:
            raise KeyboardInterrupt
        return False

    whole = _learn(rows, MulticlassHinge(), _options(), record, steps=20)
    broken = _learn(rows, MulticlassHinge(), _options(), interrupt, steps=20)
    stopped = _learn(rows, MulticlassHinge(), _options(), lambda now: now.number == step, steps=20)
    assert broken.interrupted
    assert not stopped.interrupted
    assert broken.curve == whole.curve[:step] == seen[:step]
    for name, value in broken.params.items():
        assert bool(torch.isfinite(value).all())
        assert torch.equal(value, stopped.params[name])
    torch.testing.assert_close(broken.natural.linear, stopped.natural.linear)
    if step == 1:  # no later parameters had been scored yet
        assert all(torch.equal(broken.params[k], v) for k, v in rows.params.items())


class _Breaks(RBF):
    """A kernel that is no covariance once its variance has grown."""

    def cross(self, params, X, Z):
        K = super().cross(params, X, Z)
        return K * float("nan") if float(params["log_variance"].detach()) > 0.9 else K


def test_a_kernel_that_breaks_ends_the_learning_with_good_parameters():
    rows = classification_rows(50, 3, 6, seed=5, kernel=_Breaks(variance=2.0))
    learned = _learn(rows, MulticlassHinge(), _options(rate=0.1, loo_weight=0.0), steps=60)
    assert 0 < len(learned.curve) < 60
    assert float(learned.params["log_variance"]) <= 0.9
    assert bool(torch.isfinite(learned.natural.precision).all())


class _BreaksAtOnce(RBF):
    """A kernel that is no covariance away from where it starts."""

    def cross(self, params, X, Z):
        K = super().cross(params, X, Z)
        moved = abs(float(params["log_variance"].detach()) - math.log(self.variance))
        return K * float("nan") if moved > 0.01 else K


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_parameters_broken_by_the_very_last_step_are_not_returned(steps):
    rows = classification_rows(50, 3, 6, seed=5, kernel=_BreaksAtOnce(variance=2.0))
    learned = _learn(rows, MulticlassHinge(), _options(rate=0.1, loo_weight=0.0), steps=steps)
    assert len(learned.curve) == 1
    assert float(learned.params["log_variance"]) == pytest.approx(math.log(2.0))


def test_returned_natural_parameters_are_sites_under_the_returned_kernel():
    rows = classification_rows(30, 3, 5, seed=6)
    learned = _learn(rows, MulticlassHinge(), _options(damping=0.0), steps=1)
    moved = replace(rows, params=learned.params, Z=learned.Z)
    A, _ = moved.features(rows.X)
    precision, linear = dense_statistics(A, *ridge_sites(ridge_target(rows.y, 3, True, rows.X)))
    torch.testing.assert_close(learned.natural.precision, precision + torch.eye(5).double())
    torch.testing.assert_close(learned.natural.linear, linear)


def test_few_distinct_rows_are_all_inducing_points():
    X = normal(6, 2, seed=0)
    repeated = X[torch.tensor([0, 1, 1, 2, 0, 3, 4, 5, 5])]
    Z = choose_inducing(repeated, torch.ones(9).double(), 10)
    torch.testing.assert_close(Z, X)


def test_same_rows_same_inducing_points():
    X, w = normal(500, 3, seed=1), uniform(500, seed=2, low=0.5, high=2.0)
    assert torch.equal(choose_inducing(X, w, 20), choose_inducing(X.clone(), w.clone(), 20))


def test_inducing_points_are_distinct_and_as_many_as_asked():
    X = normal(300, 2, seed=3).round(decimals=1)
    Z = choose_inducing(X, torch.ones(300).double(), 25)
    assert Z.shape == (25, 2)
    assert torch.unique(Z, dim=0).shape[0] == 25


def test_inducing_points_quantise_the_rows_better_than_the_rows_they_start_from():
    X = normal(800, 2, seed=4)
    Z = choose_inducing(X, torch.ones(800).double(), 16)

    def distortion(Z):
        return float(torch.cdist(X, Z).amin(1).square().mean())

    assert distortion(Z) < 0.75 * distortion(X[:16])


def test_converged_inducing_points_are_weighted_means_of_their_rows():
    centres = torch.tensor([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]]).double()
    X = (centres.repeat(30, 1)) + normal(90, 2, seed=5)
    w = uniform(90, seed=6, low=0.1, high=5.0)
    Z = choose_inducing(X, w, 3)
    for j in range(3):
        rows = torch.arange(90) % 3 == j
        mean = (w[rows, None] * X[rows]).sum(0) / w[rows].sum()
        assert float((Z - mean).norm(dim=1).min()) < 1e-10


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_scale_of_the_weights_does_not_move_inducing_points(factor):
    X, w = normal(200, 2, seed=7), uniform(200, seed=8, low=0.5, high=2.0)
    torch.testing.assert_close(choose_inducing(X, w, 12), choose_inducing(X, factor * w, 12))


def test_few_rows_are_learned_from_as_they_are():
    X, y, w = normal(50, 2, seed=0), labels(50, 3, seed=1), uniform(50, seed=2, low=0.5)
    sample = learning_sample(X, y, w, w / 2, 3)
    assert sample.scale == 1.0
    assert sample.n_classes == 3
    torch.testing.assert_close(sample.X, X.to(sample.X))
    assert torch.equal(sample.y, y)
    torch.testing.assert_close(sample.weight, w.to(sample.weight))
    torch.testing.assert_close(sample.unit, (w / 2).to(sample.weight))


def test_many_rows_are_represented_by_the_first_with_their_total_weight(monkeypatch):
    monkeypatch.setattr(defaults, "SIZES", {0: defaults.Sizes(256, 40, 192)})
    X, y, w = normal(200, 2, seed=3), labels(200, 3, seed=4), uniform(200, seed=5, low=0.5, high=2.0)
    sample = learning_sample(X, y, w, w / 2, 3)
    assert len(sample.X) == 40
    torch.testing.assert_close(sample.unit, sample.weight / 2)
    torch.testing.assert_close(sample.scale * sample.weight.double().sum(), w.sum(), rtol=1e-5, atol=0)


def test_with_many_classes_only_some_are_kept_and_renumbered(monkeypatch):
    monkeypatch.setattr(defaults, "LEARNING_CLASSES", 4)
    y = labels(300, 10, seed=6) + 0
    X = y[:, None].double() + torch.zeros(300, 2)
    ones = torch.ones(300).double()
    sample = learning_sample(X, y, ones, ones, 10)
    assert sample.n_classes == 4
    assert sorted(sample.y.unique().tolist()) == [0, 1, 2, 3]
    # A new number always means the same old class.
    for j in range(4):
        assert sample.X[sample.y == j, 0].unique().numel() == 1
