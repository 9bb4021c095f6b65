"""Latents of every row without that row: in closed form from sites, or by weighting draws."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bayesvm.core import gaussian
from bayesvm.core.importance import RELIABLE_SHAPE, resampled, smoothed_weights
from bayesvm.core.leave_one_out import cavity, part_left_out
from bayesvm.core.predictive import normal_nodes
from bayesvm.inference.blocks import TrainingRows
from bayesvm.inference.chains import Chains
from bayesvm.inference.evaluate import Ascent
from bayesvm.latents import dealt_latents, latents_of_classes, spread_of_draws
from bayesvm.local_part import LoadedLocal
from bayesvm.short_classes import ShortClasses

__all__ = ["LeaveOneOut", "leave_one_out"]

_BLOCK_NUMBERS = 2_000_000
_MIN_VARIANCE = 1e-10
# Equally likely draws that stand for the weighted ones.
_RESAMPLED = 128


@dataclass(frozen=True)
class LeaveOneOut:
    """Latent moments per class of every distinct row without that row (section 5, eq. 8.39).

    Attributes
    ----------
    F, s2 : Tensor of shape (N, C)
    remaining : Tensor of shape (N,)
        What is left of the posterior without the row; zero where that cannot be told.
    deviations : Tensor of shape (N, C, S) or None
        Where the posterior was sampled: equally likely latents less their means.
    """

    F: Tensor
    s2: Tensor
    remaining: Tensor
    deviations: Tensor | None = None


def leave_one_out(
    rows: TrainingRows,
    ascent: Ascent,
    local: LoadedLocal | None = None,
    short: ShortClasses | None = None,
    complete: bool = True,
) -> LeaveOneOut:
    """Leave-one-out moments of all rows, block by block; on equal terms for rows of short classes.

    ``complete`` says whether the rows are all there are, or a sample of them.
    """
    with torch.no_grad():
        part = part_left_out(rows.weight, rows.y if complete else None, rows.n_classes)
        if ascent.chains is not None:
            return _from_draws(rows, ascent.chains, part)
        return _from_sites(rows, ascent, part, local, short)


def _from_sites(
    rows: TrainingRows,
    ascent: Ascent,
    part: Tensor,
    local: LoadedLocal | None,
    short: ShortClasses | None,
) -> LeaveOneOut:
    """In closed form (eqs. 5.1, 5.2, 5.8, 10.3)."""
    q = ascent.q
    J, P = q.m.shape
    out = _empty(rows)
    for block in rows.blocks(_BLOCK_NUMBERS // (J * max(P, 48))):
        A, residual = block.features
        unit = part[block.rows, None]
        W, G = ascent.sites.dense(block.rows, J)
        left = cavity(gaussian.mean(q, A), gaussian.variance(q, A), unit * W, unit * G)
        F = (
            left.F
            if local is None
            else left.F + local.mean_without_self(block.rows, block.weight, unit[:, 0])
        )
        F = F if short is None else short.on_equal_terms(F, block, unit[:, 0])
        out.F[block.rows], out.s2[block.rows] = latents_of_classes(F, left.V + residual[:, None])
        out.remaining[block.rows] = left.remaining.amin(1)
    return out


def _from_draws(rows: TrainingRows, chains: Chains, part: Tensor) -> LeaveOneOut:
    """By weighting draws with one over the likelihood of what is left out of the row (eq. 8.39)."""
    f, log_likelihood = chains.f.flatten(0, 1), chains.log_likelihood.flatten(0, 1)
    S, _, J = f.shape
    out = _empty(rows)
    deviations = out.F.new_empty(*out.F.shape, _RESAMPLED)
    nodes = normal_nodes(_RESAMPLED, J).to(out.F)
    for block in rows.blocks(_BLOCK_NUMBERS // (S * J)):
        unit = part[block.rows]
        weight, shape = smoothed_weights(-unit * log_likelihood[:, block.rows].to(unit.dtype))
        draws = f[:, block.rows].to(unit.dtype)
        F = (weight[..., None] * draws).sum(0)
        V = spread_of_draws((weight[..., None] * (draws - F).square()).sum(0), chains.centred)
        some = draws.gather(0, resampled(weight, _RESAMPLED)[..., None].expand(-1, -1, J)) - F
        if not chains.fitc:  # the residual was left out of the draws
            residual = block.features.residual[:, None]
            V, some = V + residual, some + residual.sqrt() * nodes[:, None, :]
        out.F[block.rows], out.s2[block.rows] = latents_of_classes(F, V.clamp_min(_MIN_VARIANCE))
        out.remaining[block.rows] = (shape <= RELIABLE_SHAPE).to(unit.dtype)
        deviations[block.rows] = dealt_latents(some).permute(1, 2, 0)
    return replace(out, deviations=deviations)


def _empty(rows: TrainingRows) -> LeaveOneOut:
    F, s2 = (rows.X.new_empty(len(rows), rows.n_classes) for _ in range(2))
    return LeaveOneOut(F, s2, rows.X.new_empty(len(rows)))
