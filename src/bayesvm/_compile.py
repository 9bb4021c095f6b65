"""Compiling a fitted model for serving: everything that does not depend on the row is precomputed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from bayesvm._compiled.latents import (
    CommitteeReadout,
    ExpectedSoftmax,
    FoldedLocal,
    FoldedPosterior,
    OwnProbabilities,
    Readout,
    SigmoidAtNodes,
)
from bayesvm._compiled.predictor import CompiledPredictor, Standardised, StandardisedBlocks
from bayesvm._core.calibration import Calibration
from bayesvm._core.kernels import compose
from bayesvm._core.nearest import tie_step
from bayesvm._core.predictive import LINE_NODES, line_nodes
from bayesvm._fit.columns import BlockScaler
from bayesvm._fit.local import NEIGHBOURS, LocalPart
from bayesvm._fit.rows import FARTHEST, Scaler
from bayesvm._model import Model

Array = npt.NDArray[Any]

# Directions that change no variance by more than this share of the prior's are left out.
_NEGLIGIBLE = {"float32": 1e-9, "float64": 1e-14}
# Largest error of single precision at the probes, half of what is promised, and how many of them are
# inducing points.
_TOLERANCE = 5e-5
_PROBES = 100


def compile_model(
    model: Model, classes: Array, feature_names: tuple[str, ...] | None, dtype: str
) -> CompiledPredictor:
    """The predictor of a fitted model, in double precision where single is not enough.

    Raises
    ------
    ValueError
        If the posterior is a set of draws, or the precision is unknown.
    """
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype={dtype!r} is not valid; it must be 'float32' or 'float64'")
    if model.draws is not None:
        raise ValueError(
            f"this model averages over {len(model.draws)} draws from the posterior, which cannot be folded "
            "into one; call predict_proba of the estimator, or fit with inference='coordinate'"
        )
    exact = _compiled(model, classes, feature_names, "float64")
    # Where classes share a variance, the order of the means decides, and near ties need every digit.
    if dtype == "float64" or (model.pooled and model.n_classes > 2):
        return exact
    compiled = _compiled(model, classes, feature_names, dtype)
    probes = _probes(model)
    difference = np.abs(compiled.predict_proba(probes) - exact.predict_proba(probes))
    return compiled if float(difference.max()) <= _TOLERANCE else exact


def _probes(model: Model) -> Array:
    """Rows to try: inducing points, rows between them, and rows beyond them."""
    Z = model.Z[:_PROBES].astype(np.float64)
    return model.scaler.inverse_transform(np.concatenate([Z, 0.5 * (Z + np.roll(Z, 1, 0)), 2.0 * Z]))


def _compiled(
    model: Model, classes: Array, feature_names: tuple[str, ...] | None, dtype: str
) -> CompiledPredictor:
    members = [i for i, calibration in enumerate(model.calibration) if calibration.weight > 0.0]
    n = model.m.shape[0] // len(model.calibration)
    some = np.concatenate([np.arange(i * n, (i + 1) * n) for i in members])
    # The likelihood's own probabilities see latents as they are, the softmax calibrated ones.
    own = [Calibration(1.0) if model.likelihood else model.calibration[i] for i in members]
    temperature = np.repeat([calibration.temperature for calibration in own], n)
    spread = np.repeat([calibration.spread for calibration in own], n)
    params = {name: np.asarray(value, dtype=np.float64) for name, value in model.params.items()}
    return CompiledPredictor(
        classes_=classes,
        n_features_in_=model.scaler.mean.shape[0],
        feature_names_in_=feature_names,
        dtype=dtype,
        columns=_columns(model.scaler),
        kernel=compose.compiled(model.kernel, params, model.Z.astype(np.float64), dtype),
        posterior=_posterior(model, some, temperature, temperature**2 * spread, dtype),
        readout=_readout(model, members, dtype),
        local=None if model.local is None else _local(model.local, some, temperature),
    )


def _columns(scaler: Scaler) -> Standardised | StandardisedBlocks:
    if not isinstance(scaler, BlockScaler):
        return _standardised(scaler)
    n, codes = scaler.n_numbers, np.flatnonzero(scaler.kept[scaler.n_numbers :])
    sizes, height = scaler.sizes[codes], scaler.height[codes]
    return StandardisedBlocks(_standardised(scaler.numbers), n, n + codes, sizes, height)


def _standardised(scaler: Scaler) -> Standardised:
    kept = None if scaler.kept.all() else np.flatnonzero(scaler.kept)
    chosen = slice(None) if kept is None else kept
    curves = None if scaler.curves is None else scaler.curves.of(scaler.kept)
    return Standardised(kept, scaler.mean[chosen], scaler.scale[chosen], FARTHEST, curves)


def _posterior(model: Model, some: Array, temperature: Array, factor: Array, dtype: str) -> FoldedPosterior:
    """Of some latent functions: means times their temperatures, variances times their factors."""
    Lz, R, m = (a.astype(np.float64) for a in (model.Lz, model.R[some], model.m[some]))
    alpha = temperature * scipy.linalg.solve_triangular(Lz, m.T, lower=True, trans="T")
    if model.pooled:  # the mean of the variances is the variance of the mean covariance
        identity = np.eye(R.shape[1])
        S = np.mean([scipy.linalg.cho_solve((R_j, True), identity) for R_j in R], 0)
        informed, U = np.linalg.eigh(identity - S)
        informed, U, factor = informed[None], U[None], factor[:1]
    else:
        precision, U = np.linalg.eigh(R @ R.transpose(0, 2, 1))
        informed = 1.0 - 1.0 / precision
    # What rounding makes of directions that rows say nothing about, beside those they say most about.
    noise = np.finfo(np.float64).eps / max(1.0 - float(informed.max()), np.finfo(np.float64).eps)
    least = max(_NEGLIGIBLE[dtype], noise)
    removed = _factors(Lz, informed, least, U, factor, dtype)
    added = _factors(Lz, -informed, least, U, factor, dtype)
    return FoldedPosterior(alpha, removed, added if added.shape[2] else None, factor)


def _factors(Lz: Array, size: Array, least: float, U: Array, factor: Array, dtype: str) -> Array:
    """L^{-T} U (factor size)^{1/2} for directions U (V, P, P) of some size (V, P), largest first."""
    order = np.argsort(-size, 1)
    rank = int((size > least).sum(1).max())
    size = np.take_along_axis(size, order, 1)[:, :rank]
    U = np.take_along_axis(U, order[:, None, :], 2)[:, :, :rank]
    Q = U * np.sqrt(factor[:, None] * np.maximum(size, 0.0))[:, None, :]
    V, P, r = Q.shape
    flat = scipy.linalg.solve_triangular(Lz, Q.transpose(1, 0, 2).reshape(P, V * r), lower=True, trans="T")
    return np.ascontiguousarray(flat.reshape(P, V, r).transpose(1, 0, 2), dtype=dtype)


def _readout(model: Model, members: list[int], dtype: str) -> Readout:
    if len(members) > 1:
        weights = tuple(model.calibration[i].weight for i in members)
        return CommitteeReadout(tuple(_readout(model, [i], dtype) for i in members), weights)
    if model.likelihood is not None:
        return OwnProbabilities(model.likelihood)
    calibration = model.calibration[members[0]]
    if model.n_classes == 2:
        return SigmoidAtNodes(*(t.numpy().astype(dtype) for t in line_nodes(LINE_NODES)))
    mixing = None if calibration.mixing is None else np.asarray(calibration.mixing)
    return ExpectedSoftmax(None if mixing is None else mixing - mixing.mean(0), dtype)


def _local(local: LocalPart, some: Array, temperature: Array) -> FoldedLocal:
    X = local.X.astype(np.float64)
    return FoldedLocal(
        scale=local.scale.astype(np.float64),
        middle=local.middle.astype(np.float64),
        X=X,
        half_norms=0.5 * np.square(X).sum(1),
        root=np.sqrt(local.W[:, some].astype(np.float64)),
        b=temperature * local.b[:, some].astype(np.float64),
        variance=local.variance,
        rate=0.5 / local.length**2,
        step=0.5 * tie_step(local.typical),
        n_neighbours=min(NEIGHBOURS, X.shape[0]),
    )
