"""Image sets in their published formats: MNIST, Fashion-MNIST and CIFAR-10.

Files are found or downloaded, checked against their hashes, and read: IDX
files, and the pickles of ``cifar-10-batches-py`` without running what a
pickle may hold.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import pickle
import tarfile
import uuid
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayesvm_studies.datasets.catalogue import IMAGES_VARIABLE, DatasetError, image_folder
from bayesvm_studies.study import near_name

# Images and labels to train on and to test on.
_Arrays = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.int64]]
__all__ = ["IMAGE_SETS", "ImageSet", "ImageSetInfo", "image_folder", "load_images"]

IDX_STEMS = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
TRAIN_BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
TEST_BATCH = "test_batch"
PIXELS = 3 * 32 * 32
N_CLASSES = 10
_GZIP = b"\x1f\x8b"
_UNSIGNED_BYTE = 0x08


class ImageSetInfo(NamedTuple):
    """What is known about a set before it is read.

    Attributes
    ----------
    name : str
    shape : tuple of int
        Channels, height and width of an image.
    train, test : int
        Numbers of images.
    classes : tuple of str
    format : str
        "idx" or "batches".
    folders : tuple of str
        Below the folder of images, in the order in which they are tried;
        downloads go to the first.
    system : str
        Folder of a Linux package, or empty.
    hashes : dict
        SHA-256 of the published files, by name.
    mirrors : tuple of str
        Addresses that end where the name of a file begins.
    digest : str
        :meth:`ImageSet.digest` of the published images.
    advice : str
        How to get it without this library.
    """

    name: str
    shape: tuple[int, int, int]
    train: int
    test: int
    classes: tuple[str, ...]
    format: str
    folders: tuple[str, ...]
    system: str
    hashes: dict[str, str]
    mirrors: tuple[str, ...]
    digest: str
    advice: str


MNIST = ImageSetInfo(
    name="mnist",
    shape=(1, 28, 28),
    train=60_000,
    test=10_000,
    classes=tuple("0123456789"),
    format="idx",
    folders=("mnist", "MNIST/raw"),
    system="",
    hashes={
        "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    },
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    digest="35914650c8beaeed4429263376775b71ac05b224ab7d958a603bb5feac95afaf",
    advice="put the four IDX files of http://yann.lecun.com/exdb/mnist/ there",
)

FASHION_MNIST = ImageSetInfo(
    name="fashion_mnist",
    shape=(1, 28, 28),
    train=60_000,
    test=10_000,
    classes=(
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
    format="idx",
    folders=("fashion_mnist", "fashion-mnist", "FashionMNIST/raw"),
    system="/usr/share/datasets/fashion-mnist",
    hashes={
        "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    },
    mirrors=(
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
    digest="c2df23e9d135ade7af62bf6273886728f606f79e67e066d2485f52ee9d597534",
    advice=(
        "apt install dataset-fashion-mnist on Debian and Ubuntu, or put the four files of "
        "https://github.com/zalandoresearch/fashion-mnist (folder data/fashion) there"
    ),
)

CIFAR10 = ImageSetInfo(
    name="cifar10",
    shape=(3, 32, 32),
    train=50_000,
    test=10_000,
    classes=(
        *("airplane", "automobile", "bird", "cat", "deer"),
        *("dog", "frog", "horse", "ship", "truck"),
    ),
    format="batches",
    folders=("cifar-10-batches-py", "cifar10/cifar-10-batches-py"),
    system="",
    hashes={
        "cifar-10-python.tar.gz": "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
    },
    mirrors=("https://www.cs.toronto.edu/~kriz/",),
    digest="ad1a54dfad01caa9ded6376715754acc6cff75cfd4035deecefc743f754ce5bb",
    advice="unpack https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz there",
)

IMAGE_SETS = {info.name: info for info in (MNIST, FASHION_MNIST, CIFAR10)}


class ImageSet(NamedTuple):
    """Training and test images with their labels.

    Attributes
    ----------
    name : str
    train_X : ndarray of shape (n_train, channels, height, width), uint8
        Channels come before rows and columns, for every set; colours are red,
        green, blue.
    train_y : ndarray of shape (n_train,), int64
        Index of the class.
    test_X, test_y : ndarray
        The same for the test images.
    classes : tuple of str
        Names of the classes, by index.
    note : str
        What every output that uses these images must say; empty if they are
        the published ones.
    """

    name: str
    train_X: npt.NDArray[np.uint8]
    train_y: npt.NDArray[np.int64]
    test_X: npt.NDArray[np.uint8]
    test_y: npt.NDArray[np.int64]
    classes: tuple[str, ...]
    note: str = ""

    def digest(self) -> str:
        """SHA-256 of images and labels, whatever files they came from."""
        sha = hashlib.sha256()
        for part in (self.train_X, self.train_y, self.test_X, self.test_y):
            # Little-endian on every machine, and the shape: equal bytes may be other images.
            little = np.ascontiguousarray(part, part.dtype.newbyteorder("<"))
            sha.update(repr(part.shape).encode())
            sha.update(little.data)
        return sha.hexdigest()


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
        nowhere = f"there is no image set {name!r}, only {', '.join(IMAGE_SETS)}"
        raise DatasetError("; ".join(filter(None, [nowhere, near_name(name, IMAGE_SETS)])))
    info = IMAGE_SETS[name]
    folder = image_folder(data)
    place = _find(info, folder) or _fetch(info, folder, download)
    read = _read_idx_set if info.format == "idx" else _read_batches
    loaded = ImageSet(name, *read(place), classes=info.classes)
    _check(info, loaded, place)
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
        f"name another folder with data= or {IMAGES_VARIABLE}; or pip install pooch on a machine "
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


def _read_idx_set(place: Path) -> _Arrays:
    def read(stem: str, n_axes: int) -> npt.NDArray[np.uint8]:
        path = _idx_file(place, stem)
        if path is None:
            raise DatasetError(f"{place / stem}.gz is not there any more")
        return read_idx(path, n_axes)

    train_X, train_y, test_X, test_y = (read(stem, 3 if "images" in stem else 1) for stem in IDX_STEMS)
    return train_X[:, None], train_y.astype(np.int64), test_X[:, None], test_y.astype(np.int64)


def _read_batches(place: Path) -> _Arrays:
    train = [read_batch(place / name) for name in TRAIN_BATCHES]
    train_X, train_y = (np.concatenate(parts) for parts in zip(*train, strict=True))
    return train_X, train_y, *read_batch(place / TEST_BATCH)


def _check(info: ImageSetInfo, loaded: ImageSet, place: Path) -> None:
    """Refuse what cannot be used as this set."""
    for X, y in ((loaded.train_X, loaded.train_y), (loaded.test_X, loaded.test_y)):
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


# --- reading


def read_idx(path: Path, n_axes: int) -> npt.NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes, packed with gzip or not.

    The file begins with two bytes of zero, the type of the entries (8 for
    unsigned bytes) and the number of axes; a length per axis follows, four
    bytes each, big end first; then the entries, last axis fastest.

    Parameters
    ----------
    path : Path
    n_axes : int
        Number of axes that the file must have: 3 for images, 1 for labels.
    """
    advice = "remove it and get it again"
    try:
        content = path.read_bytes()
        if content[:2] == _GZIP:
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{path} cannot be read: {error}; {advice}") from error
    start = 4 + 4 * n_axes
    if content[:4] != bytes((0, 0, _UNSIGNED_BYTE, n_axes)) or len(content) < start:
        raise DatasetError(
            f"{path} is no IDX file of unsigned bytes with {n_axes} axes: it begins with "
            f"{content[:4].hex() or 'nothing'}; {advice}"
        )
    shape = tuple(int(n) for n in np.frombuffer(content, ">u4", n_axes, 4))
    if len(content) - start != math.prod(shape):
        raise DatasetError(
            f"{path} holds {len(content) - start} bytes after its header instead of "
            f"{' x '.join(map(str, shape))} = {math.prod(shape)}; {advice}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()


class Batch(NamedTuple):
    """Images (n, 3, 32, 32) and labels of one file."""

    X: npt.NDArray[np.uint8]
    y: npt.NDArray[np.int64]


class _Array:
    """What stands for a numpy array while a pickle is read: it only remembers its state."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Type:
    """What stands for a numpy dtype: it only remembers its name."""

    def __init__(self, name: Any = None, *rest: Any) -> None:
        self.name = name

    def __setstate__(self, state: Any) -> None:
        """Byte order and alignment, which single bytes do not have."""


def _empty_array(kind: Any = None, shape: Any = None, code: Any = None) -> _Array:
    return _Array()


def _encoded(text: str, encoding: str = "latin1") -> bytes:
    """How pickles of protocol 2 that Python 3 wrote spell bytes."""
    if encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError(f"unexpected encoding {encoding!r}")
    return text.encode("latin1")


# All that the published files name, and what numpy 2 and Python 3 write for the same content. None of it
# is numpy's own: a file decides neither which function runs nor what memory an array uses.
_STANDS_FOR = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encoded,
}


class _BatchUnpickler(pickle.Unpickler):
    """Knows the names above and no other."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _STANDS_FOR[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no such file does") from None


def read_batch(path: Path) -> Batch:
    """Read one of the files ``data_batch_1`` to ``data_batch_5`` and ``test_batch``.

    A file is a pickled dictionary; ``data`` is an array of unsigned bytes
    with 3072 columns (the red, green and blue planes of 32 x 32 pixels, row
    by row), ``labels`` a list of integers.

    Parameters
    ----------
    path : Path
    """
    advice = "remove it and get it again"
    try:
        with path.open("rb") as file:
            content = _BatchUnpickler(file, encoding="bytes").load()
    except Exception as error:  # a damaged pickle may raise anything
        raise DatasetError(f"{path} cannot be read: {error}; {advice}") from error
    if not isinstance(content, dict):
        raise DatasetError(f"{path} holds no dictionary; {advice}")
    data, labels = content.get(b"data"), content.get(b"labels")
    X, y = _pixels(data), _labels(labels)
    if X is None or y is None or len(X) != len(y):
        raise DatasetError(
            f"{path} is no batch of CIFAR-10: it needs 'data' (n x {PIXELS} unsigned bytes) and 'labels' "
            f"(n integers from 0 to {N_CLASSES - 1}); {advice}"
        )
    return Batch(X.reshape(-1, 3, 32, 32), y)


def _pixels(array: Any) -> npt.NDArray[np.uint8] | None:
    """The array that a pickle describes, if it is one of bytes with 3072 columns."""
    if not isinstance(array, _Array):
        return None
    match array.state:
        case (
            int(),
            (int(rows), int(columns)),
            _Type(name=(b"u1" | "u1")),
            bool() | int() as by_columns,
            bytes(raw),
        ):
            pass
        case _:
            return None
    if columns != PIXELS or rows < 1 or len(raw) != math.prod((rows, columns)):
        return None
    flat = np.frombuffer(raw, np.uint8)
    return flat.reshape((rows, columns), order="F" if by_columns else "C").copy(order="C")


def _labels(labels: Any) -> npt.NDArray[np.int64] | None:
    """A list of classes as an array."""
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        return None
    if not labels or min(labels) < 0 or max(labels) >= N_CLASSES:
        return None
    return np.array(labels, np.int64)


# --- downloading


def download_set(info: ImageSetInfo, target: Path) -> None:
    """Put the files of a set into a folder; what does not have the published hash is not kept.

    Raises ImportError if pooch is not installed and DatasetError if no
    mirror has the files.

    Parameters
    ----------
    info : ImageSetInfo
    target : Path
        Made if it is not there.
    """
    pooch = import_module("pooch")
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatasetError(f"{target} cannot be made: {error}") from error
    for name, known in info.hashes.items():
        failures = []
        for mirror in info.mirrors:
            try:
                pooch.retrieve(mirror + name, known_hash=f"sha256:{known}", fname=name, path=target)
            except Exception as error:  # a missing network in many ways, or a wrong hash
                failures.append(f"{mirror}{name}: {type(error).__name__}: {error}")
            else:
                break
        else:
            raise DatasetError("; ".join(failures))
        if name.endswith(".tar.gz"):
            unpack_batches(target / name, target)
            (target / name).unlink()


def unpack_batches(archive: Path, target: Path) -> None:
    """Write the plain files of an archive into one folder, each complete or not at all.

    Only names count, not paths: nothing can land outside of the folder.

    Parameters
    ----------
    archive : Path
        Such as ``cifar-10-python.tar.gz``.
    target : Path
    """
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isfile() else None
                if content is None:
                    continue
                part = target / f"{uuid.uuid4().hex}.part"
                try:
                    part.write_bytes(content.read())
                    os.replace(part, target / Path(member.name).name)
                finally:
                    part.unlink(missing_ok=True)
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise DatasetError(f"{archive} cannot be unpacked: {error}") from error
