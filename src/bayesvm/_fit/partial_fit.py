"""Incremental learning: some rows are remembered, the others are kept as part of q."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm._core.features import inducing_factor, whitened_features
from bayesvm._core.gaussian import Natural
from bayesvm._core.kernels.base import Kernel, Params
from bayesvm._core.likelihoods import members_of
from bayesvm._core.sites import dense_statistics
from bayesvm._fit.rows import CanonicalRows, row_keys
from bayesvm._fit.train import Options, Trained, committee, infer, with_likelihood
from bayesvm._inference.blocks import TrainingRows
from bayesvm._inference.rivals import n_members
from bayesvm._inference.task import Task
from bayesvm._model import LoadedModel, Model, to_numpy
from bayesvm._progress import Progress

FloatArray = npt.NDArray[np.floating]

# With n_inducing="auto" a stream may use this many times the points of a fit.
GROWTH = 2
# A new inducing point must explain at least this share of a row's variance.
_WORTH_ADDING = 0.01
# The kernel is learned anew when the rows have grown by this factor.
_LEARN_AGAIN = 1.25
_MEMORY_ROWS = 2000
_BLOCK_NUMBERS = 2_000_000


@dataclass(frozen=True)
class Memory:
    """What a stream keeps: some rows, and q's natural parameters without them.

    A hinge is flat beyond its margin, so the Gaussian site of a row becomes
    wrong when later rows move the functions there. Remembered rows have
    their sites recomputed in every call, so they keep their influence.

    Attributes
    ----------
    X, y, weight, count : ndarray of shape (M, D), (M,), (M,) and (M,)
        Distinct remembered rows in the units of the data, and how often each was given.
    precision, linear : ndarray of shape (J, P, P) and (J, P), or None
        What q is without the remembered rows; None: the prior, as no row
        has been forgotten.
    learned_from : int
        Rows that the kernel was learned from.
    copied : bool
        Whether equal rows are copies of one.
    group : ndarray of shape (M,) or None
        Numbers of the groups that rows were said to belong to.
    """

    X: FloatArray
    y: npt.NDArray[np.int64]
    weight: FloatArray
    count: npt.NDArray[np.int64]
    precision: FloatArray | None
    linear: FloatArray | None
    learned_from: int
    copied: bool = False
    group: npt.NDArray[np.int64] | None = None

    @property
    def together(self) -> bool:
        """Whether a row is left out with all that is equal to it."""
        return self.copied or self.group is not None

    def faded(self, forgetting: float) -> Memory:
        """The memory after forgetting a share of its information.

        Remembered rows lose that share of their weight, and q without them that
        share of what sets it apart from the prior.
        """
        if not forgetting:
            return self
        kept = 1.0 - forgetting
        if self.precision is None or self.linear is None:
            return replace(self, weight=kept * self.weight)
        eye = np.eye(self.precision.shape[-1])
        return replace(
            self,
            weight=kept * self.weight,
            precision=eye + kept * (self.precision - eye),
            linear=kept * self.linear,
        )


def worth_learning_anew(memory: Memory, data: CanonicalRows) -> bool:
    """Whether all rows are still there and are many more, of more classes or in more columns."""
    if memory.precision is not None:
        return False
    return bool(
        len(data.y) >= _LEARN_AGAIN * memory.learned_from
        or np.unique(data.y).size > np.unique(memory.y).size
        or (np.ptp(memory.X, 0) == 0)[np.ptp(data.X, 0) > 0].any()
    )


def continue_training(
    data: CanonicalRows, model: Model, memory: Memory, options: Options, progress: Progress
) -> Trained:
    """Q from what forgotten rows contributed and the sites of ``data`` (eqs. 3.1, 7.2).

    ``data`` are the remembered rows and the new ones. The kernel, the scale of
    the features and the members of a committee stay as they are; inducing points are added while
    fewer than ``options.n_inducing`` are in use.
    """
    old = model.on(options.device, options.dtype)
    X = old.rows(data.X)
    y = torch.as_tensor(data.y).to(options.device)
    weight, unit = (torch.as_tensor(a).to(options.device, options.dtype) for a in (data.weight, data.unit))
    key = torch.as_tensor(data.key).to(options.device)
    with torch.no_grad():
        Z = torch.cat(
            [old.Z, _new_points(old.kernel, old.params, old.Z, X, options.n_inducing - old.Z.shape[0])]
        )
        rows = TrainingRows(X, y, weight, unit, key, old.kernel, old.params, Z, model.n_classes)
        start, forgotten = Natural.of(old.q), _forgotten(memory, old)
        member = options.member
        if n_members(member.rule) < len(model.calibration):  # more rows than fits of a committee take
            member = committee(model.n_classes)
        elif n_members(member.rule) > len(model.calibration):
            member = with_likelihood(members_of(member.likelihood)[0])
        if Z.shape[0] > old.Z.shape[0]:
            cross = old.kernel.cross(old.params, old.Z, Z)
            start = start.carried(cross, old.Lz, rows.Lz)
            forgotten = None if forgotten is None else forgotten.carried(cross, old.Lz, rows.Lz)
        base = Natural.prior(start.linear.shape[0], rows.Lz) if forgotten is None else forgotten
    # Methods that also move the kernel would lose what forgotten rows contributed.
    method = "natural" if options.inference == "natural" else "coordinate"
    task = Task(rows, member, start, base, options.settings)
    return infer(method, task, [], False, forgotten, progress)


def _forgotten(memory: Memory, old: LoadedModel) -> Natural | None:
    if memory.precision is None or memory.linear is None:
        return None
    return Natural(torch.as_tensor(memory.precision).to(old.Z), torch.as_tensor(memory.linear).to(old.Z))


def remember(trained: Trained, data: CanonicalRows, model: Model, learned_from: int) -> Memory:
    """The rows to keep, a random sample by content, and q without them.

    The heavier a row, the likelier it is kept: where a stream forgets, rows fade.

    When rows are forgotten for the first time, their part of q is taken to be
    their share of the weight; later it is their sites.

    Parameters
    ----------
    trained, data, model : the result of a fit to ``data``
    learned_from : int
        Rows that the kernel was learned from.
    """
    forgotten = trained.forgotten
    if len(data.y) <= _MEMORY_ROWS and forgotten is None and not trained.outside_weight:
        repeats = data.copied, data.group
        return Memory(data.X, data.y, data.weight, data.count, None, None, learned_from, *repeats)
    order = np.argsort(_arrival(row_keys(model.scaler.transform(data.X), data.y), data.weight))
    kept, gone = np.sort(order[:_MEMORY_ROWS]), np.sort(order[_MEMORY_ROWS:])
    with torch.no_grad():
        if forgotten is None:
            natural = trained.ascent.natural
            prior = Natural.prior(natural.linear.shape[0], trained.rows.Lz)
            base = prior.towards(natural, _share_gone(data.weight, gone, trained.outside_weight))
        else:
            base = _with_sites(forgotten, trained, gone)
    return Memory(
        data.X[kept],
        data.y[kept],
        data.weight[kept],
        data.count[kept],
        to_numpy(base.precision),
        to_numpy(base.linear),
        learned_from,
    )


def _arrival(key: npt.NDArray[np.int64], weight: FloatArray) -> FloatArray:
    """Exponential times whose rates are the weights, from uniform keys.

    The first n to arrive are a sample in proportion to weight; with equal
    weights they are those of the smallest keys.
    """
    return -np.log1p(-(key.astype(np.float64) / 2.0**63).clip(max=1.0 - 2.0**-53)) / weight


def _share_gone(weight: FloatArray, gone: npt.NDArray[np.int64], outside_weight: float) -> float:
    """Share of the weight in rows that are not kept, or were never in memory."""
    return float((weight[gone].sum() + outside_weight) / (weight.sum() + outside_weight))


def _with_sites(base: Natural, trained: Trained, gone: npt.NDArray[np.int64]) -> Natural:
    """The base with the sites of some rows added, block by block."""
    rows = trained.rows
    J, P = base.linear.shape
    size = max(1, _BLOCK_NUMBERS // (J * P))
    for index in torch.as_tensor(gone, device=rows.X.device).split(size):
        W, G = trained.ascent.sites.dense(index, J)
        c = rows.weight[index, None]
        base = base.plus(*dense_statistics(rows.features(rows.X[index]).A, c * W, c * G))
    return base


def _new_points(kernel: Kernel, params: Params, Z: Tensor, X: Tensor, budget: int) -> Tensor:
    """Rows the inducing points explain worst, greedily (pivoted Cholesky)."""
    sample = X[:4096]
    if budget <= 0 or not sample.shape[0]:
        return X[:0]
    A, residual = whitened_features(kernel, params, Z, inducing_factor(kernel, params, Z), sample)
    variance = kernel.diag(params, sample)
    columns = A.new_zeros(sample.shape[0], min(budget, sample.shape[0]))
    chosen: list[int] = []
    residual = residual.clone()
    for k in range(columns.shape[1]):
        i = int(residual.argmax())
        if residual[i] <= _WORTH_ADDING * variance[i]:
            break
        k_i = kernel.cross(params, sample, sample[i : i + 1])[:, 0]
        column = (k_i - A @ A[i] - columns[:, :k] @ columns[i, :k]) / residual[i].sqrt()
        columns[:, k] = column
        residual = (residual - column.square()).clamp_min(0.0)
        chosen.append(i)
    return sample[chosen]
