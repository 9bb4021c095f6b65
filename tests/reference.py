"""Slow and readable versions of the mathematics, to compare the fast ones with.

Nothing here shares code with the library: integrals are done by adaptive
quadrature, models are dense, posteriors are sampled.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import torch
from scipy import integrate, optimize, special
from torch import Tensor

# ---------------------------------------------------------------- hinge


def hinge(b: np.ndarray) -> np.ndarray:
    """log-likelihood -2 max(0, b) of a margin violation b."""
    return -2.0 * np.maximum(0.0, b)


def scale_mixture(b: float) -> float:
    """Integral over lambda of N(lambda; -b, lambda), with lambda = u^2 to remove the root at zero."""

    def integrand(u: float) -> float:
        return 2.0 / math.sqrt(2.0 * math.pi) * math.exp(-((u * u + b) ** 2) / (2.0 * u * u)) if u else 0.0

    peak = math.sqrt(abs(b))
    pieces = [(0.0, peak), (peak, peak + 5.0), (peak + 5.0, peak + 40.0)]
    return sum(integrate.quad(integrand, lo, hi, epsabs=1e-14, epsrel=1e-12)[0] for lo, hi in pieces)


def binary_hinge_by_quadrature(sign: int, mean: float, var: float) -> float:
    """E[-2 max(0, 1 - y f)] with the integral split at the kink f = y."""
    s = math.sqrt(var)

    def integrand(f: float) -> float:
        return -2.0 * max(0.0, 1.0 - sign * f) * math.exp(-0.5 * ((f - mean) / s) ** 2)

    lo, hi = mean - 12.0 * s, mean + 12.0 * s
    cuts = sorted({lo, hi, *(c for c in (float(sign), mean) if lo < c < hi)})
    total = sum(
        integrate.quad(integrand, a, b, epsabs=1e-14, epsrel=1e-13)[0] for a, b in itertools.pairwise(cuts)
    )
    return total / (s * math.sqrt(2.0 * math.pi))


def multiclass_hinge_by_quadrature(y: int, F: np.ndarray, s2: np.ndarray) -> float:
    """-2 int Phi((x + 1 - F_y)/s_y) (1 - prod_t Phi((x - F_t)/s_t)) dx, adaptively."""
    s = np.sqrt(s2)
    rival = np.arange(len(F)) != y

    def integrand(x: float) -> float:
        below = special.log_ndtr((x - F[rival]) / s[rival]).sum()
        return -2.0 * special.ndtr((x + 1.0 - F[y]) / s[y]) * -math.expm1(below)

    cuts = np.unique(np.concatenate([F[rival], [F[y] - 1.0]]))
    lo = cuts[0] - 12.0 * s.max()
    hi = cuts[-1] + 12.0 * s.max()
    edges = [lo, *cuts, hi]
    return sum(
        integrate.quad(integrand, a, b, epsabs=1e-13, epsrel=1e-12, limit=400)[0]
        for a, b in itertools.pairwise(edges)
    )


def multiclass_hinge_on_fine_grid(y: Tensor, F: Tensor, s2: Tensor, n_nodes: int = 4001) -> Tensor:
    """The same integral by a fine trapezoid, differentiable by autograd."""
    s = s2.sqrt()
    own = torch.zeros_like(F, dtype=torch.bool).scatter(1, y[:, None], True)
    lo = float((F - 1.0 - 12.0 * s).min().detach())
    hi = float((F + 12.0 * s).max().detach())
    x = torch.linspace(lo, hi, n_nodes, dtype=F.dtype)
    z = (x - F[:, :, None]) / s[:, :, None]
    log_Phi = torch.special.log_ndtr(z).masked_fill(own[:, :, None], 0.0).sum(1)
    F_y, s_y = F.gather(1, y[:, None]), s.gather(1, y[:, None])
    values = torch.special.ndtr((x + 1.0 - F_y) / s_y) * -torch.expm1(log_Phi)
    return -2.0 * torch.trapezoid(values, x, dim=1)


def multiclass_hinge_by_sampling(
    y: int, F: np.ndarray, s2: np.ndarray, n: int, seed: int
) -> tuple[float, float]:
    """Monte Carlo estimate of the expected hinge and its standard error."""
    rng = np.random.default_rng(seed)
    f = F + np.sqrt(s2) * rng.standard_normal((n, len(F)))
    b = 1.0 + np.delete(f, y, axis=1).max(1) - f[:, y]
    values = hinge(b)
    return float(values.mean()), float(values.std() / math.sqrt(n))


# ---------------------------------------------------------------- argmax and softmax


def log_probability_of_winning(j: int, F: np.ndarray, s2: np.ndarray) -> float:
    """log P(argmax f = j): find the integrand's mode, divide by its height, integrate."""
    s = np.sqrt(s2)
    others = np.arange(len(F)) != j

    def log_integrand(f: float) -> float:
        z = (f - F[j]) / s[j]
        own = -0.5 * z * z - math.log(s[j] * math.sqrt(2.0 * math.pi))
        return float(own + special.log_ndtr((f - F[others]) / s[others]).sum())

    lo, hi = F.min() - 10.0 * s.max(), F.max() + 10.0 * s.max()
    found = optimize.minimize_scalar(
        lambda f: -log_integrand(f), bounds=(lo, hi), method="bounded", options={"xatol": 1e-10}
    )
    mode, height = found.x, -found.fun
    reach = s[j]
    while log_integrand(mode - reach) > height - 50.0 or log_integrand(mode + reach) > height - 50.0:
        reach *= 1.5
    total = 0.0
    edges = mode + reach * np.array([-1.0, -0.3, -0.1, -0.03, 0.0, 0.03, 0.1, 0.3, 1.0])
    for a, b in itertools.pairwise(edges):
        piece = integrate.quad(lambda f: math.exp(log_integrand(f) - height), a, b, epsrel=1e-11)
        total += piece[0]
    return height + math.log(total)


def log_variation_ratio(F: np.ndarray, s2: np.ndarray) -> float:
    """log(1 - max P) by summing the losers, each integrated on its own."""
    logs = np.array([log_probability_of_winning(j, F, s2) for j in range(len(F))])
    return float(special.logsumexp(np.delete(logs, logs.argmax())))


def softmax_by_sampling(F: np.ndarray, s2: np.ndarray, T: float, n: int, seed: int) -> np.ndarray:
    """E softmax(T f) by plain Monte Carlo."""
    rng = np.random.default_rng(seed)
    f = F + np.sqrt(s2) * rng.standard_normal((n, len(F)))
    return special.softmax(T * f, axis=1).mean(0)


def sigmoid_by_quadrature(mean: float, var: float, T: float) -> float:
    """E sigmoid(T g) for g ~ N(mean, var), adaptively around the step at zero."""
    s = math.sqrt(var)

    def integrand(g: float) -> float:
        return special.expit(T * g) * math.exp(-0.5 * ((g - mean) / s) ** 2)

    lo, hi = mean - 12.0 * s, mean + 12.0 * s
    width = 20.0 / T
    cuts = sorted({lo, hi, *(c for c in (-width, 0.0, width, mean) if lo < c < hi)})
    total = sum(
        integrate.quad(integrand, a, b, epsabs=1e-14, epsrel=1e-12, limit=200)[0]
        for a, b in itertools.pairwise(cuts)
    )
    return total / (s * math.sqrt(2.0 * math.pi))


# ---------------------------------------------------------------- Gaussians and the dense model


def gaussian_from_sites(A: Tensor, W: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    """Means (C, P) and covariances (C, P, P) of q, one class and one row at a time (eq. 3.1)."""
    N, P = A.shape
    means, covariances = [], []
    for j in range(W.shape[1]):
        precision, linear = torch.eye(P, dtype=A.dtype), A.new_zeros(P)
        for n in range(N):
            precision = precision + W[n, j] * torch.outer(A[n], A[n])
            linear = linear + G[n, j] * A[n]
        S = torch.linalg.inv(precision)
        covariances.append(S)
        means.append(S @ linear)
    return torch.stack(means), torch.stack(covariances)


def torch_kl(mean: Tensor, cov: Tensor, prior_mean: Tensor, prior_cov: Tensor) -> Tensor:
    """KL of two dense Gaussians from torch.distributions."""
    normal = torch.distributions.MultivariateNormal
    return torch.distributions.kl_divergence(normal(mean, cov), normal(prior_mean, prior_cov))


def dense_binary_posterior(
    K: Tensor, row_terms: Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]], steps: int = 400
) -> tuple[Tensor, Tensor, float]:
    """Mean, covariance and bound of q(f) = N(mu, Sigma) on the rows, without inducing points.

    ``row_terms(mean, var)`` returns value, slope and site precision per row.
    Sigma^{-1} = K^{-1} + diag(W) is iterated in the space of f.
    """
    N = K.shape[0]
    W, G = K.new_zeros(N), K.new_zeros(N)
    for _ in range(steps):
        Sigma = torch.linalg.solve(torch.eye(N, dtype=K.dtype) + K * W, K)
        mu = Sigma @ G
        value, slope, new_W = row_terms(mu, Sigma.diagonal())
        W, G = 0.5 * W + 0.5 * new_W, 0.5 * G + 0.5 * (slope + new_W * mu)
    Sigma = 0.5 * (Sigma + Sigma.mT)
    kl = torch_kl(mu, Sigma, torch.zeros_like(mu), K)
    return mu, Sigma, float(value.sum() - kl)


def elliptical_slice_samples(
    L: np.ndarray,
    log_likelihood: Callable[[np.ndarray], np.ndarray],
    n_latents: int,
    n_chains: int,
    n_steps: int,
    burn_in: int,
    seed: int,
) -> np.ndarray:
    """Draws from prior N(0, L L^T) per latent times a likelihood, shape (draws, J, N).

    Many chains at once (Murray, Adams and MacKay 2010); ``log_likelihood``
    maps (chains, J, N) to (chains,).
    """
    rng = np.random.default_rng(seed)
    N = L.shape[0]

    def prior_draw() -> np.ndarray:
        return rng.standard_normal((n_chains, n_latents, N)) @ L.T

    f = prior_draw()
    now = log_likelihood(f)
    kept = []
    for step in range(n_steps):
        nu = prior_draw()
        level = now + np.log(rng.random(n_chains))
        angle = rng.random(n_chains) * 2.0 * np.pi
        low, high = angle - 2.0 * np.pi, angle.copy()
        open_ = np.ones(n_chains, dtype=bool)
        new, new_value = f.copy(), now.copy()
        while open_.any():
            t = angle[open_, None, None]
            proposal = f[open_] * np.cos(t) + nu[open_] * np.sin(t)
            value = log_likelihood(proposal)
            index = np.flatnonzero(open_)
            accepted = value > level[open_]
            new[index[accepted]], new_value[index[accepted]] = proposal[accepted], value[accepted]
            open_[index[accepted]] = False
            left = index[~accepted]
            low[left] = np.where(angle[left] < 0, angle[left], low[left])
            high[left] = np.where(angle[left] >= 0, angle[left], high[left])
            angle[left] = low[left] + rng.random(left.size) * (high[left] - low[left])
        f, now = new, new_value
        if step >= burn_in:
            kept.append(f)
    return np.concatenate(kept)
