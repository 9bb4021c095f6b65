"""Checkpoints of a training run: a folder from which a killed run goes on as if nothing had happened."""

from __future__ import annotations

import hashlib
import os
import pickle
import re
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bayesvm._files import replacing
from bayesvm.nn._recipe import Epoch, Recipe

State = dict[str, dict[str, Any]]

_LAST = "last.pt"
_FORMAT = 1
# Rows at either end of the data that go into a fingerprint, and settings that do not.
_SAMPLE_ROWS = 256
_FREE = ("compile", "augment", "graph", "settle")


def state_of(network: nn.Module, head: nn.Module) -> State:
    """A copy of everything in both modules that training changes, generators included."""
    return {
        name: {
            "tensors": {
                key: value.detach().clone() if isinstance(value, torch.Tensor) else value
                for key, value in module.state_dict().items()
            },
            "generators": {key: g.get_state().clone() for key, g in _generators(module).items()},
        }
        for name, module in (("network", network), ("head", head))
    }


def restore_state(network: nn.Module, head: nn.Module, state: State) -> None:
    """Put both modules into a state that ``state_of`` gave."""
    for name, module in (("network", network), ("head", head)):
        module.load_state_dict(state[name]["tensors"])
        generators = _generators(module)
        for key, value in state[name]["generators"].items():
            generators[key].set_state(value.cpu())


def _generators(module: nn.Module) -> dict[str, torch.Generator]:
    """Random generators that a module or its children hold; they are not part of a state dict."""
    return {
        f"{prefix}.{name}": value
        for prefix, child in module.named_modules()
        for name, value in vars(child).items()
        if isinstance(value, torch.Generator)
    }


class TrainingRecord:
    """The progress of a run.

    Attributes
    ----------
    epochs : list of Epoch
        Those that are finished.
    best : State or None
        Of the best of them.
    best_number : int
        Its number; 0 while there is none.
    """

    def __init__(self) -> None:
        self.epochs: list[Epoch] = []
        self.best: State | None = None
        self.best_number = 0

    def add(self, epoch: Epoch, state: State, by_validation: bool) -> None:
        """Note an epoch, and its state if it is the best so far."""
        self.epochs.append(epoch)
        if self.best_number and by_validation:
            old, new = self.epochs[self.best_number - 1].validation_log_loss, epoch.validation_log_loss
            if old is not None and new is not None and not new < old:
                return
        self.best, self.best_number = state, epoch.number


class Checkpoint:
    """The folder of a run.

    ``last.pt`` holds the last finished epoch with all that is needed to go
    on; it names the file with the best one. Files are written beside their
    place and moved, the best one first: whenever the process dies, the
    folder holds a state that belongs together. Reading runs no code.

    Parameters
    ----------
    folder : path-like
        Made if it is not there.
    run : dict
        What identifies the run, as plain values; a folder with another run
        is refused.
    """

    def __init__(self, folder: str | os.PathLike[str], run: dict[str, Any]) -> None:
        self._folder = Path(folder)
        self._run = run

    def write(self, record: TrainingRecord, last: State, optimiser: dict[str, Any]) -> None:
        """Replace what is in the folder by a run that has come this far."""
        best = f"best-{record.best_number:05d}.pt"
        if not (self._folder / best).exists() or record.best_number == record.epochs[-1].number:
            _write({"format": _FORMAT, "state": record.best}, self._folder / best)
        content = {
            "format": _FORMAT,
            "run": self._run,
            "epochs": [asdict(epoch) for epoch in record.epochs],
            "best": best,
            "best_number": record.best_number,
            "state": last,
            "optimiser": optimiser,
        }
        _write(content, self._folder / _LAST)
        for old in self._folder.glob("best-*.pt"):
            if old.name != best:
                old.unlink(missing_ok=True)

    def clear(self) -> None:
        """Make the folder, before anything is trained for it, and forget a run in it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for file in (self._folder / _LAST, *self._folder.glob("best-*.pt")):
            file.unlink(missing_ok=True)

    def read(self, network: nn.Module, head: nn.Module) -> tuple[TrainingRecord, dict[str, Any]] | None:
        """Put both modules where the run was; None if the folder holds no run.

        Returns
        -------
        record : TrainingRecord
        optimiser : dict
            State of the optimiser.

        Raises
        ------
        ValueError
            If the folder holds another run, or files that cannot be read.
        """
        if not (self._folder / _LAST).exists():
            return None
        content = self._load(_LAST)
        self._check(content["run"])
        record = TrainingRecord()
        record.epochs = [Epoch(**epoch) for epoch in content["epochs"]]
        record.best_number = content["best_number"]
        record.best = self._load(content["best"])["state"]
        try:
            restore_state(network, head, content["state"])
        except (RuntimeError, KeyError) as error:
            raise ValueError(
                f"the checkpoint in {self._folder} belongs to another network or head; choose another "
                f"folder, or start anew with resume=False ({error})"
            ) from error
        return record, content["optimiser"]

    def _load(self, name: str) -> dict[str, Any]:
        path = self._folder / name
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except (RuntimeError, EOFError, FileNotFoundError, pickle.UnpicklingError) as error:
            raise ValueError(
                f"{path} is missing or damaged; start anew with resume=False ({error})"
            ) from error
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise ValueError(f"{path} is not a checkpoint of this version; start anew with resume=False")
        return content

    def _check(self, run: dict[str, Any]) -> None:
        differences = [
            f"{name} is {self._run.get(name)!r} now and was {run.get(name)!r}"
            for name in sorted({*run, *self._run})
            if run.get(name) != self._run.get(name)
        ]
        if differences:
            raise ValueError(
                f"the folder {self._folder} holds the checkpoint of another run ("
                + "; ".join(differences)
                + "); choose another folder, or start anew with resume=False"
            )


def _write(content: dict[str, Any], path: Path) -> None:
    with replacing(path) as part, open(part, "wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())


def fingerprint(
    network: nn.Module,
    head: nn.Module,
    X: Tensor,
    y: Tensor,
    recipe: Recipe,
    validation: tuple[Tensor, Tensor] | None,
    temper: bool,
) -> dict[str, Any]:
    """The checkpoint fingerprint: plain values that are the same when a run may be resumed.

    A larger number of epochs is still the same run, unless the learning rate
    depends on it. Data are compared by their labels and their first and last rows.
    """
    settings = {f.name: getattr(recipe, f.name) for f in fields(recipe) if f.name not in _FREE}
    if recipe.schedule == "constant":
        del settings["epochs"]
    augment = recipe.augment
    name = None if augment is None else getattr(augment, "__qualname__", type(augment).__name__)
    return {
        **settings,
        "augment": name,
        "rows": len(X),
        "data": _digest(X, y),
        "validation": None if validation is None else _digest(*validation),
        "temper": temper,
        "network": _structure(network),
        "head": _structure(head),
    }


def _digest(X: Tensor, y: Tensor) -> str:
    state = hashlib.blake2b(repr((tuple(X.shape), X.dtype)).encode(), digest_size=8)
    for part in (y, X[:_SAMPLE_ROWS], X[-_SAMPLE_ROWS:]):
        state.update(part.detach().contiguous().cpu().view(torch.uint8).numpy().tobytes())
    return state.hexdigest()


def _structure(module: nn.Module) -> str:
    # Addresses of objects in a module's description differ from process to process.
    text = re.sub(r"0x[0-9a-f]+", "", repr(module))
    shapes = [(name, tuple(value.shape)) for name, value in module.named_parameters()]
    return hashlib.blake2b(f"{text}{shapes}".encode(), digest_size=8).hexdigest()
