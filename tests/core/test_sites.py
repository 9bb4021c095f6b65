"""q from fixed sites: sums over rows, moments and the hand-written gradient (eqs. 3.1, 5.6)."""

import pytest
import torch

from bayesvm._core import gaussian
from bayesvm._core.sites import dense_statistics, posterior_moments
from tests.problems import normal, uniform
from tests.reference import gaussian_from_sites, torch_kl

N, C, P = 11, 3, 5


def _sites(seed: int):
    A = normal(N, P, seed=seed)
    return A, uniform(N, C, seed=seed + 1, high=1.5), normal(N, C, seed=seed + 2)


def _moments_by_autograd(A, W, G):
    """The same quantities through torch's own factorisations."""
    precision = torch.einsum("nc,np,nq->cpq", W, A, A) + torch.eye(P, dtype=A.dtype)
    S = torch.linalg.inv(precision)
    m = torch.einsum("cpq,nc,nq->cp", S, G, A)
    V = torch.einsum("np,cpq,nq->nc", A, S, A)
    trace = S.diagonal(dim1=1, dim2=2).sum()
    kl = 0.5 * (trace + m.square().sum() - C * P + torch.logdet(precision).sum())
    return A @ m.mT, V, kl


def test_dense_statistics_are_the_sums_over_rows():
    A, W, G = _sites(0)
    precision, linear = dense_statistics(A, W, G)
    torch.testing.assert_close(precision, torch.einsum("nc,np,nq->cpq", W, A, A))
    torch.testing.assert_close(linear, torch.einsum("nc,np->cp", G, A))


def test_moments_and_kl_are_those_of_the_posterior_built_row_by_row():
    A, W, G = _sites(10)
    m, S = gaussian_from_sites(A, W, G)
    out = posterior_moments(A, W, G)
    torch.testing.assert_close(out.m, m)
    torch.testing.assert_close(out.F, A @ m.mT)
    torch.testing.assert_close(out.V, torch.einsum("np,cpq,nq->nc", A, S, A))
    zero, eye = torch.zeros(P).double(), torch.eye(P).double()
    torch.testing.assert_close(out.kl, torch_kl(m, S, zero, eye).sum())


def test_moments_agree_with_the_gaussian_module():
    A, W, G = _sites(20)
    precision, linear = dense_statistics(A, W, G)
    q = gaussian.from_natural(precision + torch.eye(P, dtype=torch.float64), linear)
    out = posterior_moments(A, W, G)
    torch.testing.assert_close(out.F, gaussian.mean(q, A))
    torch.testing.assert_close(out.V, gaussian.variance(q, A))
    torch.testing.assert_close(out.kl, gaussian.kl(q, gaussian.prior(C, P, A)).sum())


@pytest.mark.parametrize("parts", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.7, -0.4, 1.3)])
def test_gradient_is_autograd_s(parts):
    A, W, G = _sites(30)
    uF, uV = normal(N, C, seed=33), normal(N, C, seed=34)

    def scalar(F, V, kl):
        return parts[0] * (uF * F).sum() + parts[1] * (uV * V).sum() + parts[2] * kl

    A1, A2 = A.clone().requires_grad_(), A.clone().requires_grad_()
    out = posterior_moments(A1, W, G)
    (ours,) = torch.autograd.grad(scalar(out.F, out.V, out.kl), A1)
    (theirs,) = torch.autograd.grad(scalar(*_moments_by_autograd(A2, W, G)), A2)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-11)


def test_posterior_moments_pass_gradcheck():
    A, W, G = _sites(40)
    A = A.requires_grad_()
    assert torch.autograd.gradcheck(lambda A: tuple(posterior_moments(A, W, G))[:3], [A])


def test_no_sites_give_back_the_prior():
    A = normal(N, P, seed=50)
    zero = torch.zeros(N, C, dtype=torch.float64)
    out = posterior_moments(A, zero, zero)
    torch.testing.assert_close(out.F, zero)
    torch.testing.assert_close(out.V, A.square().sum(1, keepdim=True).expand(-1, C))
    torch.testing.assert_close(out.kl, torch.zeros(()).double(), atol=1e-14, rtol=0)
