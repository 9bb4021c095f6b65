"""The arrays that all runs share: nothing that is scored has been trained on."""

import numpy as np
import torch

from bayesvm_studies.datasets import CORRUPTIONS, DatasetError, load_images
from bayesvm_studies.images.arrays import (
    SEVERITIES,
    SYNTHETIC,
    ImageSpool,
    image_digest,
    models_folder,
    read_images,
)
from studies.tests.images.folders import cifar_folder


def rows(X):
    return {x.tobytes() for x in np.asarray(X)}


def test_held_out_rows_are_not_trained_on(folder, tiny_data):
    images = read_images(folder, torch.device("cpu"), None)
    original = load_images("mnist", tiny_data)
    train, held, test = (rows(X) for X in (images.train_X, images.held_X, images.test_X))
    assert (len(images.train_y), len(images.held_y), len(images.test_y)) == (360, 40, 150)
    assert not train & held
    assert train | held == rows(original.train_X)
    assert test == rows(original.test_X)
    of_row = {x.tobytes(): y for x, y in zip(original.train_X, original.train_y, strict=True)}
    for X, y in ((images.train_X, images.train_y), (images.held_X, images.held_y)):
        assert [of_row[x.tobytes()] for x in X.numpy()] == y.tolist()
    assert images.n_classes == 10
    assert set(images.elsewhere) == {"fashion_mnist"}
    assert rows(images.elsewhere["fashion_mnist"]) == rows(load_images("fashion_mnist", tiny_data).test_X)


def test_fewer_rows_are_the_first_ones(folder):
    every, few = (read_images(folder, torch.device("cpu"), n) for n in (None, 25))
    assert torch.equal(few.train_X, every.train_X[:25])
    assert len(few.test_y) == len(few.held_y) == len(few.elsewhere["fashion_mnist"]) == 25
    assert few.n_classes == 10


def test_models_are_kept_where_they_were_asked_for(folder, kept):
    assert models_folder(folder) == kept.resolve()


def test_corruptions_of_cifar10(tmp_path):
    spool = ImageSpool(cifar_folder(tmp_path / "data"), tmp_path)
    try:
        images = read_images(spool.folder_of("cifar10"), torch.device("cpu"), None)
    finally:
        spool.close()
    assert set(images.elsewhere) == {f"{kind}-{k}" for kind in CORRUPTIONS for k in SEVERITIES}
    # The worse, the further away.
    for kind in CORRUPTIONS:
        away = [
            float((images.elsewhere[f"{kind}-{k}"].float() - images.test_X.float()).abs().mean())
            for k in (1, 5)
        ]
        assert 0.0 < away[0] < away[1]


def test_without_fashion_mnist_a_note_says_so(tiny_data, kept, monkeypatch):
    def only_mnist(name, data):
        if name != "mnist":
            raise DatasetError("not here")
        return load_images(name, data)

    monkeypatch.setattr("bayesvm_studies.images.arrays.load_images", only_mnist)
    spool = ImageSpool(tiny_data, kept)
    images = read_images(spool.folder_of("mnist"), torch.device("cpu"), None)
    spool.close()
    assert images.elsewhere == {}
    assert "no out-of-distribution scores for mnist: not here" in spool.notes["mnist"]


def test_digests(tiny_data):
    assert image_digest("mnist", tiny_data) == load_images("mnist", tiny_data).digest()[:12]
    assert image_digest(SYNTHETIC, None) == SYNTHETIC
