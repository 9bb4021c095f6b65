"""Saving models to a file that runs no code when loaded (skops underneath)."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bayesvm.compiled import CompiledPredictor
from bayesvm.files import replacing

__all__ = ["TRUSTED_TYPES", "load", "save"]

# Every type that a saved model may contain besides those that skops trusts
# itself. Types outside these lists are refused; so are bound methods, always.

# Ours: plain data, reviewed to run nothing when it is rebuilt.
_OURS = [
    "bayesvm.core.kernels.additive.AdditiveRBF",
    "bayesvm.core.kernels.compose.Product",
    "bayesvm.core.kernels.compose.Scaled",
    "bayesvm.core.kernels.compose.Sum",
    "bayesvm.core.kernels.linear.Constant",
    "bayesvm.core.kernels.linear.IsotropicLinear",
    "bayesvm.core.kernels.linear.Linear",
    "bayesvm.core.kernels.stationary.Matern32",
    "bayesvm.core.kernels.stationary.Matern52",
    "bayesvm.core.kernels.stationary.RBF",
    "bayesvm.core.likelihoods.robust_max.RobustMax",
    "bayesvm.core.likelihoods.softmax.Softmax",
    "bayesvm.distributed.estimator.DaskBayesianSVC",
    "bayesvm.estimators.bayesian_svc.BayesianSVC",
    "bayesvm.estimators.binary_svc.BinaryBayesianSVC",
    "bayesvm.estimators.fitted.SiteArrays",
    "bayesvm.estimators.linear_svc.LinearBayesianSVC",
    "bayesvm.estimators.one_vs_rest_svc.OneVsRestBayesianSVC",
    "bayesvm.estimators.svgp_classifier.SVGPClassifier",
    "bayesvm.fitted_chains.FittedChains",
    "bayesvm.local_part.LocalPart",
    "bayesvm.model.Model",
    "bayesvm.online.Memory",
    "bayesvm.scaling.Scaler",
    "bayesvm.tables.columns.TableColumns",
    "bayesvm.tables.text.TextEncoder",
    "bayesvm.tables.vectoriser.Vectoriser",
]
# skrub's, reviewed in version 0.11: encoders of one column, whose state is
# parameters, names and arrays.
_SKRUB = [
    "skrub._datetime_encoder.DatetimeEncoder",
    "skrub._to_str.ToStr",
]
# Types of numbers, which scikit-learn's imputer notes.
_NUMPY = ["numpy.dtype"]
TRUSTED_TYPES = [*_OURS, *_SKRUB, *_NUMPY]

# What goes wrong outside a model file, and is no sign of a damaged one.
_OF_THE_SYSTEM = (ImportError, FileNotFoundError, PermissionError, MemoryError)


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
    if isinstance(estimator, CompiledPredictor):
        raise TypeError(
            "a compiled predictor has files of its own: predictor.save(path), CompiledPredictor.load(path)"
        )
    io = _skops_io()
    with replacing(path) as part:
        io.dump(estimator, part, compression=zipfile.ZIP_DEFLATED, compresslevel=1)
    return Path(path)


def load(path: str | os.PathLike[str], trusted: Iterable[str] = ()) -> Any:
    """Read what ``save`` wrote; no code in the file is run.

    Parameters
    ----------
    path : str or path
    trusted : iterable of str
        Further types that may be in the file, such as "my_module.MyKernel"
        for a model with a kernel or likelihood of your own. Whoever wrote the
        file can make objects of these types with any content: name only
        types that you know, and open only files from sources you trust.

    Raises
    ------
    ValueError
        If the file is not a model, or contains a type that neither skops nor
        this library nor the caller trusts.
    """
    if isinstance(trusted, str):
        raise ValueError(
            f"trusted={trusted!r} is not valid; it must be a list of names, such as [{trusted!r}]"
        )
    all_trusted = [*TRUSTED_TYPES, *trusted]
    io = _skops_io()
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"there is no model file {str(path)!r}")
    try:
        unknown = sorted(set(io.get_untrusted_types(file=source)) - set(all_trusted))
    except _OF_THE_SYSTEM:
        raise
    except Exception as error:  # damaged files fail in any way
        raise ValueError(
            f"{source} is not a model file; give one that 'bayesvm fit' or bayesvm.save wrote"
        ) from error
    if unknown:
        raise ValueError(
            f"{source} contains types that bayesvm does not trust: {unknown}. If you know them and "
            f"where the file comes from, name them: bayesvm.load(path, trusted={unknown})"
        )
    try:
        return io.load(source, trusted=all_trusted)
    except ModuleNotFoundError as error:
        raise ImportError(f"{source} needs {error.name}: pip install 'bayesvm[cli]'") from error
    except _OF_THE_SYSTEM:
        raise
    except Exception as error:
        kind = type(error).__name__
        raise ValueError(
            f"{source} is not a model file that this version can load, or it is damaged ({kind}: {error})"
        ) from error
