"""The arrays of an image set on the device."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Images:
    """Arrays of a set on the device.

    Attributes
    ----------
    train_X, train_y, held_X, held_y, test_X, test_y : Tensor
    elsewhere : dict of str to Tensor
        Images from elsewhere by name.
    n_classes : int
    """

    train_X: Tensor
    train_y: Tensor
    held_X: Tensor
    held_y: Tensor
    test_X: Tensor
    test_y: Tensor
    elsewhere: dict[str, Tensor]
    n_classes: int


def read_images(folder: str | os.PathLike[str], device: torch.device, limit_rows: int | None) -> Images:
    """Arrays that :class:`ImageSpool` wrote, on the device; at most so many of each kind."""
    place = Path(folder)

    def read(path: Path) -> Tensor:
        array = np.load(path, mmap_mode="r")[:limit_rows]
        return torch.from_numpy(np.array(array)).to(device)

    names = ("train_X", "train_y", "held_X", "held_y", "test_X", "test_y")
    arrays = {name: read(place / f"{name}.npy") for name in names}
    labels = (np.load(place / f"{part}_y.npy") for part in ("train", "held", "test"))
    n_classes = 1 + max(int(y.max()) for y in labels)
    elsewhere = {p.stem: read(p) for p in sorted((place / "ood").glob("*.npy"))}
    return Images(elsewhere=elsewhere, n_classes=n_classes, **arrays)


def models_folder(folder: str | os.PathLike[str]) -> Path:
    """Where models of this run are kept."""
    return Path(json.loads((Path(folder) / "place.json").read_text())["models"])
