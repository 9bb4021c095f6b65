"""Fit, predict and score one model on one split, with clock and memory."""

from __future__ import annotations

import ctypes
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from bayesvm_studies.statistics import score_sums, two_class_auc
from bayesvm_studies.structured.contestants import split_rows

# What a model may say about itself, by the name under which it is kept.
_FACTS = {
    "n_iter_": "n_iter",
    "converged_": "converged",
    "loo_score_": "loo_score",
    "loo_log_loss_": "loo_log_loss",
}


def build(config: dict[str, Any], **instead: Any) -> Any:
    """The estimator that a configuration describes, with some arguments replaced."""
    module, name = config["estimator"].split(":")
    arguments = {**config["arguments"], **instead}
    if isinstance(arguments.get("kernel"), dict):
        arguments["kernel"] = _kernel(**arguments["kernel"])
    return getattr(import_module(module), name)(**arguments)


def _kernel(name: str, **start: float) -> Any:
    """A kernel of the library by its name, with the values it starts from."""
    return getattr(import_module("bayesvm.kernels"), name)(**start)


def warm_up(config: dict[str, Any]) -> None:
    """A short fit to thirty irises: what is imported or compiled at first use is not part of a fit."""
    from sklearn.datasets import load_iris

    # Two steps are enough to have run all the code.
    short = {name: 2 for name in ("max_iter", "steps") if config["arguments"].get(name, 0) != 0}
    model = build(config, **short)
    if getattr(model, "warms_itself", False):
        return
    X, y = load_iris(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[::5], y[::5]).predict_proba(X[1::5])


def measure(task: dict[str, Any], folder: Path, begin: Callable[[], None]) -> dict[str, Any]:
    """Fields of a :class:`Result`.

    Parameters
    ----------
    task : dict
        ``protocol``, ``split`` and ``config``.
    folder : Path
        Where ``X.npy`` and ``y.npy`` are.
    begin : callable
        Called when the clock starts.
    """
    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy")
    train, test = split_rows(task["protocol"], y, task["split"])
    X_train, y_train, X_test, y_test = np.array(X[train]), y[train], np.array(X[test]), y[test]
    classes = np.unique(y[np.concatenate([train, test])])
    model = build(task["config"])
    cuda = _reset_cuda(task["config"])
    memory = PeakMemory()
    begin()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        model.fit(X_train, y_train)
        middle = time.perf_counter()
        predicted = model.predict_proba(X_test)
        end = time.perf_counter()
    peak = memory.peak_mb()
    proba = np.zeros((len(y_test), len(classes)))
    proba[:, np.searchsorted(classes, model.classes_)] = predicted
    return {
        "n_train": len(y_train),
        "n_features": X.shape[1],
        "n_classes": len(classes),
        **score_sums(y_test, proba, classes),
        "auc": two_class_auc(y_test, proba, classes),
        "fit_s": getattr(model, "fit_seconds_", middle - start),
        "predict_s": getattr(model, "predict_seconds_", end - middle),
        "peak_mb": getattr(model, "peak_mb_", peak),
        "extra": {**_facts(model), **cuda()},
    }


def _facts(model: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for attribute, name in _FACTS.items():
        value = getattr(model, attribute, None)
        if isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
            facts[name] = float(f"{value:.6g}") if isinstance(value, (float, np.floating)) else int(value)
    if hasattr(model, "inducing_points_"):
        facts["n_inducing"] = len(model.inducing_points_)
    return {**facts, **getattr(model, "details_", {})}


def _reset_cuda(config: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Start to watch the memory of a GPU, if one is used; the answer tells its peak."""
    if not str(config["arguments"].get("device", "cpu")).startswith("cuda"):
        return dict
    import torch

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    return lambda: {
        "gpu": torch.cuda.get_device_name(),
        "gpu_peak_mb": round(torch.cuda.max_memory_allocated() / 1e6, 1),
    }


_PROC = Path("/proc/self")


def memory_mb(name: str) -> float:
    """VmRSS or VmHWM of this process in 10^6 bytes (ru_maxrss would include the parent's past).

    Raises
    ------
    OSError
        If this system does not tell.
    """
    for line in (_PROC / "status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise OSError(f"no {name} in {_PROC}/status")


class PeakMemory:
    """The high-water mark of this process from now on, above what it holds now.

    A process that has worked before keeps freed memory for later, which would
    hide what the next work needs: it is given back first.
    """

    def __init__(self) -> None:
        self._before: float | None = None
        try:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
            (_PROC / "clear_refs").write_text("5")  # sets the mark to the present
            self._before = memory_mb("VmRSS")
        except (OSError, AttributeError):
            pass  # not Linux, or not allowed

    def peak_mb(self) -> float | None:
        """The mark in 10^6 bytes, or None where it cannot be known."""
        return None if self._before is None else max(0.0, memory_mb("VmHWM") - self._before)
