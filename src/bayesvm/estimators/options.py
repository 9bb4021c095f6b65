"""Checking constructor arguments and turning every "auto" into a value."""

from __future__ import annotations

import math
import numbers
from typing import Any

import torch

from bayesvm import defaults
from bayesvm.core.kernels import resolve_kernel
from bayesvm.model import torch_dtype
from bayesvm.training import Options

__all__ = ["check_arguments", "check_choice", "check_number", "resolve_options"]

INFERENCES = ("auto", "coordinate", "natural", "adam")
RIVALS = ("auto", "exact", "sampled", "mean")
OBJECTIVES = ("blend", "elbo", "loo", "fixed")
DTYPES = ("float64", "float32")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """The value, if it is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}={value!r} is not valid; it must be one of {list(choices)}")
    return value


def check_number(name: str, value: Any, kind: type, minimum: float, strict: bool, *words: str | None) -> None:
    """Refuse what is neither a number in range nor one of the allowed words."""
    if value is None and None in words:
        return
    if isinstance(value, str) and value in words:
        return
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    in_range = is_number and (value > minimum if strict else value >= minimum) and value < math.inf
    if not in_range:
        sort = "a whole number" if kind is numbers.Integral else "a finite number"
        allowed = "".join(f" or {w!r}" for w in words)
        bound = ">" if strict else ">="
        raise ValueError(f"{name}={value!r} is not valid; it must be {sort} {bound} {minimum:g}{allowed}")


def _check_device(device: Any) -> str:
    try:
        found = torch.device(device)
        torch.zeros(1, device=found).cpu()
    except (RuntimeError, TypeError, AssertionError) as error:
        gpu = "sees a GPU" if torch.cuda.is_available() else "sees no GPU"
        raise ValueError(
            f"device={device!r} is not valid here; it must name a torch device that works, such as 'cpu' "
            f"or 'cuda' (torch {gpu})"
        ) from error
    return str(found)


def check_arguments(estimator: Any) -> None:
    """Raise ValueError for the first argument that cannot work, naming what would."""
    e = estimator
    check_number("n_inducing", e.n_inducing, numbers.Integral, 1, False, "auto")
    check_choice("inference", e.inference, INFERENCES)
    check_choice("rivals", e.rivals, RIVALS)
    check_choice("hyperparameters", e.hyperparameters, OBJECTIVES)
    check_choice("dtype", e.dtype, DTYPES)
    check_number("learning_rate", e.learning_rate, numbers.Real, 0, True, "auto")
    check_number("batch_size", e.batch_size, numbers.Integral, 1, False, None)
    check_number("max_iter", e.max_iter, numbers.Integral, 1, False, "auto")
    check_number("tol", e.tol, numbers.Real, 0, False)
    for name in ("learn_inducing", "ard", "warm_start"):
        if not isinstance(getattr(e, name), (bool, numbers.Integral)):
            raise ValueError(f"{name}={getattr(e, name)!r} is not valid; it must be True or False")
    balanced = isinstance(e.class_weight, str) and e.class_weight == "balanced"
    if e.class_weight is not None and not balanced and not isinstance(e.class_weight, dict):
        raise ValueError(
            f"class_weight={e.class_weight!r} is not valid; it must be None, 'balanced' or a dict "
            "from label to weight"
        )
    resolve_kernel(e.kernel, bool(e.ard))
    _check_device(e.device)


def resolve_options(estimator: Any, n_rows: int, n_classes: int, seed: int) -> Options:
    """Options for that many distinct rows and classes."""
    e = estimator
    inference = e.inference
    if inference == "auto":
        inference = "coordinate" if e.batch_size is None else "natural"
    n_inducing = e.n_inducing
    if n_inducing == "auto":
        n_inducing = defaults.auto_inducing(n_rows, n_classes)
    n_latents = 1 if n_classes == 2 else n_classes
    rivals = e.rivals
    if rivals == "auto":
        exact = defaults.affordable_exact(n_rows, min(n_inducing, n_rows), n_latents)
        rivals = "exact" if exact or n_classes == 2 else "sampled"
    max_iter = e.max_iter
    if max_iter == "auto":
        max_iter = defaults.PAPER_EPOCHS if inference == "adam" else defaults.SWEEPS
    return Options(
        n_inducing=int(n_inducing),
        learn_inducing=bool(e.learn_inducing),
        kernel=resolve_kernel(e.kernel, bool(e.ard)),
        inference=inference,
        rivals=rivals,
        hyperparameters=e.hyperparameters,
        learning_rate=None if e.learning_rate == "auto" else float(e.learning_rate),
        batch_size=int(e.batch_size or defaults.BATCH_SIZE),
        max_iter=int(max_iter),
        tol=float(e.tol),
        device=_check_device(e.device),
        dtype=torch_dtype(e.dtype),
        seed=seed,
    )
