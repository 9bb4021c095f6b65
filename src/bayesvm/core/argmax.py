"""Which latent function is largest: probabilities, and their logarithms far into the tail."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bayesvm.core.elementwise import exp_, normal_cdf

__all__ = ["argmax_probability", "log_variation_ratio"]

_INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


def argmax_probability(F: Tensor, s2: Tensor, n_nodes: int = 64) -> Tensor:
    r"""P(argmax_j f_j = c) = int N(f; F_c, s_c^2) prod_{j != c} Phi((f - F_j)/s_j) df (eq. 6.1).

    One grid per row serves all classes: it spans the few standard deviations
    where the maximum can be. Rows sum to one.
    """
    s = s2.sqrt()
    lower = (F - 6.0 * s).amax(1, keepdim=True)
    upper = (F + 6.0 * s).amax(1, keepdim=True)
    grid = torch.linspace(0.0, 1.0, n_nodes, dtype=F.dtype, device=F.device)
    x = lower + (upper - lower) * grid
    z = (x[:, None, :] - F[:, :, None]) / s[:, :, None]
    Phi = normal_cdf(z)
    hazard = exp_(z.square_(), -0.5).mul_((_INV_SQRT_2PI / s)[:, :, None]).div_(Phi)
    P = torch.matmul(hazard, Phi.prod(1)[:, :, None])[:, :, 0]
    return P / P.sum(1, keepdim=True)


def _log_phi_terms(f: Tensor, F: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log Phi(z), its derivative and second derivative with respect to f."""
    z = (f - F) / s
    log_Phi = torch.special.log_ndtr(z)
    # Far below, phi/Phi tends to -z and its logarithm would cancel.
    ratio = torch.where(z < -1e4, -z, torch.exp(-0.5 * z * z - _LOG_SQRT_2PI - log_Phi))
    return log_Phi, ratio / s, -ratio * (z + ratio) / (s * s)


def _log_probability_that(j: Tensor, F: Tensor, s: Tensor, n_nodes: int) -> Tensor:
    """Log P(argmax = j) for one class index per row, accurate far into the tail (eq. 6.3).

    The integrand is log-concave: Newton to its mode, then a trapezoid in
    f = mode + width * sinh(t), all in logarithms.
    """
    own = j[:, None]
    F_j, s_j = F.gather(1, own), s.gather(1, own)
    # The own class drops out of the product: Phi = 1 there.
    others = F.scatter(1, own, -torch.inf)

    def log_integrand(f: Tensor) -> Tensor:  # f [N, Q]
        z = (f[:, None, :] - others[:, :, None]) / s[:, :, None]
        gauss = -0.5 * ((f - F_j) / s_j).square() - _LOG_SQRT_2PI - s_j.log()
        return gauss + torch.special.log_ndtr(z).sum(1)

    f = F.amax(1, keepdim=True)
    lower, upper = F_j.clone(), f.clone()
    curvature = s_j
    for _ in range(60):
        _, d1, d2 = _log_phi_terms(f, others, s)
        d1, d2 = torch.nan_to_num(d1, nan=0.0), torch.nan_to_num(d2, nan=0.0)
        slope = -(f - F_j) / s_j.square() + d1.sum(1, keepdim=True)
        curvature = 1.0 / s_j.square() - d2.sum(1, keepdim=True)
        # The mode is right of F_j; bisection guards Newton.
        lower = torch.where(slope > 0, f, lower)
        upper = torch.where(slope > 0, torch.maximum(upper, f + 2.0 * slope / curvature), f)
        step = f + slope / curvature
        inside = (step >= lower) & (step <= upper)
        new = torch.where(inside, step, 0.5 * (lower + upper))
        done = bool(((new - f).abs() <= 1e-10 * (1.0 + f.abs())).all())
        f = new
        if done:
            break
    width = curvature.rsqrt()
    t = torch.linspace(-6.0, 6.0, n_nodes, dtype=F.dtype, device=F.device)
    nodes = f + width * torch.sinh(t)
    log_weight = torch.log(torch.cosh(t)) + math.log(12.0 / (n_nodes - 1)) + width.log()
    return torch.logsumexp(log_integrand(nodes) + log_weight, 1)


def log_variation_ratio(F: Tensor, s2: Tensor, max_rivals: int = 8, n_nodes: int = 81) -> Tensor:
    """log(1 - max_c P(argmax = c)), strictly ordered where the ratio itself is zero (eqs. 6.2, 6.3).

    Sums the classes most likely to win instead of the favourite, at most
    ``max_rivals`` of them; where the ratio is not small the normalised
    probabilities are used, which sum over all classes.
    """
    C = F.shape[1]
    s = s2.sqrt()
    P = argmax_probability(F, s2)
    best = P.argmax(1)
    own = best[:, None]
    gap = (F.gather(1, own) - F) / (s2.gather(1, own) + s2).sqrt()
    gap = gap.scatter(1, own, torch.inf)
    K = min(max_rivals, C - 1)
    rivals = gap.topk(K, dim=1, largest=False).indices
    tail = torch.stack([_log_probability_that(rivals[:, k], F, s, n_nodes) for k in range(K)], 1)
    direct = 1.0 - P.gather(1, own)[:, 0]
    log_tail = torch.logsumexp(tail, 1).clamp_max(0.0)
    return torch.where(direct > 1e-3, direct.clamp_min(1e-3).log(), log_tail)
