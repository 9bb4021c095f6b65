"""One rival per row: the sites that are reported must be the sites that made q (section 5)."""

import pytest
import torch

from bayesvm._core import gaussian
from bayesvm._core.gaussian import Natural
from bayesvm._core.sites import dense_statistics
from bayesvm._fit.leave_one_out import leave_one_out
from bayesvm._inference import coordinate
from bayesvm._inference.rivals import OneRival
from bayesvm._progress import silent
from tests.problems import all_features, classification_rows
from tests.reference import gaussian_from_sites


def _refit(rows, result):
    A, _ = all_features(rows)
    J, P = result.q.m.shape
    W, G = result.sites.dense(slice(0, len(rows)), J)
    precision, linear = dense_statistics(A, rows.weight[:, None] * W, rows.weight[:, None] * G)
    return A, gaussian.from_natural(precision + torch.eye(P, dtype=A.dtype), linear)


@pytest.mark.parametrize("sampled", [True, False])
@pytest.mark.parametrize("n_classes", [3, 10])
def test_averaged_sites_make_the_q_that_is_returned(sampled, n_classes):
    rows = classification_rows(30 * n_classes, n_classes, 12, seed=5)
    base = Natural.prior(n_classes, rows.Lz)
    result = coordinate.ascend(rows, OneRival(sampled, 0), base, base, 60, 1e-2, silent)
    A, q = _refit(rows, result)
    torch.testing.assert_close(gaussian.variance(result.q, A), gaussian.variance(q, A), atol=1e-9, rtol=0)
    # Up to a common shift of all classes, which no prediction sees.
    ours, theirs = gaussian.mean(gaussian.centred(result.q), A), gaussian.mean(gaussian.centred(q), A)
    torch.testing.assert_close(ours, theirs, atol=1e-8, rtol=0)


@pytest.mark.parametrize("sampled", [True, False])
def test_leave_one_out_of_averaged_sites_is_a_refit_without_the_row(sampled):
    rows = classification_rows(40, 4, 8, seed=7)
    base = Natural.prior(4, rows.Lz)
    result = coordinate.ascend(rows, OneRival(sampled, 0), base, base, 60, 1e-2, silent)
    loo = leave_one_out(rows, result)
    A, residual = all_features(rows)
    W, G = result.sites.dense(slice(0, 40), 4)
    for n in range(0, 40, 3):
        kept = torch.arange(40) != n
        m, S = gaussian_from_sites(A[kept], W[kept], G[kept])
        F, s2 = m @ A[n], torch.einsum("p,cpq,q->c", A[n], S, A[n]) + residual[n]
        torch.testing.assert_close(loo.F[0, n] - loo.F[0, n].mean(), F - F.mean(), atol=1e-9, rtol=0)
        torch.testing.assert_close(loo.s2[0, n], s2, atol=1e-9, rtol=0)


def test_same_seed_same_draws_and_other_seed_others():
    rows = classification_rows(60, 3, 8, seed=6)
    base = Natural.prior(3, rows.Lz)
    a, b, c = (
        coordinate.ascend(rows, OneRival(True, seed), base, base, 20, 1e-9, silent).q.m for seed in (1, 1, 2)
    )
    assert torch.equal(a, b)
    assert not torch.equal(a, c)
