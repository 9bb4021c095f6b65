"""Trained models: how they are built, kept in files, and what they say about many images."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bayesvm._files import replacing
from bayesvm.adversarial._model import joined_outputs
from bayesvm.nn import BayesianSVMHead
from bayesvm_studies.images import networks
from bayesvm_studies.images.heads import SoftmaxHead, SoftmaxOutput


class Model(NamedTuple):
    """A network, its head, how they were made, and what was fitted on held-out rows."""

    network: nn.Module
    head: nn.Module
    arguments: dict[str, Any]
    temperature: float = 1.0
    spread: float = 1.0

    def train(self, mode: bool = True) -> None:
        """Set both to training or to evaluation."""
        self.network.train(mode)
        self.head.train(mode)

    @property
    def drops(self) -> bool:
        """Whether it was trained with dropout, so that passes can differ."""
        return bool(self.dropouts)

    @property
    def dropouts(self) -> list[nn.Module]:
        """All layers that drop something."""
        parts = (self.network, self.head)
        return [module for part in parts for module in part.modules() if isinstance(module, nn.Dropout)]


def build_model(arguments: dict[str, Any], n_classes: int, device: torch.device) -> Model:
    """An untrained model.

    Parameters
    ----------
    arguments : dict
        ``network`` (a name in ``networks.py``), ``head`` ("module:name"),
        ``head_arguments``, ``dropout`` (a share, of features too) and
        ``random_state``.
    n_classes : int
    device : torch.device
    """
    # By its name alone: modules move, and kept models stay.
    own_head = arguments["head"].rpartition(":")[2] == "BayesianSVMHead"
    seed = int(arguments["random_state"])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # on the CPU, so that every device starts from the same weights
        network, n_features = getattr(networks, arguments["network"])(dropout=arguments["dropout"])
        make_head: Any = partial(BayesianSVMHead, seed=seed)
        if not own_head:
            make_head = partial(SoftmaxHead, dropout=arguments["dropout"])
        head = make_head(n_features, n_classes, **arguments["head_arguments"])
    return Model(network.to(device), head.to(device), arguments)


def model_file(folder: str | os.PathLike[str], protocol: str, model: str, seed: int, place: str) -> Path:
    """Where a model of a task is kept."""
    return Path(folder) / f"{protocol}-{model}-seed{seed}-{place}.pt"


def save_model(path: Path, model: Model, n_classes: int) -> None:
    """Write a model; the file is never half-written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fitted = {"temperature": model.temperature, "spread": model.spread}
    described = {"arguments": model.arguments, "n_classes": n_classes, **fitted}
    with replacing(path) as part:
        torch.save(
            {
                "described": json.dumps(described),
                "network": _on_cpu(model.network),
                "head": _on_cpu(model.head),
            },
            part,
        )


def load_model(path: str | os.PathLike[str], device: str | torch.device = "cpu") -> Model:
    """Read a model that ``bayesvm reproduce images`` has trained.

    Parameters
    ----------
    path : path-like
    device : str or torch.device

    Returns
    -------
    Model
        Set to evaluation. The head's own temperature and spread are as they
        were while training; ``temperature`` and ``spread`` are those fitted
        on held-out rows.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(
            f"there is no model {path}; train it again with another --results file, or copy the folder of "
            "models along with the results"
        )
    content = torch.load(path, map_location="cpu", weights_only=True)
    described = json.loads(content["described"])
    model = build_model(described["arguments"], described["n_classes"], torch.device("cpu"))
    model.network.load_state_dict(content["network"])
    model.head.load_state_dict(content["head"])
    model.network.to(device)
    model.head.to(device)
    model.train(False)
    return model._replace(temperature=described["temperature"], spread=described["spread"])


def _on_cpu(module: nn.Module) -> dict[str, Tensor]:
    state = module.state_dict()
    return {name: v.detach().cpu() if isinstance(v, Tensor) else v for name, v in state.items()}


# Passes with dropout over which predictions are averaged.
PASSES = 32
_ROWS = 2000


@contextmanager
def evaluated(model: Model) -> Iterator[None]:
    """Set a model to evaluation without gradients, and back to what it was."""
    before = [(module, module.training) for module in (model.network, model.head)]
    model.train(False)
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in before:
            module.train(training)


@contextmanager
def _dropping(model: Model) -> Iterator[None]:
    """Evaluation in which dropout stays on; batch normalisation uses its running statistics."""
    try:
        for module in model.dropouts:
            module.train()
        yield
    finally:
        for module in model.dropouts:
            module.eval()


def features_of(model: Model, X: Tensor, rows: int = _ROWS) -> Tensor:
    """Features of images in single precision, (N, D); the network computes as it was trained."""
    bf16 = model.arguments.get("recipe", {}).get("precision") == "bf16"
    parts = []
    for block in X.split(rows):
        with torch.autocast(X.device.type, dtype=torch.bfloat16, enabled=bf16):
            parts.append(model.network(block))
    return torch.cat(parts).float()


def output_of(model: Model, X: Tensor, rows: int = _ROWS) -> Any:
    """The output of the head for images; with dropout over several passes.

    Parameters
    ----------
    model : Model
        Inside :func:`evaluated`.
    X : Tensor of shape (N, channels, height, width)
    rows : int
        At a time.
    """
    if not model.drops:
        return joined_outputs([model.head(block) for block in features_of(model, X, rows).split(rows)])
    device = X.device
    with _dropping(model), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(0)  # always the same passes
        outputs = [model.head(features_of(model, X, rows)) for _ in range(PASSES)]
    return SoftmaxOutput(torch.cat([o.logits for o in outputs], 1), outputs[0].temperature)
