"""From arrays to a fitted hybrid classifier."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from torch import Tensor, nn

from bayesvm.nn.errors import HeadError
from bayesvm.nn.hybrid_inputs import as_rows, held_out, labels_of
from bayesvm.nn.hybrid_network import chosen_device, dtype_of, first_features, made_network, near_device
from bayesvm.nn.printed import PrintedEpochs
from bayesvm.nn.recipe import Epoch
from bayesvm.nn.training import Trained, interruption, run

__all__ = ["fit_hybrid"]

# Rows that a network is tried on before it is trained.
_FIRST_ROWS = 2
_PATIENCE = 5


class _Data(NamedTuple):
    """What was given, checked and divided; ``held`` are the numbers of the rows that were held out."""

    classes: np.ndarray[Any, Any]
    X: Tensor
    y: Tensor
    validation: tuple[Tensor, Tensor] | None
    held: Tensor


def fit_hybrid(e: Any, X: Any, y: Any, validation: tuple[Any, Any] | None) -> None:
    """Fit a ``HybridClassifier``: validate, train, set its attributes."""
    rng = check_random_state(e.random_state)
    seed = int(rng.randint(np.iinfo(np.int32).max))
    recipe = e._recipe(seed)
    patience = _check(e)
    device = chosen_device(e.device)
    network = made_network(e.network, seed)
    data = _divided(e, X, y, validation, dtype_of(network), rng)
    network = network.to(device)
    first, dtype = first_features(network, data.X[:_FIRST_ROWS].to(device), seed)
    head = e._make_head(first.shape[1], len(data.classes), seed).to(device)
    rows, label = near_device(data.X.to(dtype), device), data.y.to(device)
    held = None
    if data.validation is not None:
        held = near_device(data.validation[0].to(dtype), device), data.validation[1].to(device)
    try:
        trained = run(
            network,
            head,
            rows,
            label,
            recipe,
            validation=held,
            on_epoch=_reporter(e, recipe.epochs),
            checkpoint=e.checkpoint,
            resume=bool(e.resume),
            patience=None if held is None else patience,
            temper=held is not None,
        )
    except HeadError as error:
        if error.trained is not None:
            _store(e, data, network, head, first.shape[1], error.trained)
        raise
    _store(e, data, network, head, first.shape[1], trained)
    if trained.ended == "interrupted":
        warnings.warn(interruption(trained), ConvergenceWarning, stacklevel=3)


def _check(e: Any) -> int | None:
    """Patience as a number, after a look at the arguments that are no one else's."""
    fraction = e.validation_fraction
    if isinstance(fraction, bool) or not isinstance(fraction, numbers.Real) or not 0 <= float(fraction) < 1:
        raise ValueError(
            f"validation_fraction={fraction!r} is not valid; it must be a number from 0 to below 1"
        )
    if e.checkpoint is not None and e.random_state is None:
        raise ValueError(
            "checkpoint needs random_state to be a number: a run that starts differently every time cannot "
            "be gone on with"
        )
    patience = e.patience
    if patience is None:
        return None
    if isinstance(patience, str) and patience == "auto":
        return _PATIENCE if e.schedule == "constant" else None
    if isinstance(patience, bool) or not isinstance(patience, numbers.Integral) or patience < 1:
        raise ValueError(
            f"patience={patience!r} is not valid; it must be a whole number >= 1, 'auto' or None"
        )
    return int(patience)


def _divided(
    e: Any,
    X: Any,
    y: Any,
    validation: tuple[Any, Any] | None,
    dtype: torch.dtype,
    rng: np.random.RandomState,
) -> _Data:
    rows = as_rows(X, dtype)
    classes, label = labels_of(y, rows.shape[0])
    held = torch.zeros(0, dtype=torch.int64)
    if validation is not None:
        given = as_rows(validation[0], dtype, "validation X")
        return _Data(
            classes, rows, label, (given, labels_of(validation[1], given.shape[0], classes)[1]), held
        )
    if e.validation_fraction == 0:
        return _Data(classes, rows, label, None, held)
    kept, held = held_out(label, float(e.validation_fraction), rng)
    apart = rows[held.to(rows.device)], label[held]
    return _Data(classes, rows[kept.to(rows.device)], label[kept], apart, held)


def _store(
    e: Any,
    data: _Data,
    network: nn.Module,
    head: nn.Module,
    in_features: int,
    trained: Trained,
) -> None:
    """Set the fitted attributes."""
    e.classes_ = data.classes
    e.network_ = network
    e.head_ = head
    e.history_ = trained.epochs
    e.best_epoch_ = trained.kept
    e.ended_ = trained.ended
    e.validation_rows_ = data.held.numpy()
    e.n_features_in_ = data.X[0].numel()
    e._n_dimensions = data.X.ndim
    e._in_features = in_features


def _reporter(e: Any, n_epochs: int) -> Callable[[Epoch], bool | None]:
    printed = PrintedEpochs(n_epochs) if e.verbose else None

    def report(epoch: Epoch) -> bool | None:
        if printed is not None:
            printed(epoch)
        return e.on_epoch(epoch) if e.on_epoch is not None else None

    return report
