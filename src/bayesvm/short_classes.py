"""Leave-one-out on equal terms where a row is much of its class (eq. 5.8)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bayesvm import defaults
from bayesvm.core import gaussian
from bayesvm.core.grouping import grouped_pairs
from bayesvm.core.leave_one_out import MIN_REMAINING, part_left_out
from bayesvm.inference.blocks import Block, TrainingRows
from bayesvm.inference.evaluate import Ascent, Sites
from bayesvm.inference.rivals import OneRival

__all__ = ["ShortClasses", "short_classes"]


@dataclass(frozen=True)
class ShortClasses:
    """What classes would lose if they lost rows as a class of few rows does in leave-one-out.

    Attributes
    ----------
    mass : Tensor of shape (C,)
        Weights of the classes.
    lost : Tensor of shape (C, P)
        What the means of each class owe to the rows of that class.
    """

    mass: Tensor
    lost: Tensor

    def on_equal_terms(self, F: Tensor, block: Block, part: Tensor) -> Tensor:
        """Means without the row, (N, C), where the rivals of a short class lose the share that it lost."""
        share = part / self.mass[block.y]
        share = torch.where(self.mass[block.y] < defaults.SHORT_CLASS, share, 0.0)[:, None]
        loss = (block.features.A @ self.lost.mT).mul_(share)
        return F - loss.scatter_(1, block.y[:, None], 0.0)


def short_classes(rows: TrainingRows, ascent: Ascent) -> ShortClasses | None:
    """What classes owe to their rows; None unless classes of few rows have most of the weight.

    A few such classes among larger ones change little in the sums over all
    rows, and that leave-one-out speaks against them keeps probabilities cautious.

    Parameters
    ----------
    rows : TrainingRows
        All rows of the fit.
    ascent : Ascent
    """
    q, sites = ascent.q, ascent.sites
    C = rows.n_classes
    mass = rows.weight.new_zeros(C).index_add_(0, rows.y, rows.weight)
    short = mass[rows.y] < defaults.SHORT_CLASS
    most = float(rows.weight[short].sum()) > 0.5 * float(rows.weight.sum())
    if ascent.chains is not None or q.m.shape[0] != C or not most:
        return None
    pull, part = torch.zeros_like(q.m), part_left_out(rows.weight, rows.y, C)
    with torch.no_grad():
        roots = gaussian.roots(q)
        for block in rows.blocks(OneRival(sampled=False).block_rows(q)):
            A, y = block.features.A, block.y[:, None]
            F, V = grouped_pairs(A, y, C).moments(roots)
            W, G = _own(sites, block.rows, y)
            unit = part[block.rows, None]
            slope = block.weight[:, None] * (G - W * F) / (1.0 - unit * W * V).clamp_min(MIN_REMAINING)
            pull.index_add_(0, block.y, slope * A)
        lost = torch.cholesky_solve(pull.unsqueeze(-1), q.R).squeeze(-1)
    return ShortClasses(mass, lost)


def _own(sites: Sites, rows: slice, y: Tensor) -> tuple[Tensor, Tensor]:
    """W and G of the classes y (n, 1) of some rows, shape (n, 1)."""
    W, G = sites.W[rows], sites.G[rows]
    if sites.classes is None:
        return W.gather(1, y), G.gather(1, y)
    mine = sites.classes[rows] == y
    return (W * mine).sum(1, keepdim=True), (G * mine).sum(1, keepdim=True)
