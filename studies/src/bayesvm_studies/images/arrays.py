"""Image sets as arrays on disk and on the device, with images that no network has seen the like of."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bayesvm_studies.datasets import CORRUPTIONS, ImageSet, corrupt, load_images
from bayesvm_studies.spool import Spool

if TYPE_CHECKING:
    import torch
    from torch import Tensor

SYNTHETIC = "synthetic"
# Training rows, the last of a fixed shuffle, kept from training: for temperatures and prior precisions.
HELD_OUT = 2500
# Test images of every kind and severity of corruption.
CORRUPTED_ROWS = 1000
SEVERITIES = (1, 2, 3, 4, 5)
_SHUFFLE_SEED = 2018


def image_digest(name: str, data: str | os.PathLike[str] | None) -> str:
    """Twelve hexadecimal digits that stand for the images of a set; random ones need none."""
    return SYNTHETIC if name == SYNTHETIC else load_images(name, data).digest()[:12]


class ImageSpool(Spool):
    """A temporary folder with the arrays of the image sets used so far.

    Of every set: ``train_X``, ``train_y``, ``held_X``, ``held_y`` (training
    rows kept from training), ``test_X``, ``test_y``, and images from
    elsewhere in ``ood``; ``place.json`` says where models are kept.

    Parameters
    ----------
    data : str, path-like or None
        Folder of the image sets.
    models : path-like
        Folder in which trained models are kept.
    elsewhere : bool
        Whether to add images from elsewhere; clocks need none.
    """

    def __init__(
        self,
        data: str | os.PathLike[str] | None,
        models: str | os.PathLike[str],
        *,
        elsewhere: bool = True,
    ) -> None:
        super().__init__(data)
        self._wanted = elsewhere
        self._models = str(Path(models).resolve())

    def _fill(self, name: str, folder: Path) -> str:
        folder.mkdir()
        (folder / "place.json").write_text(json.dumps({"models": self._models}))
        if name == SYNTHETIC:
            return ""
        images = load_images(name, self._data)
        # The same for every model and seed, whatever order the file is in.
        order = np.random.default_rng(_SHUFFLE_SEED).permutation(len(images.train_y))
        n_held = min(HELD_OUT, len(order) // 10)
        parts = {"train": order[n_held:], "held": order[:n_held]}
        for part, rows in parts.items():
            np.save(folder / f"{part}_X.npy", images.train_X[rows])
            np.save(folder / f"{part}_y.npy", images.train_y[rows])
        np.save(folder / "test_X.npy", images.test_X)
        np.save(folder / "test_y.npy", images.test_y)
        notes = [images.note]
        (folder / "ood").mkdir()
        for other, X in self._elsewhere(name, images, notes).items():
            np.save(folder / "ood" / f"{other}.npy", X)
        return "; ".join(note for note in notes if note)

    def _elsewhere(self, name: str, images: ImageSet, notes: list[str]) -> dict[str, npt.NDArray[np.uint8]]:
        """Images from elsewhere by name; of corruptions, kind and severity."""
        if not self._wanted:
            return {}
        if name == "mnist":
            from bayesvm_studies.datasets import DatasetError

            try:
                fashion = load_images("fashion_mnist", self._data)
            except DatasetError as error:
                notes.append(f"no out-of-distribution scores for mnist: {error}")
                return {}
            notes.append(fashion.note)
            return {"fashion_mnist": fashion.test_X}
        some = images.test_X[:CORRUPTED_ROWS]
        return {
            f"{kind}-{severity}": corrupt(some, kind, severity, 0)
            for kind in CORRUPTIONS
            for severity in SEVERITIES
        }


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
    import torch

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
