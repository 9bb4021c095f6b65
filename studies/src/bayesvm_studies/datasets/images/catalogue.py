"""The image sets: their files, hashes, folders, and where they are published."""

from __future__ import annotations

from typing import NamedTuple


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
