"""Gibbs sampling for likelihoods that are Gaussian given local scales (eqs. 8.30 to 8.33)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from bayesvm._core import linalg
from bayesvm._core.likelihoods import ScaleMixture
from bayesvm._core.sites import Statistics, dense_statistics
from bayesvm._inference.blocks import Block
from bayesvm._inference.sampling import sample
from bayesvm._inference.task import Ascent, Member, Method, Outcome, Task
from bayesvm._progress import Progress

# Chains start this many standard deviations of q apart, so that agreement means something.
_OVERDISPERSION = 2.0
_BLOCK_NUMBERS = 2_000_000


class GibbsChains:
    """Scales given latents, inducing values given scales, latents given both; all chains at once.

    Latents are integrated out when the inducing values are drawn (eq. 8.32):
    only then do chains move where the residuals are small.
    """

    def __init__(self, task: Task, ascent: Ascent) -> None:
        assert isinstance(task.member.likelihood, ScaleMixture)
        self._likelihood: ScaleMixture = task.member.likelihood
        self._rows, self._base, self._fitc = task.rows, task.base, task.settings.fitc
        self._generator = torch.Generator().manual_seed(task.settings.seed)
        q, self._n_chains = ascent.q, task.settings.n_chains
        J, P = q.m.shape
        noise = self._normal(q.m, J, P, self._n_chains)
        deviation = linalg.solve_lower_transposed(q.R, noise).permute(2, 0, 1)
        self.v: Tensor = q.m + _OVERDISPERSION * deviation
        self.f: Tensor = self.v.new_empty(self._n_chains, len(self._rows), J)
        noise = self._normal(self.f, *self.f.shape)
        for block in self._blocks():
            A, residual = block.features
            self.f[:, block.rows] = (self.v @ A.mT).mT
            if self._fitc:
                self.f[:, block.rows] += residual.sqrt()[:, None] * noise[:, block.rows]

    def advance(self) -> None:
        """One sweep: scales, inducing values, latents (eqs. 8.30, 8.32, 8.33)."""
        K, N, J = self.f.shape
        P = self.v.shape[2]
        sites = self._likelihood.drawn_sites(self._rows.y, self.f, self._rows.weight, self._generator)
        sums = Statistics.zeros(K * J, P, self.v)
        for block in self._blocks():
            A, residual = block.features
            target, variance = sites.target[:, block.rows], sites.variance[:, block.rows]
            total = variance + residual[:, None] if self._fitc else variance
            W = total.reciprocal().transpose(0, 1).reshape(-1, K * J)
            precision, linear = dense_statistics(A, W, W * target.transpose(0, 1).reshape(-1, K * J))
            sums.precision.add_(precision)
            sums.linear.add_(linear)
        precision = sums.precision.reshape(K, J, P, P) + self._base.precision
        linear = sums.linear.reshape(K, J, P) + self._base.linear
        R = linalg.cholesky_precision(precision)
        # One solve for mean and noise: R^{-T} (R^{-1} h + z).
        white = linalg.solve_lower(R, linear[..., None]) + self._normal(self.v, K, J, P, 1)
        self.v = linalg.solve_lower_transposed(R, white)[..., 0]
        noise = self._normal(self.f, K, N, J) if self._fitc else None
        f = torch.empty_like(self.f)
        for block in self._blocks():
            A, residual = block.features
            mean = (self.v @ A.mT).mT
            if noise is not None:
                k, r = residual[:, None], sites.variance[:, block.rows]
                t = sites.target[:, block.rows]
                mean = (r * mean + k * t) / (r + k) + (k * r / (r + k)).sqrt() * noise[:, block.rows]
            f[:, block.rows] = mean
        self.f = f

    def _blocks(self) -> Iterator[Block]:
        J, P = self._base.linear.shape
        return self._rows.blocks(_BLOCK_NUMBERS // (self._n_chains * J * P))

    def _normal(self, like: Tensor, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self._generator, dtype=torch.float64).to(like)


def _missing(member: Member) -> str | None:
    if isinstance(member.likelihood, ScaleMixture):
        return None
    return f"a likelihood that is a Gaussian scale mixture, and {type(member.likelihood).__name__} is none"


def _run(task: Task, progress: Progress) -> Outcome:
    return sample(task, GibbsChains, progress)


METHOD = Method(_run, max_iter=12_000, missing=_missing, approximations=("fitc", "dtc"))
