"""One pass over the rows: value, sites and the natural parameters they ask for."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm.core.gaussian import Gaussian
from bayesvm.core.sites import Statistics
from bayesvm.inference.blocks import TrainingRows
from bayesvm.inference.chains import Chains
from bayesvm.inference.natural_parameters import Natural
from bayesvm.inference.rivals import RivalRule

__all__ = ["Ascent", "Evaluation", "Sites", "evaluate"]


class Sites(NamedTuple):
    """Sites of all rows for one unit of weight.

    Attributes
    ----------
    classes : Tensor of shape (N, K) or None
        Latent functions that the columns touch; None: all of them, in order.
    W, G : Tensor of shape (N, K)
        Precisions and linear parts (eq. 3.3).
    """

    classes: Tensor | None
    W: Tensor
    G: Tensor

    def dense(self, rows: slice, n_latents: int) -> tuple[Tensor, Tensor]:
        """W and G of some rows over all latent functions, shape (n, C)."""
        if self.classes is None:
            return self.W[rows], self.G[rows]
        index = self.classes[rows].long()
        zero = self.W.new_zeros(index.shape[0], n_latents)
        return zero.scatter_add(1, index, self.W[rows]), zero.scatter_add(1, index, self.G[rows])


class Evaluation(NamedTuple):
    """What one pass over the rows under q gives."""

    value: float
    target: Natural
    sites: Sites


class Ascent(NamedTuple):
    """A finished optimisation of q.

    Attributes
    ----------
    q : Gaussian
    natural : Natural
    sites : Sites
        The sites that made q.
    curve : list of float
        The bound after every sweep (its approximation with one rival).
    n_iter : int
        Sweeps, or epochs with minibatches; refused steps count.
    converged, interrupted : bool
    gap : float or None
        Of the mode: by what share its objective could be better, at most;
        where functions have objectives of their own, that of the worst.
    chains : Chains or None
        Draws from the posterior, where they were asked for. The rest is then
        the variational fit that they started from, except that ``n_iter``,
        ``converged`` and ``interrupted`` are those of the chains.
    """

    q: Gaussian
    natural: Natural
    sites: Sites
    curve: list[float]
    n_iter: int
    converged: bool
    interrupted: bool
    gap: float | None = None
    chains: Chains | None = None


def evaluate(rows: TrainingRows, rule: RivalRule, q: Gaussian, base: Natural, sweep: int) -> Evaluation:
    """Expected log-likelihood, the natural parameters q should move to, and the sites."""
    J, P = q.m.shape
    sums = Statistics.zeros(J, P, q.m)
    value = q.m.new_zeros(())
    parts: list[Sites] = []
    sites_of = rule.under(q, sweep)
    for block in rows.blocks(rule.block_rows(q)):
        sites = sites_of(block, sums)
        value = value + torch.dot(block.weight, sites.value)
        parts.append(Sites(sites.classes, sites.W, sites.G))
    # In place: with many classes another copy would cost as much as the sums.
    target = Natural(sums.precision.add_(base.precision), sums.linear.add_(base.linear))
    return Evaluation(float(value), target, _join(parts))


def _join(parts: list[Sites]) -> Sites:
    if len(parts) == 1:
        return parts[0]
    classes = [p.classes for p in parts if p.classes is not None]
    return Sites(
        torch.cat(classes) if classes else None,
        torch.cat([p.W for p in parts]),
        torch.cat([p.G for p in parts]),
    )
