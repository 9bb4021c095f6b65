"""Saving models to a file that runs no code when loaded (skops underneath)."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

__all__ = ["TRUSTED_TYPES", "load", "save"]

# Every type of ours that a saved model may contain. Each one is plain data:
# reviewed to run nothing when it is rebuilt. Types outside this list and
# outside skops' own defaults are refused.
TRUSTED_TYPES = [
    "bayesvm.core.kernels.additive.AdditiveRBF",
    "bayesvm.core.kernels.compose.Product",
    "bayesvm.core.kernels.compose.Scaled",
    "bayesvm.core.kernels.compose.Sum",
    "bayesvm.core.kernels.linear.Constant",
    "bayesvm.core.kernels.linear.Linear",
    "bayesvm.core.kernels.stationary.Matern32",
    "bayesvm.core.kernels.stationary.Matern52",
    "bayesvm.core.kernels.stationary.RBF",
    "bayesvm.estimators.bayesian_svc.BayesianSVC",
    "bayesvm.estimators.fitted.SiteArrays",
    "bayesvm.model.Model",
    "bayesvm.online.Memory",
    "bayesvm.scaling.Scaler",
]


def _skops_io() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError("saving and loading models needs skops: pip install 'bayesvm[io]'") from error
    return skops.io


def save(estimator: Any, path: str | os.PathLike[str]) -> Path:
    """Write a fitted estimator, or a pipeline that ends in one, to a file.

    The file is written beside its place and then moved there, so it is never
    half-written.
    """
    io = _skops_io()
    target = Path(path)
    part = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")
    try:
        io.dump(estimator, part)
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return target


def load(path: str | os.PathLike[str]) -> Any:
    """Read what ``save`` wrote; no code in the file is run.

    Raises
    ------
    ValueError
        If the file contains a type that neither skops nor this library trusts.
    """
    io = _skops_io()
    source = Path(path)
    unknown = sorted(set(io.get_untrusted_types(file=source)) - set(TRUSTED_TYPES))
    if unknown:
        raise ValueError(
            f"{source} contains types that bayesvm does not trust: {unknown}. Load it with skops.io.load "
            "and your own list of trusted types if you know where it comes from."
        )
    return io.load(source, trusted=TRUSTED_TYPES)
