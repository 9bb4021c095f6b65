"""Fits and predictions on a cluster, through Dask (extra ``dask``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesvm._lazy import lazy_names

if TYPE_CHECKING:
    from bayesvm.distributed._estimator import DaskBayesianSVC

__all__ = ["DaskBayesianSVC"]

__getattr__, __dir__ = lazy_names(globals(), {"DaskBayesianSVC": "_estimator"})
