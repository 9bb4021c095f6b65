"""The variational Gaussian: moments and KL, whitened and not (eqs. 1.4, 1.5, 3.1, 3.5)."""

import pickle

import pytest
import torch

from bayesvm._core import gaussian
from bayesvm._core.features import inducing_factor, whitened_features
from bayesvm._core.gaussian import Gaussian
from bayesvm._core.kernels import RBF
from bayesvm._core.likelihoods import MulticlassHinge
from tests.problems import normal
from tests.reference import torch_kl

C, P, N = 3, 6, 9


def _random_gaussian(seed: int) -> tuple[Gaussian, torch.Tensor]:
    """A Gaussian in the library's form, with its covariances."""
    B = normal(C, P, P, seed=seed)
    precision = B @ B.mT / P + torch.eye(P, dtype=torch.float64)
    m = normal(C, P, seed=seed + 1)
    return Gaussian(m, torch.linalg.cholesky(precision)), torch.linalg.inv(precision)


def _unwhitened():
    """q over the inducing values, with everything needed to compare."""
    X, Z = normal(N, 2, seed=0), normal(P, 2, seed=1)
    kernel = RBF(variance=1.7)
    params = kernel.init(X)
    Lz = inducing_factor(kernel, params, Z)
    q, S = _random_gaussian(2)
    mu = q.m @ Lz.mT
    Sigma = Lz @ S @ Lz.mT
    return kernel, params, X, Z, Lz, q, mu, Sigma


def test_whitened_moments_are_the_unwhitened_moments():
    kernel, params, X, Z, Lz, q, mu, Sigma = _unwhitened()
    A, residual = whitened_features(kernel, params, Z, Lz, X)
    Kzz = Lz @ Lz.mT
    kappa = torch.linalg.solve(Kzz, kernel.cross(params, Z, X)).mT  # K_XZ K_ZZ^{-1}
    torch.testing.assert_close(gaussian.mean(q, A), kappa @ mu.mT, atol=1e-8, rtol=1e-8)
    explained = torch.einsum("np,cpq,nq->nc", kappa, Sigma, kappa)
    torch.testing.assert_close(gaussian.variance(q, A), explained, atol=1e-8, rtol=1e-8)
    left_over = kernel.diag(params, X) - torch.einsum("np,pq,nq->n", kappa, Kzz, kappa)
    torch.testing.assert_close(residual, left_over, atol=1e-8, rtol=0)


def test_kl_is_that_of_torch_distributions():
    (q, S), (p, S_p) = _random_gaussian(10), _random_gaussian(20)
    torch.testing.assert_close(gaussian.kl(q, p), torch_kl(q.m, S, p.m, S_p))


def test_kl_to_the_prior_is_the_textbook_formula_and_zero_at_the_prior():
    q, S = _random_gaussian(30)
    prior = gaussian.prior(C, P, q.m)
    trace = S.diagonal(dim1=1, dim2=2).sum(-1)
    closed = 0.5 * (trace + q.m.square().sum(1) - P - torch.logdet(S))
    torch.testing.assert_close(gaussian.kl(q, prior), closed)
    zero = torch.zeros(C, dtype=torch.float64)
    torch.testing.assert_close(gaussian.kl(prior, prior), zero, atol=1e-14, rtol=0)
    torch.testing.assert_close(gaussian.kl(q, q), zero, atol=1e-12, rtol=0)


def test_whitened_kl_is_the_unwhitened_kl_with_its_log_determinant():
    *_, Lz, q, mu, Sigma = _unwhitened()
    Kzz = Lz @ Lz.mT
    whitened = gaussian.kl(q, gaussian.prior(C, P, q.m))
    torch.testing.assert_close(whitened, torch_kl(mu, Sigma, torch.zeros_like(mu), Kzz), rtol=1e-7, atol=1e-7)
    # Dropping log det K_ZZ, as the paper prints it, is another number.
    inverse = torch.linalg.inv(Kzz)
    quadratic = torch.einsum("cp,pq,cq->c", mu, inverse, mu)
    trace = torch.einsum("pq,cqp->c", inverse, Sigma)
    without = 0.5 * (trace + quadratic - P - torch.logdet(Sigma))
    torch.testing.assert_close(whitened, without + 0.5 * torch.logdet(Kzz), rtol=1e-7, atol=1e-7)
    assert float((whitened - without).abs().min()) > 0.5


def test_from_natural_inverts_the_precision():
    q, S = _random_gaussian(40)
    linear = normal(C, P, seed=41)
    again = gaussian.from_natural(torch.linalg.inv(S), linear)
    torch.testing.assert_close(again.m, torch.einsum("cpq,cq->cp", S, linear))
    torch.testing.assert_close(again.R, q.R)


@pytest.mark.parametrize("largest", [1e0, 1e4, 1e8])
def test_roots_give_what_solves_give(largest):
    """Means and the KL from inverse factors, against triangular solves, for precisions of any size."""
    A = normal(C, N, P, seed=42)
    precision = torch.eye(P).double() + largest * A.mT @ A
    linear = largest * normal(C, P, seed=43)
    solved, rooted = gaussian.from_natural(precision, linear), gaussian.rooted(precision, linear)
    assert torch.equal(rooted.R, solved.R)
    torch.testing.assert_close(rooted.m, solved.m, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(
        rooted.T @ rooted.T.mT, torch.cholesky_inverse(solved.R), rtol=1e-10, atol=1e-14
    )
    assert torch.equal(gaussian.roots(rooted).T, gaussian.roots(solved).T)
    prior = gaussian.prior(C, P, linear)
    centred = gaussian.centred(rooted)
    for q in (rooted, centred):
        by_solves = gaussian.kl(Gaussian(q.m, q.R), Gaussian(prior.m, prior.R))
        torch.testing.assert_close(gaussian.kl(q, prior), by_solves, rtol=1e-12, atol=0)
        # Only the standard normal may be taken for it.
        other = Gaussian(prior.m + 1.0, 2.0 * prior.R)
        torch.testing.assert_close(gaussian.kl(q, other), gaussian.kl(Gaussian(q.m, q.R), other))


def test_roots_do_not_travel():
    q = gaussian.rooted(torch.eye(P).double().expand(C, P, P) * 2.0, normal(C, P, seed=44))
    back = pickle.loads(pickle.dumps(q))
    assert back.T is None
    assert torch.equal(back.R, q.R)
    assert torch.equal(gaussian.roots(back).T, q.T)


def test_centring_changes_no_class_difference_and_lowers_the_kl():
    q, _ = _random_gaussian(50)
    prior, A = gaussian.prior(C, P, q.m), normal(N, P, seed=51)
    middle = gaussian.centred(q)
    torch.testing.assert_close(middle.m.sum(0), torch.zeros(P).double(), atol=1e-14, rtol=0)
    F, G = gaussian.mean(q, A), gaussian.mean(middle, A)
    torch.testing.assert_close(F - F[:, :1], G - G[:, :1])
    torch.testing.assert_close(gaussian.variance(q, A), gaussian.variance(middle, A))
    y, s2 = torch.arange(N) % C, gaussian.variance(q, A)
    before = MulticlassHinge().row_terms(y, F, s2).value
    torch.testing.assert_close(MulticlassHinge().row_terms(y, G, s2).value, before, atol=1e-10, rtol=0)
    saved = gaussian.kl(q, prior).sum() - gaussian.kl(middle, prior).sum()
    torch.testing.assert_close(saved, 0.5 * C * q.m.mean(0).square().sum())
    assert float(saved) > 0.1


def test_centring_leaves_a_single_latent_function_alone():
    q = Gaussian(normal(1, P, seed=60), torch.eye(P).double()[None])
    assert gaussian.centred(q) is q


@pytest.mark.parametrize("function", [gaussian.mean, gaussian.variance])
def test_moments_pass_gradcheck(function):
    q, _ = _random_gaussian(70)
    A = normal(3, P, seed=71).requires_grad_()
    m, R = q.m.requires_grad_(), q.R.requires_grad_()
    assert torch.autograd.gradcheck(lambda A, m, R: function(Gaussian(m, R.tril()), A), [A, m, R])
