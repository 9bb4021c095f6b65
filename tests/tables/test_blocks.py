"""Tables in blocks of rows: every block is what those rows are in the whole table."""

import decimal
import os
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from pandas.testing import assert_frame_equal

import bayesvm
from bayesvm.tables import (
    TableError,
    TableWarning,
    _predictions,
    _reading,
    fit_table,
    open_blocks,
    predict_blocks,
    predict_table,
    read_table,
    table_writer,
    write_table,
)

from .data import FAST, mixed_table


@pytest.fixture
def short_blocks(monkeypatch):
    for module in (_reading, _predictions):
        monkeypatch.setattr(module, "BLOCK_ROWS", 3)


def assert_same_blocks(path, **options):
    whole, parts = read_table(path, **options), open_blocks(path, **options)
    assert parts.n_rows == len(whole)
    for _ in range(2):
        start = 0
        for block in parts:
            assert len(block) == min(3, len(whole) - start)
            assert_frame_equal(block, whole.iloc[start : start + 3])
            start += len(block)
        assert start == len(whole)


WORDS = {
    "int": ["1", "-7", "123456789012345"],
    "float": ["0.1", "2.5e-7", "123456789.123456789", "1e400"],
    "bool": ["True", "false"],
    "missing": ["NA", "", "?"],
    "text": ["a b", "01x", '"x,y"'],
    "large": ["18446744073709551615"],
    "huge": ["184467440737095516150"],
}


@pytest.mark.parametrize("as_target", [False, True])
@pytest.mark.parametrize("first", WORDS)
@pytest.mark.parametrize("second", WORDS)
def test_types_are_those_of_the_whole_column(first, second, as_target, short_blocks, tmp_path):
    """Two kinds of values, the second in one row only, wherever that is."""
    path = tmp_path / "t.csv"
    for where in (0, 4, 9):
        words = [WORDS[first][i % len(WORDS[first])] for i in range(10)]
        words[where] = WORDS[second][0]
        path.write_text("i,c\n" + "".join(f"{i},{word}\n" for i, word in enumerate(words)))
        assert_same_blocks(path, target="c" if as_target else None)


def test_mixtures_of_everything(short_blocks, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "t.csv"
    everything = [word for words in WORDS.values() for word in words]
    for _ in range(40):
        chosen = rng.choice(everything, 3)
        rows = rng.choice(chosen, (8, 4))
        path.write_text("a,b,c,d\n" + "".join(",".join(row) + "\n" for row in rows))
        assert_same_blocks(path)
        assert_same_blocks(path, target="c")


def test_tables_for_a_model(short_blocks, tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"{code},{i},{i % 2}\n" for i, code in enumerate(["007", "008", "1", "A1"] * 6)]
    path.write_text("code,x,y\n" + "".join(rows))
    model = fit_table(read_table(path), "y", holdout=0, model_options=FAST).pipeline
    assert_same_blocks(path, model=model)


@pytest.mark.parametrize("suffix", ["csv.gz", "csv.zst", "tsv.xz", "csv"])
def test_packed_files(suffix, short_blocks, tmp_path):
    write_table(mixed_table(20), tmp_path / f"t.{suffix}")
    assert_same_blocks(tmp_path / f"t.{suffix}")
    (tmp_path / "t.csv").write_text("a;b\n" + "1,5;ü\n" * 7, encoding="utf-16")
    assert_same_blocks(tmp_path / "t.csv")


def test_parquet(short_blocks, tmp_path):
    n, path = 11, tmp_path / "t.parquet"
    table = mixed_table(n).assign(
        late_gap=pd.array([1] * (n - 1) + [None], dtype="Int64"),
        truth=pd.Series([True] * (n - 1) + [None], dtype=object),
        money=[decimal.Decimal("1.50")] * n,
    )
    written = pa.Table.from_pandas(table)
    late = pa.array([*range(n - 1), None])  # without a note that pandas has a type with room for gaps
    written = written.append_column("plain", late).append_column("small", late.cast(pa.int8()))
    pa.parquet.write_table(written, path, row_group_size=4)
    assert open_blocks(path).n_rows == n
    whole = read_table(path)
    joined = list(open_blocks(path))
    for block in joined:
        expected = whole.loc[block.index]
        # Categories of a block are those of its rows.
        assert_frame_equal(block.drop(columns="grade"), expected.drop(columns="grade"))
        assert block["grade"].tolist() == expected["grade"].tolist()
    assert sum(map(len, joined)) == n
    for index in (
        pd.RangeIndex(5, 5 + 2 * n, 2, name="id"),
        pd.Index([f"r{i}" for i in range(n)], name="id"),
    ):
        pd.DataFrame({"x": np.arange(n)}, index=index).to_parquet(path)
        assert "id" in read_table(path)
        assert_frame_equal(pd.concat(list(open_blocks(path))), read_table(path))


@pytest.mark.parametrize("name", ["out.csv", "out.tsv.gz", "out.parquet"])
def test_written_in_blocks(name, tmp_path, monkeypatch):
    table = mixed_table(20).drop(columns="grade")
    table.loc[:6, ["note", "seen"]] = None  # the first block does not show what they are
    truth = pd.Series([None] * 7 + [True, False] * 6 + [None], dtype=object)
    table = table.assign(truth=truth)
    write_table(table, tmp_path / name)
    expected = read_table(tmp_path / name)
    monkeypatch.setattr("bayesvm.tables._formats._GROUP_BYTES", 1)
    with table_writer(tmp_path / name, {"truth": pa.bool_(), "note": pa.string()}) as writer:
        for start in range(0, 20, 3):
            writer.write(table.iloc[start : start + 3])
    assert_frame_equal(read_table(tmp_path / name), expected)


def test_a_writer_that_fails_leaves_the_old_file(tmp_path):
    for name in ("out.csv", "out.parquet"):
        write_table(mixed_table(3), tmp_path / name)
        before = (tmp_path / name).read_bytes()
        with pytest.raises(AttributeError), table_writer(tmp_path / name) as writer:
            [writer.write(part) for part in (mixed_table(5), None)]
        assert (tmp_path / name).read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_what_is_wrong_is_said_before_the_first_block(short_blocks, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2\n" * 20 + "1,2,3\n")
    with pytest.raises(TableError, match=r"line 22 of .* has 3 fields, but the first line names 2"):
        open_blocks(path)
    path.write_bytes(b"a,b\n" + b"1,2\n" * 1000 + "1,ü\n".encode("latin1"))
    with pytest.raises(TableError, match="not UTF-8"):
        open_blocks(path)
    path.write_text("a,b\n")
    with pytest.raises(TableError, match=r"2 column\(s\) and no rows"):
        open_blocks(path)


def test_predictions_and_notes_of_blocks(short_blocks):
    table = mixed_table(60)
    model = fit_table(table, "species", holdout=0, model_options=FAST).pipeline
    new = mixed_table(10, seed=1).assign(colour="mauve", legs="many")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        together = predict_table(model, new, 0.1)
    said = sorted(str(w.message) for w in caught if issubclass(w.category, TableWarning))
    assert [message.split(" such as ")[0] for message in said] == [
        "column 'colour': 10 values",
        "column 'legs': 10 values",
    ]
    parts = [new.iloc[start : start + 3] for start in range(0, 10, 3)]
    with pytest.warns(TableWarning) as given:
        assert_frame_equal(pd.concat(list(predict_blocks(model, parts, 0.1))), together)
    assert sorted(str(w.message) for w in given) == said


PEAK = """
import sys
from bayesvm._cli import run
from bayesvm.tables import _formats, _predictions, _reading
for module in (_predictions, _reading):
    module.BLOCK_ROWS = 1000
_formats._GROUP_BYTES = 2**22
for table in sys.argv[1:]:
    status = run(["predict", "m.skops", table, "--keep", "-o", f"out_{table}"])
    lines = open("/proc/self/status").read().splitlines()
    print(status, *(line.split()[1] for line in lines if line.startswith("VmHWM")))
"""


# Slow; that blocks give the same answers runs fast.
@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory is looked up where Linux says it")
def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch):
    """The peak of a process that predicts small files, and then large ones, which must never be in memory."""
    monkeypatch.setattr("bayesvm.tables._formats._GROUP_BYTES", 2**22)
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    table = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "y": X[:, 0] > 0})
    bayesvm.save(fit_table(table, "y", holdout=0, model_options=FAST).pipeline, "m.skops")
    letters = rng.integers(97, 123, (1000, 5000), dtype=np.uint8)  # nothing to compress
    block = pd.DataFrame({"x": rng.normal(size=1000), "z": rng.normal(size=1000)})
    block["note"] = [bytes(row).decode() for row in letters]
    names = ["4.csv", "4.parquet", "24.csv", "24.parquet"]
    for name in names:
        with table_writer(name) as writer:
            for _ in range(int(name.split(".")[0])):
                writer.write(block)
    answer = subprocess.run(
        [sys.executable, "-c", PEAK, *names],
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    lines = [line.split() for line in answer.stdout.splitlines()]
    assert [status for status, _ in lines] == ["0"] * 4, answer.stderr
    small, large = int(lines[1][1]) / 1024, int(lines[3][1]) / 1024
    megabytes = os.path.getsize("24.csv") / 2**20
    assert megabytes > 110
    assert large - small < 0.4 * megabytes
    assert_frame_equal(read_table("out_4.csv"), read_table("out_4.parquet"))
