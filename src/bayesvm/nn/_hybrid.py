"""``HybridClassifier``: a network with a Bayesian SVM as its last layer, as a scikit-learn classifier."""

from __future__ import annotations

import json
import numbers
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from bayesvm._files import replacing
from bayesvm._version import __version__
from bayesvm.metrics import log_probability
from bayesvm.nn._head import BayesianSVMHead
from bayesvm.nn._hybrid_inputs import (
    Data,
    as_rows,
    chosen_device,
    divided,
    dtype_of,
    first_features,
    made_network,
    near_device,
)
from bayesvm.nn._loop import feature_blocks
from bayesvm.nn._recipe import Epoch, HeadError, Recipe
from bayesvm.nn._train import TrainingResult, interruption, run

FloatArray = npt.NDArray[np.floating]

# Rows that a network is tried on before it is trained.
_FIRST_ROWS = 2
# Epochs of patience that "auto" means.
_PATIENCE = 5
# Format of model files, and where their header is.
_FORMAT = 1
_KEY = "bayesvm"
# Which settings are whose.
_HEAD = ("n_inducing", "posterior", "rivals", "normalise", "damping", "kl_warmup")
_RECIPE = (
    *("epochs", "batch_size", "rate", "weight_decay", "schedule", "precision"),
    *("augment", "compile", "graph", "clip", "parts", "settle", "deterministic"),
)
# What a file keeps: settings that are plain values and mean the same elsewhere.
_KEPT = tuple(name for name in (*_HEAD, *_RECIPE, "validation_fraction", "patience") if name != "augment")


class HybridClassifier(ClassifierMixin, BaseEstimator):
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
    n_features_in_: int
    _n_dimensions: int
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
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(np.iinfo(np.int32).max))
        recipe = Recipe(seed=seed, **{name: getattr(self, name) for name in _RECIPE})
        patience = self._checked_patience()
        device = chosen_device(self.device)
        network = made_network(self.network, seed)
        data = divided(X, y, validation, float(self.validation_fraction), dtype_of(network), rng)
        network = network.to(device)
        first, dtype = first_features(network, data.X[:_FIRST_ROWS].to(device), seed)
        head = self._make_head(first.shape[1], len(data.classes), seed).to(device)
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
                on_epoch=self._reporter(),
                checkpoint=self.checkpoint,
                resume=bool(self.resume),
                patience=None if held is None else patience,
                temper=held is not None,
            )
        except HeadError as error:
            if error.trained is not None:
                self._set_fitted(data, network, head, first.shape[1], error.trained)
            raise
        self._set_fitted(data, network, head, first.shape[1], trained)
        if trained.ended == "interrupted":
            warnings.warn(interruption(trained), ConvergenceWarning, stacklevel=2)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Most probable class of each row: the argmax of ``predict_proba``."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities E[softmax(T f)], shape (n_rows, n_classes); rows sum to one."""
        p = self._map(X, lambda output: output.probabilities())
        return p / p.sum(1, keepdims=True)  # to the digits of doubles

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithms of the class probabilities, finite even where those vanish."""
        return log_probability(self.predict_proba(X))

    def predict_latent(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of each class's latent function.

        Returns
        -------
        mean, std : ndarray of shape (n_rows, n_classes)
        """
        both = self._map(X, lambda output: torch.stack([output.mean, output.variance.sqrt()], 1))
        return both[:, 0], both[:, 1]

    def variation_ratio(self, X: Any) -> FloatArray:
        """How often the posterior disagrees with its own majority about the largest latent."""
        return self._map(X, lambda output: output.variation_ratio())

    def log_variation_ratio(self, X: Any) -> FloatArray:
        """Logarithm of the variation ratio, ordered even where the ratio underflows."""
        return self._map(X, lambda output: output.log_variation_ratio())

    def entropy(self, X: Any) -> FloatArray:
        """Entropy of the class probabilities in nats."""
        return self._map(X, lambda output: output.entropy())

    def mutual_information(self, X: Any) -> FloatArray:
        """The part of the entropy that more data could remove, in nats."""
        return self._map(X, lambda output: output.mutual_information())

    def features(self, X: Any) -> FloatArray:
        """What the network gives to the head, shape (n_rows, n_features)."""
        return np.concatenate([part.cpu().numpy() for part in self._features(X)])

    @property
    def temperature_(self) -> float:
        """Temperature T of the class probabilities, fitted on the held-out rows."""
        check_is_fitted(self)
        return float(self.head_.get_buffer("temperature"))

    @property
    def spread_(self) -> float:
        """Factor on the latent variances in class probabilities, fitted on the held-out rows."""
        check_is_fitted(self)
        return float(self.head_.get_buffer("spread"))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write weights, labels and settings to a safetensors file; the network's code is not in it.

        The file is complete or not there. Weights are tensors, the rest is JSON in its header.

        Raises
        ------
        ValueError
            If labels or states are of a kind that a file cannot hold.
        """
        check_is_fitted(self)
        save_file = _safetensors("torch").save_file
        classes = self.classes_
        if classes.dtype.kind not in "iufbUO" or not all(
            isinstance(label, (str, int, float, bool)) for label in classes.tolist()
        ):
            raise ValueError(f"labels of type {classes.dtype} cannot be saved; use numbers or strings")
        header = {
            "settings": {k: v for k, v in self.get_params(deep=False).items() if k in _KEPT},
            "in_features": self._in_features,
            "shape": [self._n_dimensions, self.n_features_in_],
            "best_epoch": self.best_epoch_,
            "ended": self.ended_,
            "format": _FORMAT,
            "version": __version__,
            "classes": {"dtype": classes.dtype.str, "labels": classes.tolist()},
            "history": [asdict(epoch) for epoch in self.history_],
        }
        tensors = {}
        for part, module in (("network", self.network_), ("head", self.head_)):
            for name, value in module.state_dict().items():
                if not isinstance(value, Tensor):
                    raise ValueError(f"{part} holds {name!r}, which is not a tensor and cannot be saved")
                # Files hold no shared or strided memory.
                tensors[f"{part}.{name}"] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        with replacing(path) as target:
            save_file(tensors, target, metadata={_KEY: json.dumps(header, default=_plain)})
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
            If ``save`` did not write this file, or the network is a different one.
        """
        header, tensors = _read(path)
        settings = {name: value for name, value in header["settings"].items() if name in _KEPT}
        model = cls(network, device=device, **settings)
        labels = header["classes"]
        model.classes_ = np.array(labels["labels"], dtype=np.dtype(labels["dtype"]))
        model.history_ = [Epoch(**epoch) for epoch in header["history"]]
        model.best_epoch_, model.ended_ = header["best_epoch"], header["ended"]
        model._n_dimensions, model.n_features_in_ = header["shape"]
        model._in_features = header["in_features"]
        model.validation_rows_ = np.zeros(0, np.int64)
        model.network_ = made_network(network, 0)
        model.head_ = model._make_head(header["in_features"], len(model.classes_), 0)
        try:
            model.network_.load_state_dict(tensors["network"])
            model.head_.load_state_dict(tensors["head"])
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

    def _make_head(self, in_features: int, n_classes: int, seed: int) -> nn.Module:
        return BayesianSVMHead(in_features, n_classes, seed=seed, **{n: getattr(self, n) for n in _HEAD})

    def _checked_patience(self) -> int | None:
        """Patience as a number, after checking the arguments that neither head nor recipe checks."""
        fraction: Any = self.validation_fraction
        if (
            isinstance(fraction, bool)
            or not isinstance(fraction, numbers.Real)
            or not 0 <= float(fraction) < 1
        ):
            raise ValueError(
                f"validation_fraction={fraction!r} is not valid; it must be a number from 0 to below 1"
            )
        if self.checkpoint is not None and self.random_state is None:
            raise ValueError(
                "checkpoint needs random_state to be a number: a run that starts differently every time "
                "cannot be resumed"
            )
        patience: Any = self.patience
        if patience is None:
            return None
        if isinstance(patience, str) and patience == "auto":
            return _PATIENCE if self.schedule == "constant" else None
        if isinstance(patience, bool) or not isinstance(patience, numbers.Integral) or patience < 1:
            raise ValueError(
                f"patience={patience!r} is not valid; it must be a whole number >= 1, 'auto' or None"
            )
        return int(patience)

    def _reporter(self) -> Callable[[Epoch], bool | None]:
        """With ``verbose`` a line per epoch on standard error; then the caller's own ``on_epoch``."""
        seconds: list[float] = []

        def report(epoch: Epoch) -> bool | None:
            seconds.append(epoch.seconds)
            if self.verbose:
                text = f"epoch {epoch.number}/{self.epochs}  objective {epoch.objective:.4f}"
                if epoch.validation_log_loss is not None and epoch.validation_accuracy is not None:
                    text += f"  validation: accuracy {epoch.validation_accuracy:.4f}"
                    text += f", log-loss {epoch.validation_log_loss:.4f}"
                left = sum(seconds) / len(seconds) * (self.epochs - epoch.number)
                text += f"  {epoch.seconds:.1f} s, at most {left:.0f} s left"
                print(text, file=sys.stderr, flush=True)
            return self.on_epoch(epoch) if self.on_epoch is not None else None

        return report

    def _set_fitted(
        self, data: Data, network: nn.Module, head: nn.Module, in_features: int, trained: TrainingResult
    ) -> None:
        self.classes_ = data.classes
        self.network_ = network
        self.head_ = head
        self.history_ = trained.epochs
        self.best_epoch_ = trained.kept
        self.ended_ = trained.ended
        self.validation_rows_ = data.held.numpy()
        self.n_features_in_ = data.X[0].numel()
        self._n_dimensions = data.X.ndim
        self._in_features = in_features

    def _features(self, X: Any) -> Iterator[Tensor]:
        """Features of the rows, in batches, where the head is."""
        check_is_fitted(self)
        rows = as_rows(X, dtype_of(self.network_))
        flat = rows.ndim == 2 and rows.shape[1] != self.n_features_in_
        if rows.ndim != self._n_dimensions or flat:
            raise ValueError(
                f"X has {rows[0].numel()} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input: {self._n_dimensions} dimensions with that of the "
                f"rows; got shape {tuple(rows.shape)}"
            )
        device = chosen_device(self.device, strict=False)
        for module in (self.network_, self.head_):
            module.to(device).eval()
        _, dtype = first_features(self.network_, rows[:1].to(device), 0)
        yield from feature_blocks(self.network_, rows.to(dtype), device, rows=self.batch_size)

    def _map(self, X: Any, function: Callable[[Any], Tensor]) -> FloatArray:
        """Apply a function of the head's output to all rows."""
        with torch.no_grad():
            parts = [function(self.head_(features)).double().cpu() for features in self._features(X)]
        return torch.cat(parts).numpy()


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, dict[str, Tensor]]]:
    """Header of a model file, and the tensors of network and head."""
    safetensors = _safetensors("")
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no model file {str(path)!r}")
    tensors: dict[str, dict[str, Tensor]] = {"network": {}, "head": {}}
    try:
        with safetensors.safe_open(path, "pt") as file:
            header = json.loads((file.metadata() or {})[_KEY])
            if header["format"] != _FORMAT:
                raise ValueError(f"format {header['format']}")
            for key in file.keys():  # noqa: SIM118 (no dict)
                part, name = key.split(".", 1)
                tensors[part][name] = file.get_tensor(key)
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is not a file that HybridClassifier.save of this version wrote ({error})"
        ) from error
    return header, tensors


def _plain(value: Any) -> Any:
    """A number of numpy's, which settings may be, as one that JSON knows."""
    if isinstance(value, np.generic):
        return value.item()
    raise ValueError(f"the setting {value!r} cannot be saved")


def _safetensors(part: str) -> Any:
    try:
        if part == "torch":
            import safetensors.torch as module
        else:
            import safetensors as module  # type: ignore[no-redef]
    except ImportError as error:
        raise ImportError(
            "saving and loading networks needs safetensors: pip install 'bayesvm[nn]'"
        ) from error
    return module
