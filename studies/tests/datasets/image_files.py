"""Tiny image sets in the published formats."""

import gzip
import pickle
from pathlib import Path

import numpy as np

IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
BATCH_NAMES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")


def idx_bytes(array):
    """The format's own description, byte by byte."""
    header = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_idx_set(folder, n_train=20, n_test=7, packed=True, side=28):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    arrays = []
    for n in (n_train, n_test):
        arrays += [rng.integers(0, 256, (n, side, side)), np.arange(n) % 10]
    for name, array in zip(IDX_NAMES, arrays, strict=True):
        content = idx_bytes(array)
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)
    return arrays


def batch(n, seed):
    rng = np.random.default_rng(seed)
    return {b"data": rng.integers(0, 256, (n, 3072)).astype(np.uint8), b"labels": [i % 10 for i in range(n)]}


def write_batches(folder, n=4, protocol=4):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    batches = [batch(n, seed) for seed in range(6)]
    for name, content in zip(BATCH_NAMES, batches, strict=True):
        (folder / name).write_bytes(pickle.dumps({b"batch_label": name.encode(), **content}, protocol))
    return batches


def python2_pickle(data, labels):
    """A batch as Python 2 and numpy 1 wrote it, opcode by opcode: protocol 2, byte strings, numpy.core."""

    def text(value):
        return b"T" + len(value).to_bytes(4, "little") + value  # BINSTRING

    def number(value):
        return b"J" + value.to_bytes(4, "little", signed=True)  # BININT

    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n" + number(0) + b"\x85" + text(b"b") + b"tR"
    )
    dtype = b"cnumpy\ndtype\n(" + text(b"u1") + number(0) + number(1) + b"tR"
    dtype += b"(" + number(3) + text(b"|") + b"NNN" + number(-1) + number(-1) + number(0) + b"tb"
    shape = b"(" + number(data.shape[0]) + number(data.shape[1]) + b"t"
    array += b"(" + number(1) + shape + dtype + b"\x89" + text(data.tobytes()) + b"tb"
    listed = b"](" + b"".join(number(label) for label in labels) + b"e"
    names = b"](" + b"".join(text(b"a_%d.png" % i) for i in range(len(labels))) + b"e"
    content = text(b"data") + array + text(b"labels") + listed + text(b"batch_label")
    content += text(b"training batch 1 of 5") + text(b"filenames") + names
    return b"\x80\x02}(" + content + b"u."
