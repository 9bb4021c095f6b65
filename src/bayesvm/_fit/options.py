"""Checking constructor arguments and turning every "auto" into a value."""

from __future__ import annotations

import math
import numbers
from typing import Any

import torch

from bayesvm._core.kernels import resolve_kernel
from bayesvm._core.kernels.base import Kernel
from bayesvm._fit import defaults
from bayesvm._fit.train import Options
from bayesvm._inference.methods import METHODS
from bayesvm._inference.rivals import RIVALS
from bayesvm._inference.task import Member, Settings
from bayesvm._model import torch_dtype

CHOICES = {
    "expectation": ("exact", "augmented"),
    "approximation": ("auto", "variational", "dtc", "fitc"),
    "hyperparameters": ("blend", "elbo", "loo", "fixed"),
    "dtype": ("float64", "float32"),
}
SWITCHES = ("learn_inducing", "ard", "local", "committee", "warm_start", "fit_intercept", "standardize")


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


def check_arguments(estimator: Any, inferences: tuple[str, ...] | None = None) -> None:
    """Raise ValueError for the first argument that cannot work, naming what would.

    Parameters
    ----------
    estimator : estimator
        The arguments it has are checked; what they may be is the same for all.
    inferences : tuple of str or None
        What ``inference`` may be; None: "auto" or any registered method.
    """
    e = estimator
    given = e.get_params(deep=False)
    check_choice("inference", e.inference, inferences or ("auto", *METHODS))
    for name, choices in {"rivals": ("auto", *RIVALS), **CHOICES}.items():
        if name in given:
            check_choice(name, given[name], choices)
    whole: dict[str, tuple[str | None, ...]] = {
        "n_inducing": ("auto",),
        "batch_size": (None,),
        "max_iter": ("auto",),
        "n_chains": (),
        "n_draws": (),
    }
    for name, words in whole.items():
        if name in given:
            check_number(name, given[name], numbers.Integral, 1, False, *words)
    if "learning_rate" in given:
        check_number("learning_rate", e.learning_rate, numbers.Real, 0, True, "auto")
    check_number("tol", e.tol, numbers.Real, 0, False)
    for name in SWITCHES:
        if name in given and not isinstance(given[name], (bool, numbers.Integral)):
            raise ValueError(f"{name}={given[name]!r} is not valid; it must be True or False")
    balanced = isinstance(e.class_weight, str) and e.class_weight == "balanced"
    if e.class_weight is not None and not balanced and not isinstance(e.class_weight, dict):
        raise ValueError(
            f"class_weight={e.class_weight!r} is not valid; it must be None, 'balanced' or a dict "
            "from label to weight"
        )
    if "kernel" in given:
        resolve_kernel(e.kernel, bool(e.ard))
    _check_device(e.device)


def auto_inducing(estimator: Any, n_rows: int, n_classes: int, all_latents: bool = False) -> int:
    """Number of inducing points for that many distinct rows and classes."""
    if estimator.n_inducing == "auto":
        return defaults.auto_inducing(n_rows, n_classes, all_latents)
    return int(estimator.n_inducing)


def chosen_inference(estimator: Any) -> tuple[str, bool]:
    """Name of the inference method, and whether rows have residuals of their own (FITC)."""
    e = estimator
    name = e.inference
    if name == "auto":
        name = "coordinate" if e.batch_size is None else "natural"
    possible = METHODS[name].approximations
    wanted = getattr(e, "approximation", "auto")
    if wanted == "auto":
        wanted = possible[0]
    if wanted not in possible:
        raise ValueError(
            f"approximation={wanted!r} does not go with inference={name!r}, whose choices are "
            f"{list(possible)}"
        )
    return name, wanted == "fitc"


def resolve_options(
    estimator: Any, member: Member, kernel: Kernel, n_inducing: int, inference: tuple[str, bool], seed: int
) -> Options:
    """Options of a fit of a member of the family.

    Raises
    ------
    ValueError
        If the inference method cannot fit that member.
    """
    e = estimator
    given = e.get_params(deep=False)
    name, fitc = inference
    method = METHODS[name]
    missing = method.missing(member)
    if missing is not None:
        fitting = [other for other in METHODS if METHODS[other].missing(member) is None]
        raise ValueError(
            f"inference={e.inference!r} cannot fit {type(e).__name__} here: it needs {missing}; "
            f"use one of {fitting}"
        )
    rate = given.get("learning_rate", "auto")
    hyperparameters = given.get("hyperparameters", "blend")
    settings = Settings(
        max_iter=method.max_iter if e.max_iter == "auto" else int(e.max_iter),
        tol=float(e.tol),
        batch_size=int(given.get("batch_size") or defaults.BATCH_SIZE),
        rate=None if rate == "auto" else float(rate),
        learn_kernel=hyperparameters != "fixed",
        learn_inducing=bool(given.get("learn_inducing", False)),
        n_chains=int(given.get("n_chains", Settings.n_chains)),
        n_draws=int(given.get("n_draws", Settings.n_draws)),
        fitc=fitc,
        seed=seed,
    )
    return Options(
        kernel=kernel,
        member=member,
        inference=name,
        settings=settings,
        hyperparameters=hyperparameters,
        n_inducing=n_inducing,
        device=_check_device(e.device),
        dtype=torch_dtype(e.dtype),
        local=bool(given.get("local", False)),
    )
