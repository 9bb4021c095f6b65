"""Saving models to a file that runs no code when loaded (skops underneath)."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bayesvm._compiled import CompiledPredictor
from bayesvm._files import replacing

# Every type that a saved model may contain besides those that skops trusts
# itself. Types outside these lists are refused; so are bound methods, always.

# Ours: plain data, reviewed to run nothing when it is rebuilt.
_OURS = [
    "bayesvm._core.kernels.additive.AdditiveRBF",
    "bayesvm._core.kernels.compose.Product",
    "bayesvm._core.kernels.compose.Scaled",
    "bayesvm._core.kernels.compose.Sum",
    "bayesvm._core.kernels.linear.Constant",
    "bayesvm._core.kernels.linear.IsotropicLinear",
    "bayesvm._core.kernels.linear.Linear",
    "bayesvm._core.kernels.stationary.Matern32",
    "bayesvm._core.kernels.stationary.Matern52",
    "bayesvm._core.kernels.stationary.RBF",
    "bayesvm._core.likelihoods.robust_max.RobustMax",
    "bayesvm._core.likelihoods.softmax.Softmax",
    "bayesvm.distributed._estimator.DaskBayesianSVC",
    "bayesvm._svc.BayesianSVC",
    "bayesvm._svc.BinaryBayesianSVC",
    "bayesvm._model.SiteArrays",
    "bayesvm._linear.LinearBayesianSVC",
    "bayesvm._svc.OneVsRestBayesianSVC",
    "bayesvm._svgp.SVGPClassifier",
    "bayesvm._chains.FittedChains",
    "bayesvm._fit.local.LocalPart",
    "bayesvm._model.Model",
    "bayesvm._fit.partial_fit.Memory",
    "bayesvm._fit.rows.Scaler",
    "bayesvm.tables._columns.TableColumns",
    "bayesvm.tables._text.TextEncoder",
    "bayesvm.tables._pipeline.Vectoriser",
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
