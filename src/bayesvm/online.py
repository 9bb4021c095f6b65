"""Learning from more rows when the old ones are gone: their sites stay in q."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from bayesvm.core.covariance import inducing_factor, whitened_features
from bayesvm.core.kernels.base import Kernel, Params
from bayesvm.inference.blocks import TrainingRows
from bayesvm.inference.natural_parameters import Natural
from bayesvm.model import Model
from bayesvm.progress import Progress
from bayesvm.rows import CanonicalRows
from bayesvm.summary import LeaveOneOutSummary
from bayesvm.temperature import pick_temperature
from bayesvm.training import Options, Trained, fit_posterior, rule_for

__all__ = ["continue_training", "next_temperature"]

# A new inducing point must explain at least this share of a row's variance.
_WORTH_ADDING = 0.01


def continue_training(data: CanonicalRows, model: Model, options: Options, progress: Progress) -> Trained:
    """Q from the old posterior and the sites of new rows (eqs. 3.1, 7.2).

    The kernel and the scale of the features stay as they are; inducing
    points are added while fewer than ``options.n_inducing`` are in use.
    """
    old = model.on(options.device, options.dtype)
    X = old.rows(data.X)
    y = torch.as_tensor(data.y).to(options.device)
    weight = torch.as_tensor(data.weight).to(options.device, options.dtype)
    key = torch.as_tensor(data.key).to(options.device)
    with torch.no_grad():
        Z = torch.cat(
            [old.Z, _new_points(old.kernel, old.params, old.Z, X, options.n_inducing - old.Z.shape[0])]
        )
        rows = TrainingRows(X, y, weight, key, old.kernel, old.params, Z, model.n_classes)
        base = Natural.of(old.q)
        if Z.shape[0] > old.Z.shape[0]:
            base = base.carried(old.kernel.cross(old.params, old.Z, Z), old.Lz, rows.Lz)
    rule = rule_for(model.n_classes, options.rivals, options.seed)
    ascent = fit_posterior(rows, rule, base, base, options, progress)
    return Trained(rows, ascent, [], ascent.interrupted)


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


def next_temperature(new: LeaveOneOutSummary, old: LeaveOneOutSummary) -> LeaveOneOutSummary:
    """The summary of new rows with the temperature and confidences of all rows so far."""
    curve, curve_weight = old.curve + new.curve, old.curve_weight + new.curve_weight
    return replace(
        new,
        confidence=np.concatenate([old.confidence, new.confidence]),
        correct=np.concatenate([old.correct, new.correct]),
        weight=np.concatenate([old.weight, new.weight]),
        temperature=pick_temperature(curve, curve_weight),
        curve=curve,
        curve_weight=curve_weight,
    )
