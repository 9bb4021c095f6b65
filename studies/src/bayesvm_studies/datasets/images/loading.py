"""From the name of an image set to its images."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayesvm_studies.datasets.errors import DatasetError
from bayesvm_studies.datasets.images.batches import read_batch
from bayesvm_studies.datasets.images.catalogue import IMAGE_SETS, ImageSetInfo
from bayesvm_studies.datasets.images.download import download_set
from bayesvm_studies.datasets.images.idx import read_idx
from bayesvm_studies.datasets.images.image_set import ImageSet
from bayesvm_studies.datasets.images.places import IMAGES_VARIABLE, image_folder

IDX_STEMS = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
TRAIN_BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
TEST_BATCH = "test_batch"


class _Parts(NamedTuple):
    """Training and test images with labels, (n, channels, height, width) and (n,)."""

    train_X: npt.NDArray[np.uint8]
    train_y: npt.NDArray[np.int64]
    test_X: npt.NDArray[np.uint8]
    test_y: npt.NDArray[np.int64]


def load_images(name: str, data: str | os.PathLike[str] | None = None, *, download: bool = True) -> ImageSet:
    """Load MNIST, Fashion-MNIST or CIFAR-10 from their published files.

    If the files are not there and the ``pooch`` package is installed, they
    are downloaded to the folder and checked against their hashes.

    Parameters
    ----------
    name : {"mnist", "fashion_mnist", "cifar10"}
    data : str, path-like or None
        Folder with ``mnist``, ``fashion_mnist`` and ``cifar-10-batches-py``
        in it, or one of these; None: the environment variable
        BAYESVM_IMAGES, or a folder in the user's cache.
    download : bool, default=True
        Whether a set that is not there may be downloaded.

    Returns
    -------
    ImageSet
        Images as unsigned bytes of shape (n, channels, height, width).
    """
    if name not in IMAGE_SETS:
        near = difflib.get_close_matches(name, IMAGE_SETS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise DatasetError(f"there is no image set {name!r}, only {', '.join(IMAGE_SETS)}{hint}")
    info = IMAGE_SETS[name]
    folder = image_folder(data)
    place = _find(info, folder) or _fetch(info, folder, download)
    parts = _read_idx_set(place) if info.format == "idx" else _read_batches(place)
    _check(info, parts, place)
    loaded = ImageSet(name, *parts, classes=info.classes)
    return loaded._replace(note=_other_images(info, loaded))


def _find(info: ImageSetInfo, folder: Path) -> Path | None:
    """The first folder with all files of the set.

    The folder given may be that of the set itself, if it is called so: the
    files of MNIST and Fashion-MNIST have the same names.
    """
    places = [folder / part for part in info.folders]
    places += [
        folder
        for part in info.folders
        if folder.resolve().parts[-len(Path(part).parts) :] == Path(part).parts
    ]
    places += [Path(info.system)] if info.system else []
    return next((place for place in places if _is_complete(info, place)), None)


def _is_complete(info: ImageSetInfo, place: Path) -> bool:
    if info.format == "batches":
        return all((place / name).is_file() for name in (*TRAIN_BATCHES, TEST_BATCH))
    return all(_idx_file(place, stem) is not None for stem in IDX_STEMS)


def _idx_file(place: Path, stem: str) -> Path | None:
    """The file as published, or unpacked."""
    return next((path for path in (place / f"{stem}.gz", place / stem) if path.is_file()), None)


def _fetch(info: ImageSetInfo, folder: Path, download: bool) -> Path:
    """Download the set into the folder, or say what else can be done."""
    target = folder / info.folders[0]
    advice = (
        f"the image set {info.name!r} is not in {folder}, where it is expected as {target}. "
        f"Get it: {info.advice}; "
        f"name another folder with data= or {IMAGES_VARIABLE}; or pip install 'bayesvm[images]' on a machine "
        "with a network, which downloads it"
    )
    if not download:
        raise DatasetError(advice)
    try:
        download_set(info, target)
    except ImportError as error:
        raise DatasetError(advice) from error
    except DatasetError as error:
        raise DatasetError(f"{advice}. The download failed: {error}") from error
    return target


def _read_idx_set(place: Path) -> _Parts:
    def read(stem: str, n_axes: int) -> npt.NDArray[np.uint8]:
        path = _idx_file(place, stem)
        if path is None:
            raise DatasetError(f"{place / stem}.gz is not there any more")
        return read_idx(path, n_axes)

    train_X, train_y, test_X, test_y = (read(stem, 3 if "images" in stem else 1) for stem in IDX_STEMS)
    return _Parts(train_X[:, None], train_y.astype(np.int64), test_X[:, None], test_y.astype(np.int64))


def _read_batches(place: Path) -> _Parts:
    train = [read_batch(place / name) for name in TRAIN_BATCHES]
    test = read_batch(place / TEST_BATCH)
    train_X, train_y = (np.concatenate(parts) for parts in zip(*train, strict=True))
    return _Parts(train_X, train_y, test.X, test.y)


def _check(info: ImageSetInfo, parts: _Parts, place: Path) -> None:
    """Refuse what cannot be used as this set."""
    for X, y in ((parts.train_X, parts.train_y), (parts.test_X, parts.test_y)):
        if X.shape[1:] != info.shape or len(X) != len(y) or len(y) == 0 or y.max() >= len(info.classes):
            raise DatasetError(
                f"the files in {place} are not those of {info.name}: they hold {len(X)} images of shape "
                f"{X.shape[1:]} and {len(y)} labels up to {y.max(initial=0)}; expected are images of shape "
                f"{info.shape} in {len(info.classes)} classes; remove them and get them again"
            )


def _other_images(info: ImageSetInfo, loaded: ImageSet) -> str:
    """A note if the images are not the published ones."""
    found = len(loaded.train_y), len(loaded.test_y)
    if found != (info.train, info.test):
        return (
            f"not the published {info.name}: {found[0]} training and {found[1]} test images instead of "
            f"{info.train} and {info.test}"
        )
    if loaded.digest() != info.digest:
        return f"not the published {info.name}: other images or labels"
    return ""
