"""The packages of the extra ``dask``, imported when they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["cloudpickle", "dask", "delayed_type"]


def dask() -> Any:
    """The package ``dask``."""
    return _package("dask")


def delayed_type() -> type:
    """What delayed objects are of; the module is hidden behind a function of the same name."""
    found: type = _package("dask.delayed").Delayed
    return found


def cloudpickle() -> Any:
    """The package ``cloudpickle``, which comes with Dask."""
    return _package("cloudpickle")


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError("DaskBayesianSVC needs Dask: pip install 'bayesvm[dask]'") from error
