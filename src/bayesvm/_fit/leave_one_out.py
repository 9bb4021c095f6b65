"""Leave-one-out probabilities and scores of a fit, and the calibration fitted to them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm._core import gaussian
from bayesvm._core.calibration import Calibration, Deviations, fit_calibration, member_weights
from bayesvm._core.chains import RELIABLE_SHAPE, Chains, resampled, smoothed_weights
from bayesvm._core.grouping import grouped_pairs
from bayesvm._core.likelihoods import ProperLikelihood
from bayesvm._core.likelihoods.base import per_class_latents, per_class_moments, per_member_moments
from bayesvm._core.predictive import expected_softmax, normal_nodes
from bayesvm._core.sites import MIN_REMAINING, Cavity, cavity
from bayesvm._fit import defaults
from bayesvm._fit.groups import without_groups
from bayesvm._fit.local import LoadedLocal, LocalPart
from bayesvm._fit.train import Trained
from bayesvm._inference.blocks import Block, TrainingRows
from bayesvm._inference.rivals import OneRival
from bayesvm._inference.task import Ascent, Sites
from bayesvm._judgement import Gain, LeftOut, gain_over_frequencies
from bayesvm._model import pooled
from bayesvm._prediction import spread_of_draws

# --- Leave-one-out on equal terms where a row is much of its class (eq. 5.8).


@dataclass(frozen=True)
class ShortClasses:
    """What classes would lose if they lost rows as a class of few rows does in leave-one-out.

    Attributes
    ----------
    mass : Tensor of shape (C,)
        Weights of the classes.
    lost : Tensor of shape (J, P)
        What the means of each class owe to the rows of that class, for every member of a committee.
    """

    mass: Tensor
    lost: Tensor

    def on_equal_terms(self, F: Tensor, block: Block, part: Tensor) -> Tensor:
        """Means without the row, (N, J), where the rivals of a short class lose the share that it lost."""
        share = part / self.mass[block.y]
        share = torch.where(self.mass[block.y] < defaults.SHORT_CLASS, share, 0.0)[:, None]
        loss = (block.features.A @ self.lost.mT).mul_(share)
        own = torch.arange(0, loss.shape[1], len(self.mass), device=loss.device) + block.y[:, None]
        return F - loss.scatter_(1, own, 0.0)


def short_classes(rows: TrainingRows, ascent: Ascent, n_members: int = 1) -> ShortClasses | None:
    """What classes owe to their rows (eq. 5.8); None unless classes of few rows have most of the weight.

    A few such classes among larger ones change little in the sums over all
    rows, and the penalty that leave-one-out puts on them keeps probabilities cautious.

    Parameters
    ----------
    rows : TrainingRows
        All rows of the fit.
    ascent : Ascent
    n_members : int
    """
    q, sites = ascent.own, ascent.sites
    C = rows.n_classes
    mass = rows.weight.new_zeros(C).index_add_(0, rows.y, rows.weight)
    short = mass[rows.y] < defaults.SHORT_CLASS
    most = float(rows.weight[short].sum()) > 0.5 * float(rows.weight.sum())
    if ascent.chains is not None or q.m.shape[0] != n_members * C or not most:
        return None
    pull = torch.zeros_like(q.m)
    with torch.no_grad():
        roots = gaussian.roots(q)
        for block in rows.blocks(OneRival(sampled=False).block_rows(q)):
            A, unit = block.features.A, rows.unit[block.rows, None]
            for own in range(0, n_members * C, C):
                y = own + block.y
                F, V = grouped_pairs(A, y[:, None], n_members * C).moments(roots)
                W, G = _own(sites, block.rows, y[:, None])
                slope = block.weight[:, None] * (G - W * F) / (1.0 - unit * W * V).clamp_min(MIN_REMAINING)
                pull.index_add_(0, y, slope * A)
        lost = torch.cholesky_solve(pull.unsqueeze(-1), q.R).squeeze(-1)
    return ShortClasses(mass, lost)


def _own(sites: Sites, rows: slice, y: Tensor) -> tuple[Tensor, Tensor]:
    """W and G of the classes y (n, 1) of some rows, shape (n, 1)."""
    W, G = sites.W[rows], sites.G[rows]
    if sites.classes is None:
        return W.gather(1, y), G.gather(1, y)
    mine = sites.classes[rows] == y
    return (W * mine).sum(1, keepdim=True), (G * mine).sum(1, keepdim=True)


# --- Latents of every row without that row: in closed form from sites, or by weighting draws.


_BLOCK_NUMBERS = 2_000_000
_MIN_VARIANCE = 1e-10
# Equally likely draws, resampled from the weighted ones.
_RESAMPLED = 128


@dataclass(frozen=True)
class LeaveOneOut:
    """Latent moments per class of every distinct row without that row (section 5, eq. 8.39).

    Attributes
    ----------
    F, s2 : Tensor of shape (M, N, C)
        Of every member of a committee.
    remaining : Tensor of shape (N,)
        What is left of the posterior without the row; zero where that is unknown.
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
    n_members: int = 1,
) -> LeaveOneOut:
    """Leave-one-out moments of all rows, block by block; on equal terms for rows of short classes."""
    with torch.no_grad():
        if ascent.chains is not None:
            return _from_draws(rows, ascent.chains)
        return _from_sites(rows, ascent, local, short, n_members)


def _from_sites(
    rows: TrainingRows,
    ascent: Ascent,
    local: LoadedLocal | None,
    short: ShortClasses | None,
    n_members: int,
) -> LeaveOneOut:
    """In closed form (eqs. 5.1, 5.2, 5.8, 5.10, 10.3)."""
    q = ascent.own
    J, P = q.m.shape
    out = _empty(rows, n_members)
    joint = None if rows.group is None else without_groups(rows, rows.group, ascent)
    for block in rows.blocks(_BLOCK_NUMBERS // (J * max(P, 48))):
        A, residual = block.features
        unit = rows.unit[block.rows, None]
        if joint is None:
            W, G = ascent.sites.dense(block.rows, J)
            left = cavity(gaussian.mean(q, A), gaussian.variance(q, A), unit * W, unit * G)
        else:
            left = Cavity(*(column[block.rows] for column in joint))
        F = left.F if local is None else left.F + local.mean_without_self(rows, block.rows)
        F = F if short is None else short.on_equal_terms(F, block, unit[:, 0])
        s2 = left.V + residual[:, None]
        out.F[:, block.rows], out.s2[:, block.rows] = per_member_moments(F, s2, n_members)
        out.remaining[block.rows] = left.remaining.amin(1)
    return out


def _from_draws(rows: TrainingRows, chains: Chains) -> LeaveOneOut:
    """By weighting draws with one over the likelihood of what is left out with the row (eq. 8.39)."""
    f, log_likelihood = chains.f.flatten(0, 1), chains.log_likelihood.flatten(0, 1)
    lost = log_likelihood.to(rows.unit.dtype) * rows.unit
    if rows.group is not None:
        lost = lost.new_zeros(lost.shape[0], int(rows.group.max()) + 1).index_add_(1, rows.group, lost)
    S, _, J = f.shape
    out = _empty(rows, 1)
    deviations = out.F.new_empty(*out.F.shape[1:], _RESAMPLED)
    nodes = normal_nodes(_RESAMPLED, J).to(out.F)
    for block in rows.blocks(_BLOCK_NUMBERS // (S * J)):
        which = block.rows if rows.group is None else rows.group[block.rows]
        weight, shape = smoothed_weights(-lost[:, which])
        draws = f[:, block.rows].to(lost.dtype)
        F = (weight[..., None] * draws).sum(0)
        V = spread_of_draws((weight[..., None] * (draws - F).square()).sum(0), chains.centred)
        some = draws.gather(0, resampled(weight, _RESAMPLED)[..., None].expand(-1, -1, J)) - F
        if not chains.fitc:  # the residual was left out of the draws
            residual = block.features.residual[:, None]
            V, some = V + residual, some + residual.sqrt() * nodes[:, None, :]
        out.F[0, block.rows], out.s2[0, block.rows] = per_class_moments(F, V.clamp_min(_MIN_VARIANCE))
        out.remaining[block.rows] = (shape <= RELIABLE_SHAPE).to(lost.dtype)
        deviations[block.rows] = per_class_latents(some).permute(1, 2, 0)
    return replace(out, deviations=deviations)


def _empty(rows: TrainingRows, n_members: int) -> LeaveOneOut:
    F, s2 = (rows.X.new_empty(n_members, len(rows), rows.n_classes) for _ in range(2))
    return LeaveOneOut(F, s2, rows.X.new_empty(len(rows)))


FloatArray = npt.NDArray[np.floating]
_CALIBRATION_ROWS = 3000
_CALIBRATION_NUMBERS = 600_000
_FEWEST_CALIBRATION_ROWS = 200
# Leave-one-out probabilities up to this many numbers are computed and kept;
# beyond it only those of the first canonical rows, which are a random sample.
MOST_PROBABILITIES = 20_000_000
_FEWEST_JUDGED = 256
_SUMMARY_NUMBERS = 1_000_000
_NODES = 128


@dataclass(frozen=True)
class LeaveOneOutSummary:
    """Leave-one-out of the distinct training rows, or of the first of them where classes are many.

    Attributes
    ----------
    proba : ndarray of shape (M, C) or None
        None where it would not be of all rows, or where leave-one-out is unavailable.
    rows : LeftOut
        No row where leave-one-out is unavailable.
    score, log_loss : float
        Weighted accuracy and log-loss; NaN where leave-one-out is unavailable.
    gain : Gain
        Of the log-loss over the class frequencies' own; NaN likewise.
    calibration : tuple of Calibration
        Of every member.
    clipped : float
        Share of the weight in rows for which the closed form is unreliable.
    """

    proba: FloatArray | None
    rows: LeftOut
    score: float
    log_loss: float
    gain: Gain
    calibration: tuple[Calibration, ...]
    clipped: float


def summarise(
    trained: Trained,
    mean_decides: bool = False,
    likelihood: ProperLikelihood | None = None,
    local: LocalPart | None = None,
) -> LeaveOneOutSummary:
    """Fit the calibration to the leave-one-out latents and score the result.

    Parameters
    ----------
    trained : Trained
    mean_decides : bool
        Whether the largest latent mean is to be the most probable class:
        then means are not mixed, and the classes of a row share a variance.
    likelihood : ProperLikelihood or None
        One that has class probabilities of its own: they are used as they
        are, without calibration.
    local : LocalPart or None
        What the latents get from rows close by.
    """
    n_judged = max(_FEWEST_JUDGED, MOST_PROBABILITIES // trained.rows.n_classes)
    rows = trained.rows if trained.rows.group is not None else trained.rows.head(n_judged)
    nearby = None if local is None else local.on(str(rows.X.device))
    # Where other rows were fitted too, those in memory do not give the sizes of the classes.
    known = trained.forgotten is None and trained.outside_weight == 0.0
    none = (Calibration(1.0),) * trained.n_members
    if not trained.ascent.loo_valid and (likelihood is not None or trained.ascent.site_gaussian is None):
        return _nothing_foretold(none)
    n_members = trained.n_members
    short = short_classes(trained.rows, trained.ascent, n_members) if known and rows.group is None else None
    loo = leave_one_out(rows, trained.ascent, nearby, short, n_members)
    if mean_decides:
        loo = replace(loo, s2=pooled(loo.s2))
    affordable = max(_FEWEST_CALIBRATION_ROWS, _CALIBRATION_NUMBERS // rows.n_classes + 1)
    n = min(len(rows), _CALIBRATION_ROWS, affordable)
    with torch.no_grad():
        if likelihood is not None:
            calibration = none
        else:
            around = loo.s2 if loo.deviations is None else [Deviations(loo.deviations)]
            labels, evidence = rows.y[:n], rows.evidence[:n]
            each = [
                fit_calibration(F[:n], s2[:n], labels, evidence, not mean_decides, short is not None)
                for F, s2 in zip(loo.F, around, strict=True)
            ]
            calibration = _weighted(each, loo, labels, evidence)
        if not trained.ascent.loo_valid:  # a temperature from a posterior far from q beats none
            return _nothing_foretold(calibration)
        proba = _probabilities(loo, calibration, likelihood)
    y = rows.y.cpu().numpy()
    weight = rows.weight.to(torch.float64).cpu().numpy()
    total = weight.sum()
    unit = rows.unit.to(torch.float64).cpu().numpy()
    left = LeftOut.of(proba, y, weight, unit)
    gain = gain_over_frequencies(left.label_proba, y, _masses(trained.rows), weight, unit, left_out=True)
    return LeaveOneOutSummary(
        proba=proba if len(rows) == len(trained.rows) else None,
        rows=left,
        score=float(weight @ left.correct / total),
        log_loss=gain.log_loss,
        gain=gain,
        calibration=calibration,
        clipped=float(weight @ (loo.remaining <= MIN_REMAINING).cpu().numpy() / total),
    )


def _nothing_foretold(calibration: tuple[Calibration, ...]) -> LeaveOneOutSummary:
    """The summary of a posterior that its sites did not make, nor anything near it."""
    none = LeftOut(*([np.empty(0)] * 5))
    gain = Gain(np.nan, np.nan, np.nan)
    return LeaveOneOutSummary(None, none, np.nan, np.nan, gain, calibration, 0.0)


def _masses(rows: TrainingRows) -> FloatArray:
    weight = rows.weight.to(torch.float64).cpu().numpy()
    return np.asarray(np.bincount(rows.y.cpu().numpy(), weight, rows.n_classes), dtype=np.float64)


def probabilities_left_out(
    rows: TrainingRows,
    ascent: Ascent,
    calibration: tuple[Calibration, ...],
    mean_decides: bool = False,
    likelihood: ProperLikelihood | None = None,
) -> FloatArray:
    """Class probabilities of rows without themselves under a calibration that is known, shape (M, C).

    The rows are any of a fit. Those of weight zero took no part: theirs are predictions.
    """
    loo = leave_one_out(rows, ascent, n_members=len(calibration))
    if mean_decides:
        loo = replace(loo, s2=pooled(loo.s2))
    with torch.no_grad():
        return _probabilities(loo, calibration, likelihood)


def _weighted(
    each: list[Calibration], loo: LeaveOneOut, y: Tensor, evidence: Tensor
) -> tuple[Calibration, ...]:
    """The calibrations with the weights that the first rows give to their members (eq. 11.3)."""
    if len(each) == 1:
        return tuple(each)
    n, own = len(y), y[:, None]
    proba = [
        expected_softmax(*member.of(F[:n], s2[:n])).gather(1, own)[:, 0]
        for member, F, s2 in zip(each, loo.F, loo.s2, strict=True)
    ]
    weights = member_weights(torch.stack(proba), evidence).tolist()
    return tuple(replace(member, weight=w) for member, w in zip(each, weights, strict=True))


def _probabilities(
    loo: LeaveOneOut,
    calibration: tuple[Calibration, ...],
    likelihood: ProperLikelihood | None,
) -> FloatArray:
    """Class probabilities of every row without it, shape (N, C) (eq. 11.2)."""
    N, C = loo.F.shape[1:]
    proba = np.zeros((N, C))
    size = max(1, _SUMMARY_NUMBERS // (_NODES * C))
    for member, F, s2 in zip(calibration, loo.F, loo.s2, strict=True):
        for i in range(0, N if member.weight else 0, size):
            part = slice(i, i + size)
            if loo.deviations is not None:
                d = loo.deviations[part].permute(2, 0, 1)
                if likelihood is not None:
                    p = likelihood.conditional(F[part] + d).mean(0)
                else:
                    p = member.at_draws(F[part], d).mean(0)
            elif likelihood is None:
                p = expected_softmax(*member.of(F[part], s2[part]))
            else:
                p = likelihood.probabilities(F[part], s2[part]).proba
            proba[part] += member.weight * p.cpu().numpy()
    return proba
