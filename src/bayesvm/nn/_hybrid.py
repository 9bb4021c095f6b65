"""A network with a Bayesian SVM as its last layer, for people who do not write loops."""

from __future__ import annotations

import numbers
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self, TextIO

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from bayesvm.nn._hybrid_files import read_model, write_model
from bayesvm.nn._hybrid_network import (
    PredictsMixin,
    as_rows,
    chosen_device,
    dtype_of,
    first_features,
    held_out,
    labels_of,
    made_network,
    near_device,
)
from bayesvm.nn._recipe import Epoch, HeadError, Recipe
from bayesvm.nn._training import Trained, interruption, run

# --- A line per epoch, for people who wait.


class PrintedEpochs:
    """Writes finished epochs to a stream, by default standard error."""

    def __init__(self, n_epochs: int, stream: TextIO | None = None) -> None:
        self._n_epochs = n_epochs
        self._stream = stream
        self._seconds = 0.0
        self._seen = 0

    def __call__(self, epoch: Epoch) -> None:
        """Write a line."""
        self._seconds += epoch.seconds
        self._seen += 1
        left = self._seconds / self._seen * (self._n_epochs - epoch.number)
        text = f"epoch {epoch.number}/{self._n_epochs}  objective {epoch.objective:.4f}"
        if epoch.validation_log_loss is not None and epoch.validation_accuracy is not None:
            text += f"  validation: accuracy {epoch.validation_accuracy:.4f}"
            text += f", log-loss {epoch.validation_log_loss:.4f}"
        stream = sys.stderr if self._stream is None else self._stream
        stream.write(f"{text}  {epoch.seconds:.1f} s, at most {left:.0f} s left\n")
        stream.flush()


# --- From arrays to a fitted hybrid classifier.


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


_HEAD = ("n_inducing", "posterior", "rivals", "normalise", "damping", "kl_warmup")
_RECIPE = (
    *("epochs", "batch_size", "rate", "weight_decay", "schedule", "precision"),
    *("augment", "compile", "graph", "clip", "parts", "settle", "deterministic"),
)
# What a file keeps: settings that are plain values and mean the same elsewhere.
_KEPT = tuple(name for name in (*_HEAD, *_RECIPE, "validation_fraction", "patience") if name != "augment")


class HybridClassifier(PredictsMixin, ClassifierMixin, BaseEstimator):
    """A neural network whose last layer is a Bayesian support vector machine.

    Network and layer are trained jointly; some rows are held out to choose
    the best epoch and to fit the temperature of the class probabilities.

    Parameters
    ----------
    network : Module or callable
        Gives features of shape (rows, features): a network without its last
        layer. A module is copied and trained from the weights it has; a
        function (or class) is called without arguments, seeded by
        ``random_state``, and must make a module.
    n_inducing, posterior, rivals, normalise, damping, kl_warmup
        As for ``BayesianSVMHead``.
    epochs, batch_size, rate, weight_decay, schedule, precision, augment : as for ``Recipe``
    compile, graph, clip, parts, settle, deterministic : as for ``Recipe``
    validation_fraction : float
        Share of the rows that are held out, the same of every class. Zero:
        the last epoch counts and the temperature stays as it is.
    patience : int, "auto" or None
        Epochs without a better validation log-loss after which to stop;
        "auto": five if the rate is constant, else none.
    checkpoint : path-like or None
        A folder that is written after every epoch; it takes a
        ``random_state`` that is a number.
    resume : bool
        Go on with the run in the folder, if it is this one, as if nothing
        had happened. False: start anew.
    device : str
        "auto": a GPU if there is one.
    verbose : int
        1: a line per epoch on standard error.
    on_epoch : callable or None
        Called with every finished ``Epoch``; a true answer ends training.
    random_state : int, RandomState or None
        The same number gives the same model on the same device (on a GPU
        with ``deterministic=True``).

    Attributes
    ----------
    classes_ : ndarray
    network_, head_ : Module
        Trained, in evaluation mode.
    history_ : list of Epoch
    best_epoch_ : int
        Number of the epoch that is kept.
    ended_ : {"finished", "patience", "asked", "interrupted", "failed"}
        Why training ended.
    validation_rows_ : ndarray
        Numbers of the rows that were held out.
    """

    classes_: npt.NDArray[Any]
    network_: nn.Module
    head_: nn.Module
    history_: list[Epoch]
    best_epoch_: int
    ended_: str
    validation_rows_: npt.NDArray[np.int64]
    _in_features: int

    def __init__(
        self,
        network: Any,
        *,
        n_inducing: int = 64,
        posterior: str = "natural",
        rivals: str = "sampled",
        normalise: bool = True,
        damping: float = 0.05,
        kl_warmup: int = 0,
        epochs: int = 10,
        batch_size: int = 128,
        rate: float = 1e-3,
        weight_decay: float = 0.0,
        schedule: str = "constant",
        precision: str = "float32",
        augment: Callable[[Tensor, torch.Generator], Tensor] | None = None,
        compile: bool | str = False,
        graph: bool = False,
        clip: float | None = None,
        parts: int = 1,
        settle: bool = True,
        deterministic: bool = False,
        validation_fraction: float = 0.1,
        patience: int | str | None = "auto",
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = True,
        device: str = "auto",
        verbose: int = 0,
        on_epoch: Callable[[Epoch], bool | None] | None = None,
        random_state: Any = None,
    ) -> None:
        self.network = network
        self.n_inducing = n_inducing
        self.posterior = posterior
        self.rivals = rivals
        self.normalise = normalise
        self.damping = damping
        self.kl_warmup = kl_warmup
        self.epochs = epochs
        self.batch_size = batch_size
        self.rate = rate
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.precision = precision
        self.augment = augment
        self.compile = compile
        self.graph = graph
        self.clip = clip
        self.parts = parts
        self.settle = settle
        self.deterministic = deterministic
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.checkpoint = checkpoint
        self.resume = resume
        self.device = device
        self.verbose = verbose
        self.on_epoch = on_epoch
        self.random_state = random_state

    def fit(self, X: Any, y: Any, validation: tuple[Any, Any] | None = None) -> Self:
        """Train network and head.

        Parameters
        ----------
        X : array or Tensor of shape (n_rows, ...)
            In the shape that the network takes. Floats come to it in its own
            type; whole numbers as they are, if it takes them, else as floats.
        y : array-like of shape (n_rows,)
            Class labels of any sortable type.
        validation : pair of X and y, or None
            Rows to validate on; None: ``validation_fraction`` of the rows.

        Returns
        -------
        self

        Raises
        ------
        HeadError
            If training failed. If an epoch was finished, the classifier is
            fitted nevertheless, with the best one.
        """
        fit_hybrid(self, X, y, validation)
        return self

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write weights, labels and settings to a safetensors file; the network's code is not in it."""
        check_is_fitted(self)
        settings = {name: value for name, value in self.get_params(deep=False).items() if name in _KEPT}
        about = {
            "settings": settings,
            "in_features": self._in_features,
            "shape": [self._n_dimensions, self.n_features_in_],
            "best_epoch": self.best_epoch_,
            "ended": self.ended_,
        }
        write_model(path, about, self.classes_, self.history_, self.network_, self.head_)
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], network: Any, device: str = "auto") -> Self:
        """Read what ``save`` wrote; no code in the file is run.

        Parameters
        ----------
        path : path-like
        network : Module or callable
            The network that was trained; its weights come from the file.
        device : str

        Raises
        ------
        ValueError
            If this is no such file, or the network is another one.
        """
        contents = read_model(path)
        about = contents.about
        settings = {name: value for name, value in about["settings"].items() if name in _KEPT}
        model = cls(network, device=device, **settings)
        model.classes_, model.history_ = contents.classes, contents.epochs
        model.best_epoch_, model.ended_ = about["best_epoch"], about["ended"]
        model._n_dimensions, model.n_features_in_ = about["shape"]
        model._in_features = about["in_features"]
        model.validation_rows_ = np.zeros(0, np.int64)
        model.network_ = made_network(network, 0)
        model.head_ = model._make_head(about["in_features"], len(model.classes_), 0)
        try:
            model.network_.load_state_dict(contents.network)
            model.head_.load_state_dict(contents.head)
        except RuntimeError as error:
            raise ValueError(f"{path} holds the weights of another network: {error}") from error
        model.network_.eval()
        model.head_.eval()
        return model

    def __getstate__(self) -> dict[str, Any]:
        # What was trained on a GPU can be read where there is none.
        state = dict(super().__getstate__())
        for name in ("network_", "head_"):
            if name in state and any(
                getattr(value, "is_cuda", False) for value in state[name].state_dict().values()
            ):
                state[name] = made_network(state[name], 0).cpu()
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "head_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.sparse = False
        return tags

    def _recipe(self, seed: int) -> Recipe:
        return Recipe(seed=seed, **{name: getattr(self, name) for name in _RECIPE})

    def _make_head(self, in_features: int, n_classes: int, seed: int) -> nn.Module:
        from bayesvm.nn._head import BayesianSVMHead

        return BayesianSVMHead(in_features, n_classes, seed=seed, **{n: getattr(self, n) for n in _HEAD})
