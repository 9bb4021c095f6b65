"""Image sets in their published formats: read, refused, found and fetched."""

import gzip
import hashlib
import http.server
import io
import os
import pickle
import sys
import tarfile
import threading
import types
from functools import partial

import numpy as np
import pytest

from bayesvm_studies.datasets import IMAGE_SETS, DatasetError, load_images
from bayesvm_studies.datasets.images import download_set, read_batch, read_idx, unpack_batches
from studies.tests.datasets.image_files import (
    BATCH_NAMES,
    IDX_NAMES,
    batch,
    idx_bytes,
    python2_pickle,
    write_batches,
    write_idx_set,
)


@pytest.fixture
def no_pooch(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)


# IDX


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_idx_sets(tmp_path, name, packed):
    train_X, train_y, test_X, test_y = write_idx_set(tmp_path / name, packed=packed)
    loaded = load_images(name, tmp_path)
    assert loaded.train_X.shape == (20, 1, 28, 28)
    assert loaded.train_X.dtype == loaded.test_X.dtype == np.uint8
    assert loaded.train_y.dtype == loaded.test_y.dtype == np.int64
    for found, written in zip(loaded[1:5], (train_X[:, None], train_y, test_X[:, None], test_y), strict=True):
        np.testing.assert_array_equal(found, written)
    assert len(loaded.classes) == 10
    assert loaded.note.startswith(f"not the published {name}: 20 training and 7 test images instead of 60000")
    loaded.train_X[0] = 0  # a copy of one's own


def test_the_header_is_big_end_first(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"\x00\x00\x08\x01\x00\x00\x01\x02" + bytes(258))
    assert read_idx(path, 1).shape == (258,)


GOOD = idx_bytes(np.zeros((2, 3, 3)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with nothing"),
        (b"\x00\x00\x0d\x03" + GOOD[4:], "begins with 00000d03"),  # floats
        (b"\x01\x00\x08\x03" + GOOD[4:], "no IDX file"),
        (idx_bytes(np.zeros(18)), "with 3 axes"),  # labels where images should be
        (GOOD[:9], "no IDX file"),
        (GOOD[:-1], "17 bytes after its header instead of 2 x 3 x 3 = 18"),
        (GOOD + b"\x00", "19 bytes"),
        (gzip.compress(GOOD, mtime=0)[:-9], "cannot be read"),
        (b"\x1f\x8bnot gzip at all", "cannot be read"),
    ],
)
def test_damaged_idx_files(tmp_path, content, message):
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=message) as caught:
        read_idx(path, 3)
    assert "images.gz" in str(caught.value)
    assert "get it again" in str(caught.value)


def test_idx_files_that_do_not_fit_together(tmp_path):
    write_idx_set(tmp_path / "mnist", side=27)
    with pytest.raises(DatasetError, match=r"not those of mnist: .*\(1, 27, 27\)"):
        load_images("mnist", tmp_path)
    write_idx_set(tmp_path / "mnist")
    for labels in (np.arange(19) % 10, np.full(20, 10)):
        (tmp_path / "mnist" / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(labels)))
        with pytest.raises(DatasetError, match="not those of mnist"):
            load_images("mnist", tmp_path)


# Batches


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("place", ["cifar-10-batches-py", "cifar10/cifar-10-batches-py"])
def test_cifar10(tmp_path, place, protocol):
    batches = write_batches(tmp_path / place, protocol=protocol)
    loaded = load_images("cifar10", tmp_path)
    assert loaded.train_X.shape == (20, 3, 32, 32)
    assert loaded.test_X.shape == (4, 3, 32, 32)
    assert loaded.train_X.dtype == np.uint8
    # Image 5 is number 1 of the second file; planes are red, green, blue, row by row.
    assert loaded.train_X[5, 2, 3, 7] == batches[1][b"data"][1, 2 * 1024 + 3 * 32 + 7]
    np.testing.assert_array_equal(loaded.train_y, 5 * [0, 1, 2, 3])
    np.testing.assert_array_equal(loaded.test_X.reshape(4, -1), batches[5][b"data"])
    assert loaded.classes[:2] == ("airplane", "automobile")


def test_a_batch_as_python_2_wrote_it(tmp_path):
    data = batch(3, 0)[b"data"]
    content = python2_pickle(data, [9, 0, 4])
    # What numpy itself makes of it: the file above is no invention of this test.
    plain = pickle.loads(content.replace(b"numpy.core", b"numpy._core"), encoding="bytes")
    np.testing.assert_array_equal(plain[b"data"], data)
    assert plain[b"labels"] == [9, 0, 4]
    path = tmp_path / "data_batch_1"
    path.write_bytes(content)
    found = read_batch(path)
    np.testing.assert_array_equal(found.X.reshape(3, -1), data)
    np.testing.assert_array_equal(found.y, [9, 0, 4])
    found.X[0] = 0


def test_an_array_in_columns_order(tmp_path):
    content = batch(3, 0)
    path = tmp_path / "test_batch"
    path.write_bytes(pickle.dumps({**content, b"data": np.asfortranarray(content[b"data"])}, 4))
    np.testing.assert_array_equal(read_batch(path).X.reshape(3, -1), content[b"data"])


class Evil:
    def __init__(self, call, *arguments):
        self.said = call, arguments

    def __reduce__(self):
        return self.said


@pytest.mark.parametrize(
    "evil",
    [
        Evil(os.system, "touch hurt"),
        Evil(eval, "open('hurt', 'w').close()"),
        Evil(np.save, "hurt", np.zeros(1)),
        Evil(np.frombuffer, b"0"),
        Evil(types.SimpleNamespace),
        Evil(bytearray, 3),
        np.float64(1),
    ],
)
def test_a_pickle_runs_nothing(tmp_path, monkeypatch, evil):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "test_batch"
    path.write_bytes(pickle.dumps({**batch(2, 0), b"filenames": evil}, 4))
    with pytest.raises(DatasetError, match="which no such file does"):
        read_batch(path)
    assert os.listdir(tmp_path) == ["test_batch"]


def test_arrays_of_objects_are_refused(tmp_path):
    """They would be filled from the pickle by numpy; ours are never made by numpy."""
    path = tmp_path / "test_batch"
    path.write_bytes(pickle.dumps({**batch(2, 0), b"data": np.full((2, 3072), None, object)}, 4))
    with pytest.raises(DatasetError, match="no batch of CIFAR-10"):
        read_batch(path)


def _with(**changes):
    return pickle.dumps({**batch(2, 0), **{key.encode(): value for key, value in changes.items()}}, 4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read"),
        (b"no pickle", "cannot be read"),
        (_with()[:-100], "cannot be read"),
        (pickle.dumps([1]), "no dictionary"),
        (pickle.dumps({b"labels": [1]}), "no batch"),
        (_with(data=np.zeros((2, 3071), np.uint8)), "no batch"),
        (_with(data=np.zeros((3, 3072), np.uint8)), "no batch"),
        (_with(data=np.zeros((2, 3072), np.int8)), "no batch"),
        (_with(data=np.zeros(6144, np.uint8)), "no batch"),
        (_with(data=b"x" * 6144), "no batch"),
        (_with(labels=[0, 10]), "no batch"),
        (_with(labels=[-1, 0]), "no batch"),
        (_with(labels=[0.0, 1.0]), "no batch"),
        (_with(labels=[True, False]), "no batch"),
        (_with(labels=(0, 1)), "no batch"),
    ],
)
def test_damaged_batches(tmp_path, content, message):
    path = tmp_path / "data_batch_3"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=message) as caught:
        read_batch(path)
    assert "data_batch_3" in str(caught.value)


# Folders


@pytest.mark.usefixtures("no_pooch")
def test_the_folder_of_one_set(tmp_path):
    write_idx_set(tmp_path / "fashion-mnist")
    write_batches(tmp_path / "cifar-10-batches-py")
    assert len(load_images("fashion_mnist", tmp_path / "fashion-mnist").train_y) == 20
    assert len(load_images("cifar10", tmp_path / "cifar-10-batches-py").train_y) == 20
    # The files of both sets have the same names: only the folder tells them apart.
    with pytest.raises(DatasetError, match="'mnist' is not in"):
        load_images("mnist", tmp_path / "fashion-mnist")


@pytest.mark.usefixtures("no_pooch")
def test_the_folder_of_the_system(tmp_path, monkeypatch):
    system = tmp_path / "usr" / "fashion-mnist"
    write_idx_set(system, n_train=9)
    info = IMAGE_SETS["fashion_mnist"]._replace(system=str(system))
    monkeypatch.setitem(IMAGE_SETS, "fashion_mnist", info)
    assert len(load_images("fashion_mnist").train_y) == 9
    write_idx_set(tmp_path / "mine" / "fashion_mnist", n_train=8)
    assert len(load_images("fashion_mnist", tmp_path / "mine").train_y) == 8


@pytest.mark.usefixtures("no_pooch")
@pytest.mark.parametrize("name", sorted(IMAGE_SETS))
def test_a_missing_set_says_how_to_get_it(tmp_path, name):
    with pytest.raises(DatasetError) as caught:
        load_images(name, tmp_path)
    for part in (repr(name), str(tmp_path), "http", "data=", "BAYESVM_IMAGES", "pip install pooch"):
        assert part in str(caught.value)
    assert ("dataset-fashion-mnist" in str(caught.value)) == (name == "fashion_mnist")
    assert os.listdir(tmp_path) == []


@pytest.mark.usefixtures("no_pooch")
@pytest.mark.parametrize("missing", [IDX_NAMES[1], IDX_NAMES[2]])
def test_a_set_with_a_missing_file_is_missing(tmp_path, missing):
    write_idx_set(tmp_path / "mnist")
    (tmp_path / "mnist" / f"{missing}.gz").unlink()
    with pytest.raises(DatasetError, match="is not in"):
        load_images("mnist", tmp_path)


def test_an_unknown_set(tmp_path):
    with pytest.raises(DatasetError, match="did you mean 'cifar10'"):
        load_images("cifar_10", tmp_path)


# What is published


def test_the_digest_knows_published_images(tmp_path, monkeypatch):
    write_idx_set(tmp_path / "mnist")
    digest = load_images("mnist", tmp_path).digest()
    same = IMAGE_SETS["mnist"]._replace(train=20, test=7, digest=digest)
    monkeypatch.setitem(IMAGE_SETS, "mnist", same)
    assert load_images("mnist", tmp_path).note == ""
    # Swapping two labels keeps every count.
    labels = np.arange(20) % 10
    labels[:2] = 1, 0
    (tmp_path / "mnist" / f"{IDX_NAMES[1]}.gz").write_bytes(gzip.compress(idx_bytes(labels)))
    assert load_images("mnist", tmp_path).note == "not the published mnist: other images or labels"


def test_the_digest_depends_on_the_shape(tmp_path):
    write_idx_set(tmp_path / "mnist")
    loaded = load_images("mnist", tmp_path)
    turned = loaded._replace(train_X=loaded.train_X.reshape(20, 28, 1, 28))
    assert turned.digest() != loaded.digest()


def test_hashes_are_sha256():
    for info in IMAGE_SETS.values():
        assert len(info.hashes) == (4 if info.format == "idx" else 1)
        for digest in (*info.hashes.values(), info.digest):
            assert len(digest) == 64
            int(digest, 16)


# Downloads


def fake_pooch(monkeypatch, files, down=()):
    """Keeps pooch's promise: the file with that hash, or an error."""
    asked = []

    def retrieve(url, known_hash, fname, path):
        asked.append(url)
        if url.startswith(tuple(down)):
            raise OSError("no network")
        if known_hash != "sha256:" + hashlib.sha256(files[fname]).hexdigest():
            raise ValueError("SHA256 hash of downloaded file does not match")
        (path / fname).write_bytes(files[fname])

    module = types.ModuleType("pooch")
    module.retrieve = retrieve
    monkeypatch.setitem(sys.modules, "pooch", module)
    return asked


def tiny(name, tmp_path, monkeypatch, **changes):
    """A small set in place of a published one, and its files."""
    if IMAGE_SETS[name].format == "idx":
        write_idx_set(tmp_path / "source")
        files = {path.name: path.read_bytes() for path in (tmp_path / "source").iterdir()}
    else:
        write_batches(tmp_path / "source")
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w:gz") as tar:
            tar.add(tmp_path / "source", "cifar-10-batches-py")
        files = {"cifar-10-python.tar.gz": stream.getvalue()}
    hashes = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
    info = IMAGE_SETS[name]._replace(hashes=hashes, **changes)
    monkeypatch.setitem(IMAGE_SETS, name, info)
    return info, files


@pytest.mark.parametrize("name", sorted(IMAGE_SETS))
def test_downloads_once(tmp_path, monkeypatch, name):
    info, files = tiny(name, tmp_path, monkeypatch)
    asked = fake_pooch(monkeypatch, files)
    for _ in range(2):
        assert len(load_images(name).train_y) == 20
    assert asked == [info.mirrors[0] + file for file in files]
    folder = tmp_path / "cache" / "bayesvm" / "images" / info.folders[0]
    expected = set(files) if info.format == "idx" else set(BATCH_NAMES)  # the archive is not kept
    assert {path.name for path in folder.iterdir()} == expected


def test_the_next_mirror_is_asked(tmp_path, monkeypatch):
    info, files = tiny("mnist", tmp_path, monkeypatch)
    asked = fake_pooch(monkeypatch, files, down=info.mirrors[:1])
    assert len(load_images("mnist", tmp_path).train_y) == 20
    assert asked == [mirror + file for file in files for mirror in info.mirrors]


def test_downloads_that_fail(tmp_path, monkeypatch):
    info, files = tiny("mnist", tmp_path, monkeypatch)
    fake_pooch(monkeypatch, files, down=info.mirrors)
    with pytest.raises(
        DatasetError, match=r"is not in .* The download failed: .*OSError: no network"
    ) as caught:
        load_images("mnist", tmp_path)
    assert all(mirror in str(caught.value) for mirror in info.mirrors)
    with pytest.raises(DatasetError, match="is not in") as caught:
        load_images("mnist", tmp_path, download=False)
    assert "failed" not in str(caught.value)
    fake_pooch(monkeypatch, {file: content + b"more" for file, content in files.items()})
    with pytest.raises(DatasetError, match="does not match"):
        load_images("mnist", tmp_path)


def test_an_archive_cannot_write_elsewhere(tmp_path):
    target = tmp_path / "a" / "b"
    target.mkdir(parents=True)
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as tar:
        for name in ("../../outside", "/outside", "deep/down"):
            member = tarfile.TarInfo(name)
            member.size = 2
            tar.addfile(member, io.BytesIO(b"ok"))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "../.."
        tar.addfile(link)
    unpack_batches(tmp_path / "x.tar.gz", target)
    assert sorted(os.listdir(target)) == ["down", "outside"]
    assert sorted(os.listdir(tmp_path)) == ["a", "x.tar.gz"]


def test_a_damaged_archive(tmp_path):
    (tmp_path / "x.tar.gz").write_bytes(b"\x1f\x8b\x08\x00half")
    with pytest.raises(DatasetError, match=r"x\.tar\.gz cannot be unpacked"):
        unpack_batches(tmp_path / "x.tar.gz", tmp_path)


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path):
    """A folder served on this machine."""
    folder = tmp_path / "served"
    folder.mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=folder)) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{found.server_port}/"
        found.shutdown()
        thread.join()


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_pooch_itself(tmp_path, monkeypatch, server, name):
    pytest.importorskip("pooch")
    folder, address = server
    info, files = tiny(name, tmp_path, monkeypatch, mirrors=(address,))
    for file, content in files.items():
        (folder / file).write_bytes(content)
    assert len(load_images(name, tmp_path).train_y) == 20
    # Wrong bytes are refused and leave no file that would be taken for the set later.
    wrong = info._replace(hashes=dict.fromkeys(files, "0" * 64))
    target = tmp_path / "fresh"
    with pytest.raises(DatasetError, match="hash"):
        download_set(wrong, target)
    assert not any(path.stat().st_size for path in target.iterdir())
