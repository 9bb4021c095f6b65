"""A fitted classifier as one safetensors file: weights as tensors, the rest as JSON in its header."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from bayesvm._files import replacing
from bayesvm._version import __version__
from bayesvm.nn._recipe import Epoch

_FORMAT = 1
_KEY = "bayesvm"


class Contents:
    """What a file holds.

    Attributes
    ----------
    about : dict
        Everything that is no tensor.
    network, head : dict of Tensor
        State of the modules.
    """

    def __init__(self, about: dict[str, Any], network: dict[str, Tensor], head: dict[str, Tensor]) -> None:
        self.about = about
        self.network = network
        self.head = head

    @property
    def classes(self) -> npt.NDArray[Any]:
        """Labels, of the type they had."""
        described = self.about["classes"]
        return np.array(described["labels"], dtype=np.dtype(described["dtype"]))

    @property
    def epochs(self) -> list[Epoch]:
        """What the epochs were like."""
        return [Epoch(**epoch) for epoch in self.about["history"]]


def write_model(
    path: str | os.PathLike[str],
    about: dict[str, Any],
    classes: npt.NDArray[Any],
    epochs: list[Epoch],
    network: nn.Module,
    head: nn.Module,
) -> None:
    """Write a file, complete or not at all.

    Raises
    ------
    ValueError
        If labels or states are of a kind that a file cannot hold.
    """
    save_file = _safetensors("torch").save_file
    if classes.dtype.kind not in "iufbUO" or not all(
        isinstance(label, (str, int, float, bool)) for label in classes.tolist()
    ):
        raise ValueError(f"labels of type {classes.dtype} cannot be saved; use numbers or strings")
    header = {
        **about,
        "format": _FORMAT,
        "version": __version__,
        "classes": {"dtype": classes.dtype.str, "labels": classes.tolist()},
        "history": [asdict(epoch) for epoch in epochs],
    }
    tensors = {}
    for part, module in (("network", network), ("head", head)):
        for name, value in module.state_dict().items():
            if not isinstance(value, Tensor):
                raise ValueError(f"{part} holds {name!r}, which is no tensor and cannot be saved")
            # Files hold no shared or strided memory.
            tensors[f"{part}.{name}"] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
    with replacing(path) as target:
        save_file(tensors, target, metadata={_KEY: json.dumps(header, default=_plain)})


def read_model(path: str | os.PathLike[str]) -> Contents:
    """Read what ``write_model`` wrote; no code in the file is run.

    Raises
    ------
    ValueError
        If it is no such file.
    """
    safetensors = _safetensors("")
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no model file {str(path)!r}")
    tensors: dict[str, dict[str, Tensor]] = {"network": {}, "head": {}}
    try:
        with safetensors.safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {})[_KEY])
            if about["format"] != _FORMAT:
                raise ValueError(f"format {about['format']}")
            for key in file.keys():  # noqa: SIM118 (no dict)
                part, name = key.split(".", 1)
                tensors[part][name] = file.get_tensor(key)
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is not a file that HybridClassifier.save of this version wrote ({error})"
        ) from error
    return Contents(about, tensors["network"], tensors["head"])


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
