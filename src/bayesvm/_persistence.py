"""Saving models to a file that runs no code when loaded (skops underneath).

A model file names the type of each of its objects. Only types that skops,
this module or the caller trusts are instantiated.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import pkgutil
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bayesvm._compiled import CompiledPredictor
from bayesvm._files import replacing
from bayesvm._version import __version__

# Every type that a saved model may contain besides those that skops trusts
# itself. Types outside these lists are refused; so are bound methods, always.

# Ours: plain data, reviewed to run no code when it is rebuilt; ``_ours`` adds the
# kernels and likelihoods that have a name.
_OURS = [
    "bayesvm._core.calibration.Calibration",
    "bayesvm._core.kernels.compose.Product",
    "bayesvm._core.kernels.compose.Scaled",
    "bayesvm._core.kernels.compose.Sum",
    "bayesvm._core.kernels.linear.IsotropicLinear",
    "bayesvm._core.kernels.nominal.AnovaOnBlocks",
    "bayesvm._core.kernels.nominal.Blocks",
    "bayesvm._core.kernels.nominal.SharedScales",
    "bayesvm._compiled.columns.ColumnEncoder",
    "bayesvm._compiled.columns.Levels",
    "bayesvm._compiled.curves.Curves",
    "bayesvm._fit.columns.BlockScaler",
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
# Data types, which scikit-learn's imputer stores.
_NUMPY = ["numpy.dtype"]
# Packages whose types may be in a file, and the extra that installs them.
_EXTRAS = {"dask": "dask", "distributed": "dask", "pandas": "cli", "skrub": "cli"}
# Exceptions that do not mean that the file is damaged.
_OF_THE_SYSTEM = (ImportError, FileNotFoundError, PermissionError, MemoryError)


def _ours() -> list[str]:
    from bayesvm._core.kernels import KERNEL_NAMES
    from bayesvm._core.likelihoods import LIKELIHOODS

    registered = [*KERNEL_NAMES.values(), *(type(make()) for make in LIKELIHOODS.values())]
    return [*_OURS, *(f"{kind.__module__}.{kind.__qualname__}" for kind in registered)]


def trusted_types() -> list[str]:
    """Names of all types that ``load`` instantiates."""
    return [*_ours(), *_SKRUB, *_NUMPY]


def _skops_io() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError("saving and loading models needs skops: pip install 'bayesvm[io]'") from error
    return skops.io


def save(estimator: Any, path: str | os.PathLike[str]) -> Path:
    """Write a fitted estimator, or a pipeline that ends in one, to a file.

    The file is written under a temporary name and then moved, so it is never
    incomplete.
    """
    if isinstance(estimator, CompiledPredictor):
        raise TypeError(
            "save a compiled predictor with predictor.save(path), load it with CompiledPredictor.load(path)"
        )
    skops = _skops_io()
    with replacing(path) as part:
        skops.dump(estimator, part, compression=zipfile.ZIP_DEFLATED, compresslevel=1)
        with zipfile.ZipFile(part, "a") as archive:
            archive.comment = f"bayesvm {__version__}".encode()
    return Path(path)


def load(path: str | os.PathLike[str], trusted: Iterable[str] = ()) -> Any:
    """Read what ``save`` wrote; no code in the file is run.

    Parameters
    ----------
    path : str or path
    trusted : iterable of str
        Further types that may be in the file, such as "my_module.MyKernel"
        for a model with a kernel or likelihood of your own. Whoever wrote the
        file can create objects of these types with any content: name only
        types that you know, and open only files from sources you trust.

    Raises
    ------
    ValueError
        If the file is not a model, contains a type that neither skops nor
        this library nor the caller trusts, or is of an earlier version whose
        models this one cannot use.
    """
    if isinstance(trusted, str):
        raise ValueError(
            f"trusted={trusted!r} is not valid; it must be a list of names, such as [{trusted!r}]"
        )
    all_trusted = [*trusted_types(), *trusted]
    skops = _skops_io()
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"there is no model file {str(path)!r}")
    try:
        unknown = sorted(set(skops.get_untrusted_types(file=source)) - set(all_trusted))
    except _OF_THE_SYSTEM:
        raise
    except Exception as error:  # damaged files fail in any way
        raise ValueError(
            f"{source} is not a model file; give one that 'bayesvm fit' or bayesvm.save wrote"
        ) from error
    if any(_is_gone(name) for name in unknown):
        raise ValueError(_refusal(source))
    if unknown:
        raise ValueError(
            f"{source} contains types that bayesvm does not trust: {unknown}. If you know them and "
            f"where the file comes from, name them: bayesvm.load(path, trusted={unknown})"
        )
    try:
        estimator = skops.load(source, trusted=all_trusted)
    except ModuleNotFoundError as error:
        raise ImportError(f"{source} needs the module {error.name}, {_advice(error.name)}") from error
    except _OF_THE_SYSTEM:
        raise
    except Exception as error:
        kind = type(error).__name__
        raise ValueError(
            f"{source} is not a model file that this version can load, or it is damaged ({kind}: {error})"
        ) from error
    if not all(_is_complete(part) for part in _parts(estimator)):
        raise ValueError(_refusal(source))
    return estimator


def _advice(module: str | None) -> str:
    """How to get a module that a model file needs."""
    package = str(module).partition(".")[0]
    if package in _EXTRAS:
        return f"which is not installed: pip install 'bayesvm[{_EXTRAS[package]}]'"
    return "which cannot be imported here: install it, or put the folder that holds it on Python's path"


# --- Files of earlier versions are told by what they hold.


def _is_gone(name: str) -> bool:
    """Whether a name is one of ours that this version does not have."""
    if not name.startswith("bayesvm."):
        return False
    try:
        pkgutil.resolve_name(name)
    except (AttributeError, ImportError):
        return True
    return False


def _parts(value: Any) -> Iterator[Any]:
    """The objects of our types inside an estimator, and itself."""
    if type(value).__module__.startswith("bayesvm."):
        yield value
    inner: Iterable[Any] = ()
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, (list, tuple)):
        inner = value
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        inner = vars(value).values()
    for item in inner:
        yield from _parts(item)


def _is_complete(part: Any) -> bool:
    """Whether an object has just the fields, or an estimator the parameters, that its type has now."""
    kind = type(part)
    if dataclasses.is_dataclass(kind):
        names = {field.name for field in dataclasses.fields(kind)}
        if any(name not in names and not hasattr(kind, name) for name in vars(part)):
            return False
    else:
        names = set(inspect.signature(kind.__init__).parameters) - {"self"}
    return names <= vars(part).keys()


def _refusal(source: Path) -> str:
    with zipfile.ZipFile(source) as archive:
        writer = archive.comment.decode("utf-8", errors="replace")
    return (
        f"{source} was written by {writer or 'an earlier version of bayesvm'}, and bayesvm {__version__} "
        "cannot load it; fit the model again"
    )
