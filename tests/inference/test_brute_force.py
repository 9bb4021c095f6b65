"""The updates of every bound end where a general optimiser of that bound ends."""

from dataclasses import replace

import pytest
import torch

from bayesvm._core.gaussian import Natural
from bayesvm._core.likelihoods import AugmentedBinaryHinge, BinaryHinge, MulticlassHinge, OneVsRest, expected
from bayesvm._inference import coordinate
from bayesvm._inference.rivals import AllRivals
from bayesvm._progress import silent
from tests.inference.bounds import bound, covariance
from tests.problems import classification_rows, uniform

CASES = [
    (BinaryHinge(), 2, 1),
    (AugmentedBinaryHinge(), 2, 1),
    (OneVsRest(BinaryHinge()), 3, 3),
    (OneVsRest(AugmentedBinaryHinge()), 3, 3),
    (MulticlassHinge(64), 3, 3),
]


def _rows(n_classes):
    return classification_rows(24, n_classes, 5, seed=3, weight=uniform(24, seed=5, low=0.5, high=2.0))


def _brute_force(rows, likelihood, J):
    """Maximise over means and covariances with nothing but the bound and its gradient."""
    P = rows.n_inducing
    m = torch.zeros(J, P, dtype=torch.float64, requires_grad=True)
    raw = torch.zeros(J, P, P, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [m, raw], max_iter=2000, tolerance_grad=1e-9, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )

    def factor():
        return raw.tril(-1) + torch.diag_embed(raw.diagonal(dim1=1, dim2=2).exp())

    def objective():
        L = factor()
        return bound(rows, lambda F, s2: expected(likelihood, rows.y, F, s2).value, m, L @ L.mT)

    def closure():
        optimiser.zero_grad()
        loss = -objective()
        loss.backward()
        return loss

    optimiser.step(closure)
    L = factor().detach()
    return m.detach(), L @ L.mT, float(objective().detach())


@pytest.mark.parametrize(("likelihood", "n_classes", "J"), CASES, ids=str)
def test_coordinate_ascent_ends_where_brute_force_does(likelihood, n_classes, J):
    rows = _rows(n_classes)
    m, S, best = _brute_force(rows, likelihood, J)
    base = Natural.prior(J, rows.Lz)
    with torch.no_grad():
        ascent = coordinate.ascend(rows, AllRivals(likelihood), base, base, 500, 1e-9, silent)
    assert ascent.curve[-1] == pytest.approx(best, abs=1e-6)
    torch.testing.assert_close(ascent.q.m, m, atol=2e-4, rtol=0)
    torch.testing.assert_close(covariance(ascent.q), S, atol=2e-4, rtol=0)


def test_the_classes_of_one_against_the_rest_are_binary_models():
    rows = _rows(3)
    base = Natural.prior(3, rows.Lz)
    with torch.no_grad():
        together = coordinate.ascend(
            rows, AllRivals(OneVsRest(BinaryHinge())), base, base, 500, 1e-10, silent
        )
        for j in range(3):
            one = Natural.prior(1, rows.Lz)
            alone = replace(rows, y=(rows.y == j).long(), n_classes=2)
            q = coordinate.ascend(alone, AllRivals(BinaryHinge()), one, one, 500, 1e-10, silent).q
            torch.testing.assert_close(together.q.m[j], q.m[0], atol=1e-5, rtol=0)
            torch.testing.assert_close(covariance(together.q)[j], covariance(q)[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("likelihood", "n_classes", "J"), CASES, ids=str)
def test_row_terms_at_vanishing_variance_are_the_log_likelihood(likelihood, n_classes, J):
    rows = _rows(n_classes)
    F = torch.linspace(-2.0, 2.5, 24 * J, dtype=torch.float64).reshape(24, J)[:, torch.randperm(J)]
    value = likelihood.row_terms(rows.y, F, torch.full_like(F, 1e-12)).value
    torch.testing.assert_close(value, likelihood.log_likelihood(rows.y, F), atol=1e-5, rtol=0)
    stacked = likelihood.log_likelihood(rows.y, torch.stack([F, 2.0 * F]))
    torch.testing.assert_close(stacked[1], likelihood.log_likelihood(rows.y, 2.0 * F))


@pytest.mark.parametrize(("likelihood", "n_classes", "J"), CASES, ids=str)
def test_likelihoods_say_truly_whether_they_see_differences_only(likelihood, n_classes, J):
    y = _rows(n_classes).y
    f = torch.linspace(-1.0, 1.0, 24 * J, dtype=torch.float64).reshape(24, J)
    same = torch.allclose(likelihood.log_likelihood(y, f + 0.7), likelihood.log_likelihood(y, f))
    assert same == likelihood.shift_invariant
