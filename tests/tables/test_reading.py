"""Tables come from files as they were meant, or with one line that says what to do."""

import gzip

import numpy as np
import pandas as pd
import pytest

from bayesvm.tables import TableError, example_table, fit_table, read_table, write_table

from .data import FAST

SUFFIXES = ["csv", "tsv", "CSV", "csv.gz", "csv.bz2", "tsv.xz", "csv.zst", "parquet", "pq"]


@pytest.fixture
def table():
    return pd.DataFrame({"n": [1, 2], "x": [0.1, np.nan], 'odd, "name"': ["a,b", "Grüße\n;"]})


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_written_is_read(table, suffix, tmp_path):
    path = tmp_path / f"table.{suffix}"
    assert write_table(table.set_axis([7, 8]), str(path)) == path
    pd.testing.assert_frame_equal(read_table(path), table)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a;b\n1,5;x\n2,25;y\n", {"a": [1.5, 2.25], "b": ["x", "y"]}),
        ("a;b\n1.5;x,y\n", {"a": [1.5], "b": ["x,y"]}),
        ("a\tb\n1\t2\n", {"a": [1], "b": [2]}),
        ("a|b\n1|2\n", {"a": [1], "b": [2]}),
        ('"a,1;2;3;4",b\n1,2\n', {"a,1;2;3;4": [1], "b": [2]}),
        ("\ufeffa,b\n1,2\n", {"a": [1], "b": [2]}),
        ("a, b\n1, yes\n", {"a": [1], "b": ["yes"]}),
        ("a\n5\n6\n", {"a": [5, 6]}),
        ("a,,\n1,2,NA\n", {"a": [1], "Unnamed: 1": [2], "Unnamed: 2": [np.nan]}),
    ],
    ids=["decimal comma", "semicolon", "tab", "bar", "quoted", "mark", "space", "one column", "unnamed"],
)
def test_dialects_of_csv(content, expected, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(content, encoding="utf-8")
    pd.testing.assert_frame_equal(read_table(path), pd.DataFrame(expected))


def test_utf_16_with_its_mark(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,ü\n", encoding="utf-16")
    assert read_table(path).to_dict("list") == {"a": [1], "b": ["ü"]}


def test_missing_words(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("x,w\n1,a\nNA,?\nn/a,-\n,None\nNaN,null\n")
    table = read_table(path)
    assert table["x"].tolist()[0] == 1.0
    assert table.isna().sum().to_dict() == {"x": 4, "w": 4}


def test_only_empty_fields_of_a_target_are_missing(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("severity,x,y\nnone,none,1\nNA,1,NA\n,2,\n-,3,0\n")
    table = read_table(path, target="severity")
    assert table["severity"].fillna("(gap)").tolist() == ["none", "NA", "(gap)", "-"]
    assert table["x"].isna().tolist() == [True, False, False, False]
    # Among numbers such a word is no class.
    assert read_table(path, target="y")["y"].fillna(-1).tolist() == [1, -1, -1, 0]


def test_tables_for_a_model_keep_its_codes_as_written(tmp_path):
    path = tmp_path / "table.csv"
    codes = ["007", "008", "A1"] * 8
    path.write_text("code,x,y\n" + "".join(f"{code},{i},0{i % 2}\n" for i, code in enumerate(codes)))
    table = read_table(path).assign(y=["00", "01"] * 12)
    model = fit_table(table, "y", holdout=0, model_options=FAST).pipeline
    path.write_text("x,code,y\n001,007,01\n2,008,00\n")
    new = read_table(path, model=model)
    assert new["code"].tolist() == ["007", "008"]
    assert new["y"].tolist() == ["01", "00"]
    assert new["x"].tolist() == [1, 2]
    as_numbers = read_table(path)
    assert as_numbers["code"].tolist() == [7, 8]


def test_parquet_keeps_a_named_index_as_a_column(tmp_path):
    path = tmp_path / "table.parquet"
    pd.DataFrame({"x": [1, 2]}, index=pd.Index(["a", "b"], name="id")).to_parquet(path)
    assert read_table(path).to_dict("list") == {"id": ["a", "b"], "x": [1, 2]}
    pd.DataFrame({"x": [1, 2]}, index=[5, 6]).to_parquet(path)
    assert read_table(path).index.tolist() == [0, 1]


BAD = {
    "latin.csv": ("a\nü\n".encode("latin1"), r"not UTF-8.*iconv"),
    "empty.csv": (b"", "is empty; write the names"),
    "header.csv": (b"a,b\n", r"2 column\(s\) and no rows; write rows below"),
    "long.csv": (b"a,b\n1,2,3\n", r"line 2 of .* has 3 fields, but the first line names 2.*quotes"),
    "longer.csv": (b"a,b\n1,2\n1,2,3\n", r"line 3 of .* has 3 fields, but the first line names 2"),
    "doubled.csv": (b"a,b,a\n1,2,3\n", "more than one column named 'a'; rename"),
    "quote.csv": (b'a,"b\n1,2', "not a table of text"),
    "packed.csv.gz": (b"a,b\n1,2\n", "cannot read"),
    "cut.csv.gz": (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-6], "cannot read"),
    "cut.csv.zst": (b"a", "cannot read"),
    "text.parquet": (b"a,b\n1,2\n", "not a Parquet file|cannot read"),
    "sheet.xlsx": (b"PK", "save it as CSV"),
    "table.json": (b"{}", r"\.csv, \.tsv or \.parquet"),
}


@pytest.mark.parametrize("name", BAD)
def test_files_that_are_no_tables(name, tmp_path):
    content, message = BAD[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TableError, match=message) as caught:
        read_table(path)
    assert "\n" not in str(caught.value)


def test_missing_files(tmp_path):
    (tmp_path / "penguins.csv").write_text("a\n1\n")
    with pytest.raises(TableError, match=r"did you mean '.*penguins\.csv'"):
        read_table(tmp_path / "pengiuns.csv")
    with pytest.raises(TableError, match="there is no file"):
        read_table(tmp_path / "nowhere" / "x.csv")
    with pytest.raises(TableError, match="is a folder"):
        read_table(tmp_path)


def test_failed_writes_leave_nothing_behind(table, tmp_path):
    class Spiteful:
        def __str__(self):
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        write_table(pd.DataFrame({"a": [1, Spiteful()]}), tmp_path / "out.csv")
    with pytest.raises(TableError, match="not named like a table"):
        write_table(table, tmp_path / "out.doc")
    with pytest.raises(TableError, match=r"write a \.csv, which spreadsheets open"):
        write_table(table, tmp_path / "out.xlsx")
    assert list(tmp_path.iterdir()) == []


def test_example_is_what_its_readme_says():
    table = example_table()
    assert table.shape == (344, 17)
    assert table["Sex"].isna().sum() == 11
