"""The local engine: order, joining of small chunks, errors and Ctrl-C while reading ahead."""

import threading
import time
from dataclasses import dataclass

import numpy as np
import pytest

from bayesvm._fit.engine import Chunk, LocalEngine, read_ahead, regrouped
from bayesvm._fit.fitting import surveyed
from tests.streaming.problems import Chunks, engine, rings


@dataclass(frozen=True)
class Seen:
    """First labels and lengths of the chunks, in order."""

    chunks: tuple

    def plus(self, other):
        return Seen(self.chunks + other.chunks)


def seen(chunk):
    return Seen(((int(chunk.y[0]), len(chunk.y)),))


def _counting(n, size):
    X = np.zeros((n, 1))
    return engine(size, X, np.arange(n))


def test_small_chunks_are_joined_and_large_ones_left_alone():
    assert _counting(10_000, 1000).total(seen).chunks == ((0, 5000), (5000, 5000))
    assert _counting(20_000, 9000).total(seen).chunks == ((0, 9000), (9000, 9000), (18_000, 2000))


def test_joining_keeps_rows_and_order():
    X, y = rings(50)
    chunks = [Chunk(X[i : i + 3], y[i : i + 3], np.ones(len(y[i : i + 3]))) for i in range(0, 50, 3)]
    joined = list(regrouped(chunks, 10))
    assert [len(c.y) for c in joined] == [12, 12, 12, 12, 2]
    assert np.array_equal(np.concatenate([c.X for c in joined]), X)


def test_kept_items_are_made_once():
    made = []

    def prepare(chunk):
        made.append(len(chunk.y))
        return chunk

    kept = _counting(20_000, 5000).kept(prepare)
    assert (
        kept.total(seen).chunks == kept.total(seen).chunks == tuple((i, 5000) for i in range(0, 20_000, 5000))
    )
    assert made == [5000] * 4
    assert kept.kept(prepare).total(seen).chunks[0] == (0, 5000)


def test_no_chunks_are_refused():
    empty = Chunks([Chunk(np.zeros((1, 2)), np.zeros(1), np.ones(1))])
    empty._chunks = []
    with pytest.raises(ValueError, match="no row to learn from"):
        LocalEngine(empty).total(seen)


def _readers():
    return [t for t in threading.enumerate() if t.name == "bayesvm-read-ahead"]


def test_an_error_while_reading_reaches_the_caller():
    def broken():
        yield 1
        raise OSError("the disk is gone")

    items = read_ahead(broken())
    assert next(items) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(items)
    assert not _readers()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_leaving_early_ends_the_reader(error):
    def work(chunk):
        raise error

    with pytest.raises(error):
        _counting(50_000, 5000).total(work)
    assert not _readers()


def test_leaving_does_not_wait_for_a_source_that_blocks():
    go_on = threading.Event()

    def slow():
        yield 1
        go_on.wait(30.0)
        yield 2

    ahead = read_ahead(slow())
    assert next(ahead) == 1
    start = time.perf_counter()
    ahead.close()  # as an interrupt does
    assert time.perf_counter() - start < 5.0
    (reader,) = _readers()
    assert reader.daemon  # the process does not wait either
    go_on.set()
    reader.join(5.0)
    assert not _readers()


@pytest.mark.parametrize("size", [10, 3000, 5000])
@pytest.mark.parametrize(
    ("first", "later", "sorts"),
    [
        (int, str, "from numbers to texts"),
        (str, int, "from texts to numbers"),
        (int, object, "from numbers to texts"),
        (object, float, "from texts to numbers"),
        (str, bytes, "from texts to bytes"),
    ],
)
def test_labels_of_two_sorts_are_refused_whatever_the_chunks(size, first, later, sorts):
    def labels(n, kind):
        numbers = np.arange(n) % 3
        return numbers.astype(str).astype(object) if kind is object else numbers.astype(kind)

    parts = (labels(6000, first), labels(6000, later))
    chunks = [
        Chunk(np.ones((len(y[i : i + size]), 1)), y[i : i + size], np.ones(len(y[i : i + size])))
        for y in parts
        for i in range(0, 6000, size)
    ]
    with pytest.raises(ValueError, match=f"y changes {sorts} in row 6000 "):
        surveyed(LocalEngine(Chunks(chunks)))


def test_numbers_may_be_objects_too():
    chunks = [Chunk(np.ones((2, 1)), y, np.ones(2)) for y in (np.array([1, 2], object), np.array([2, 3]))]
    for fewest in (1, 100):
        found = surveyed(LocalEngine(Chunks(chunks), fewest_rows=fewest))
        assert found.labels.tolist() == [1, 2, 3]
        assert found.mass.tolist() == [1, 2, 1]


def test_the_next_item_is_read_while_this_one_is_worked_on():
    read = threading.Event()

    def items():
        yield 1
        read.set()
        yield 2

    ahead = read_ahead(items())
    assert next(ahead) == 1
    assert read.wait(5.0)
    assert list(ahead) == [2]
