"""Identities between models: sparse and dense, two classes and one difference, with and without a row."""

import itertools

import pytest
import torch

from bayesvm._core import gaussian
from bayesvm._core.gaussian import Natural
from bayesvm._core.kernels import RBF, Product
from bayesvm._core.kernels.linear import Constant
from bayesvm._core.likelihoods import AugmentedBinaryHinge, BinaryHinge, MulticlassHinge
from bayesvm._core.sites import dense_statistics
from bayesvm._fit.leave_one_out import leave_one_out
from bayesvm._inference import coordinate
from bayesvm._inference.blocks import TrainingRows
from bayesvm._inference.rivals import AllRivals
from bayesvm._inference.task import Ascent, evaluate
from bayesvm._progress import silent
from tests.inference.bounds import bound, covariance, settle
from tests.problems import all_features, classification_rows, labels, normal, uniform
from tests.reference import dense_binary_posterior, gaussian_from_sites


def _with(rows: TrainingRows, **changes) -> TrainingRows:
    fields = ("X", "y", "weight", "unit", "key", "kernel", "params", "Z", "n_classes", "group")
    return TrainingRows(**{name: changes.get(name, getattr(rows, name)) for name in fields})


def _bound(rows, likelihood, q) -> float:
    return float(bound(rows, lambda F, s2: likelihood.row_terms(rows.y, F, s2).value, q.m, covariance(q)))


@pytest.mark.parametrize("likelihood", [BinaryHinge(), AugmentedBinaryHinge()])
def test_inducing_points_at_the_rows_reproduce_the_dense_model(likelihood):
    rows = classification_rows(20, 2, 20, seed=0)
    K = rows.kernel.cross(rows.params, rows.X, rows.X) + 1e-8 * torch.eye(20).double()

    def row_terms(mean, var):
        value, slope, W = likelihood.row_terms(rows.y, mean[:, None], var[:, None])
        return value, slope[:, 0], W[:, 0]

    mu, Sigma, dense = dense_binary_posterior(K, row_terms)
    q = settle(rows, AllRivals(likelihood), 1, 300)
    A, residual = all_features(rows)
    torch.testing.assert_close(gaussian.mean(q, A)[:, 0], mu, atol=1e-5, rtol=0)
    variance = gaussian.variance(q, A)[:, 0] + residual
    torch.testing.assert_close(variance, Sigma.diagonal(), atol=1e-5, rtol=0)
    assert _bound(rows, likelihood, q) == pytest.approx(dense, abs=1e-4)


@pytest.mark.parametrize(("likelihood", "n_classes", "J"), [(BinaryHinge(), 2, 1), (MulticlassHinge(), 3, 3)])
def test_adding_an_inducing_point_never_lowers_the_optimised_bound(likelihood, n_classes, J):
    rows = classification_rows(30, n_classes, 12, seed=1)
    bounds = []
    for P in range(1, 13):
        fewer = _with(rows, Z=rows.Z[:P])
        bounds.append(_bound(fewer, likelihood, settle(fewer, AllRivals(likelihood), J, 150)))
    assert all(b >= a - 1e-5 for a, b in itertools.pairwise(bounds))
    assert bounds[-1] > bounds[0] + 3.0


def test_flipping_the_labels_of_two_classes_negates_the_mean():
    rows = classification_rows(30, 2, 8, seed=2)
    flipped = _with(rows, y=1 - rows.y)
    a, b = (settle(r, AllRivals(BinaryHinge()), 1) for r in (rows, flipped))
    torch.testing.assert_close(a.m, -b.m)
    torch.testing.assert_close(a.R, b.R)


def test_permuting_classes_permutes_the_posterior():
    rows = classification_rows(30, 3, 6, seed=3)
    order = torch.tensor([2, 0, 1])
    a = settle(rows, AllRivals(MulticlassHinge()), 3, 60)
    b = settle(_with(rows, y=order[rows.y]), AllRivals(MulticlassHinge()), 3, 60)
    torch.testing.assert_close(a.m, b.m[order], atol=1e-9, rtol=0)


def test_permuting_rows_changes_nothing():
    rows = classification_rows(40, 3, 6, seed=4)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    shuffled = _with(rows, X=rows.X[order], y=rows.y[order], key=rows.key[order])
    a, b = (settle(r, AllRivals(MulticlassHinge()), 3, 30) for r in (rows, shuffled))
    torch.testing.assert_close(a.m, b.m, atol=1e-10, rtol=0)


class _PointMass:
    """A likelihood seen at the means only, with a little smoothing: the MAP of the smoothed hinge."""

    def __init__(self, n_latents: int, smoothing: float = 1e-3) -> None:
        self.J, self.smoothing = n_latents, smoothing

    def n_latents(self, n_classes: int) -> int:
        return self.J

    def row_terms(self, y, F, s2):
        if self.J == 1:
            return AugmentedBinaryHinge().row_terms(y, F, torch.full_like(F, self.smoothing))
        g = F[:, 1:] - F[:, :1]
        value, slope, W = AugmentedBinaryHinge().row_terms(y, g, torch.full_like(g, self.smoothing))
        return value, torch.cat([-slope, slope], 1), torch.cat([W, W], 1)


def test_two_functions_and_one_function_of_twice_the_kernel_have_the_same_map():
    kernel = RBF(variance=1.5)
    double = Product((RBF(variance=1.5), Constant(variance=2.0)))
    two = classification_rows(25, 2, 8, seed=5, kernel=kernel)
    one = classification_rows(25, 2, 8, seed=5, kernel=double)
    f = gaussian.mean(settle(two, AllRivals(_PointMass(2)), 2, 3000), all_features(two)[0])
    g = gaussian.mean(settle(one, AllRivals(_PointMass(1)), 1, 3000), all_features(one)[0])
    torch.testing.assert_close(f[:, 1:] - f[:, :1], g, atol=1e-5, rtol=0)
    assert float(g.abs().max()) > 0.5


def test_variationally_two_independent_functions_are_worse_than_their_difference():
    double = Product((RBF(variance=1.5), Constant(variance=2.0)))
    two = classification_rows(40, 2, 10, seed=6, kernel=RBF(variance=1.5))
    one = classification_rows(40, 2, 10, seed=6, kernel=double)
    q2 = settle(two, AllRivals(MulticlassHinge()), 2)
    q1 = settle(one, AllRivals(BinaryHinge()), 1)
    gain = _bound(one, BinaryHinge(), q1) - _bound(two, MulticlassHinge(), q2)
    assert gain > 0.5
    A2, A1 = all_features(two)[0], all_features(one)[0]
    difference = gaussian.variance(q2, A2).sum(1)
    assert float((difference / gaussian.variance(q1, A1)[:, 0]).mean()) > 1.2


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("likelihood", "n_classes", "J"), [(BinaryHinge(), 2, 1), (MulticlassHinge(), 3, 3)])
@pytest.mark.parametrize("grouped", [False, True])
def test_leave_one_out_of_a_fit_is_a_refit_without_the_row_at_fixed_sites(
    likelihood, n_classes, J, weighted, grouped
):
    """Or without the group of the row."""
    N = 24
    weight = uniform(N, seed=7, low=0.3, high=3.0) if weighted else torch.ones(N).double()
    unit = weight / (1.0 + torch.arange(N).double() % 3) if weighted else weight
    group = labels(N, 4, seed=11) if grouped else None
    rows = classification_rows(N, n_classes, 6, seed=8, weight=weight, unit=unit, group=group)
    base = Natural.prior(J, rows.Lz)
    near = settle(rows, AllRivals(likelihood), J, 5)
    sites = evaluate(rows, AllRivals(likelihood), near, base, 0).sites
    A, residual = all_features(rows)
    c = weight[:, None]
    natural = base.plus(*dense_statistics(A, c * sites.W, c * sites.G))
    q = gaussian.from_natural(*natural)
    loo = leave_one_out(rows, Ascent(q, natural, sites, [0.0], 1, True, False))
    for n in range(N):
        less = weight.clone()
        less[n if group is None else group == group[n]] -= (
            unit[n] if group is None else less[group == group[n]]
        )
        m, S = gaussian_from_sites(A, less[:, None] * sites.W, less[:, None] * sites.G)
        mean = m @ A[n]
        var = torch.einsum("p,cpq,q->c", A[n], S, A[n]) + residual[n]
        if J == 1:  # the difference, dealt evenly to two classes
            mean, var = torch.cat([-mean / 2, mean / 2]), torch.cat([var / 2, var / 2])
        torch.testing.assert_close(loo.F[0, n], mean, atol=1e-10, rtol=0)
        torch.testing.assert_close(loo.s2[0, n], var, atol=1e-10, rtol=0)


def test_leave_one_out_is_close_to_truly_refitting():
    rows = classification_rows(40, 2, 10, seed=9)
    rule, base = AllRivals(BinaryHinge()), Natural.prior(1, rows.Lz)
    fit = coordinate.ascend(rows, rule, base, base, 200, 1e-6, silent)
    g_loo = leave_one_out(rows, fit).F[0, :, 1] * 2
    A, _ = all_features(rows)
    refits = []
    for n in range(40):
        kept = torch.arange(40) != n
        columns = ("X", "y", "weight", "unit", "key")
        without = _with(rows, **{name: getattr(rows, name)[kept] for name in columns})
        q = coordinate.ascend(without, rule, base, base, 200, 1e-6, silent).q
        refits.append(float(gaussian.mean(q, A[n : n + 1])))
    refits = torch.tensor(refits).double()
    in_sample = gaussian.mean(fit.q, A)[:, 0]
    error = (g_loo - refits).square().mean().sqrt()
    # Better by far than pretending the row had not been seen.
    assert float(error) < 0.5 * float((in_sample - refits).square().mean().sqrt())


def test_predictions_of_the_prior_are_the_prior():
    rows = classification_rows(10, 3, 4, seed=10)
    A, residual = rows.features(normal(15, 2, seed=11))
    q = gaussian.prior(3, 4, A)
    total = gaussian.variance(q, A) + residual[:, None]
    prior = rows.kernel.diag(rows.params, normal(15, 2, seed=11))[:, None].expand(-1, 3)
    torch.testing.assert_close(total, prior)
