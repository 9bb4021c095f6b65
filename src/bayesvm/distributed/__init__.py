"""Fits and predictions on a cluster, through Dask (extra ``dask``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._lazy import lazy_package

if TYPE_CHECKING:
    from bayesvm.distributed._estimator import DaskBayesianSVC as DaskBayesianSVC
else:
    __all__, __getattr__, __dir__ = lazy_package(
        __name__,
        {
            "_estimator": ["DaskBayesianSVC"],
        },
    )
