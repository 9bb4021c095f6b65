"""``bayesvm predict``: the same numbers to a pipe, a file and JSON."""

import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest

import bayesvm as library
from bayesvm.tables import predict_table, read_table, write_table


@pytest.fixture
def model(workshop):
    return workshop / "animals.skops"


@pytest.fixture
def expected(workshop, model):
    return predict_table(library.load(model), read_table(workshop / "new.csv"), 0.1)


def test_csv_to_a_pipe(bayesvm, model, workshop, expected):
    answer = bayesvm("predict", model, workshop / "new.csv", "--abstain", 0.1)
    assert (answer.status, answer.err) == (0, "")
    table = pd.read_csv(io.StringIO(answer.out))
    assert table["row"].tolist() == list(range(1, 41))
    pd.testing.assert_frame_equal(table.drop(columns="row"), expected.reset_index(drop=True))
    assert "\r" not in answer.out
    assert "ask_a_person" not in bayesvm("predict", model, workshop / "new.csv").out


def test_parquet_and_csv_tables_give_the_same(bayesvm, model, workshop):
    one, other = (bayesvm("predict", model, workshop / name).out for name in ("new.csv", "new.parquet"))
    assert one == other


def test_each_row_alone_gives_the_same(bayesvm, model, workshop, here):
    """Reading must not guess types from the other rows of the file."""
    header, *lines = (workshop / "new.csv").read_text().splitlines()
    everything = bayesvm("predict", model, workshop / "new.csv").out.splitlines()
    for i in (0, 3, 17):
        (here / "one.csv").write_text(f"{header}\n{lines[i]}\n")
        alone = bayesvm("predict", model, "one.csv").out.splitlines()[1].split(",")
        together = everything[i + 1].split(",")
        assert alone[1] == together[1]
        np.testing.assert_allclose(np.array(alone[2:], float), np.array(together[2:], float), atol=1e-9)


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.parquet", "out.csv.gz"])
def test_files(bayesvm, model, workshop, here, expected, name):
    answer = bayesvm("predict", model, workshop / "new.csv", "--abstain", 0.1, "--output", name)
    assert (answer.status, answer.out) == (0, "")
    assert answer.err == f"bayesvm: wrote 40 rows to {name}\n"
    pd.testing.assert_frame_equal(read_table(name).drop(columns="row"), expected.reset_index(drop=True))


def test_json(bayesvm, model, workshop, expected):
    answer = bayesvm("predict", model, workshop / "new.csv", "--abstain", 0.1, "--json")
    assert len(answer.json) == 40
    assert answer.json[0]["row"] == 1
    assert answer.json[3]["prediction"] == expected["prediction"].iloc[3]
    assert isinstance(answer.json[0]["ask_a_person"], bool)
    kept = bayesvm("predict", model, workshop / "new.parquet", "--keep", "--json").json  # dates, gaps
    assert kept[0]["seen"].startswith("2024")
    gaps = read_table(workshop / "new.parquet").isna()
    assert gaps["seen"].any()
    assert gaps["note"].any()
    for name in ("seen", "note", "size (cm)"):
        assert [row[name] is None for row in kept] == gaps[name].tolist()


def test_a_rate_that_too_few_rows_support(bayesvm, model, workshop):
    """The 118 rows of the fit support 2 %, not 1 %: a person is asked about every row."""
    answer = bayesvm("predict", model, workshop / "new.csv", "--abstain", 0.01)
    assert answer.status == 0
    assert pd.read_csv(io.StringIO(answer.out))["ask_a_person"].all()
    assert answer.err.startswith("bayesvm: note: max_error=0.01 with confidence=0.9 takes at least 230 rows")
    assert "the smallest rate that 118 can promise is 0.01" in answer.err


def test_a_dash_means_standard_output(bayesvm, model, workshop, here):
    answer = bayesvm("predict", model, workshop / "new.csv", "--output", "-")
    assert answer.out == bayesvm("predict", model, workshop / "new.csv").out
    assert answer.out.startswith("row,prediction,")
    assert list(here.iterdir()) == []


def test_keep(bayesvm, model, workshop, here):
    answer = bayesvm("predict", model, workshop / "new.csv", "--keep")
    table = pd.read_csv(io.StringIO(answer.out))
    original = pd.read_csv(workshop / "new.csv")
    pd.testing.assert_frame_equal(table[original.columns.tolist()], original)
    assert table.columns.tolist()[len(original.columns) :][:2] == ["row", "prediction"]
    write_table(read_table(workshop / "new.csv").assign(prediction="mine"), "clash.csv")
    answer = bayesvm("predict", model, "clash.csv", "--keep")
    assert answer.status == 2
    assert "has a column 'prediction' already" in answer.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{folder}/animal.skops", "{folder}/new.csv"], "did you mean"),
        (["{folder}/new.csv", "{folder}/new.csv"], "is not a model file"),
        (["{folder}/animals.skops", "{folder}/nwe.csv"], "did you mean"),
        (["{folder}/animals.skops"], "give a table; the bundled one does not go with this model"),
        (["{folder}/animals.skops", "{folder}/new.csv", "--abstain", "7"], "--abstain 7 is not valid"),
        (["{folder}/animals.skops", "{folder}/new.csv", "-o", "out.doc"], "not named like a table"),
        (
            ["{folder}/animals.skops", "{folder}/new.csv", "-o", "out.xlsx"],
            "write a .csv, which spread",
        ),
        (["damaged.skops", "{folder}/new.csv"], "damaged.skops is not a model file"),
        (["{folder}/animals.skops", "{folder}/new.csv", "-o", "no/out.csv"], "create it first"),
        (["{folder}/animals.skops", "part.csv"], "no column 'legs', which the model needs"),
        (["forged.skops", "{folder}/new.csv"], "does not trust: ['posix.system']"),
        (["plain.skops", "{folder}/new.csv"], "holds a dict that does not end in a BayesianSVC"),
        (["early.skops", "{folder}/new.csv"], "was saved before it was fitted"),
        ([], "Missing argument 'MODEL'"),
    ],
)
def test_refusals(bayesvm, workshop, here, arguments, message):
    import os

    import skops.io

    skops.io.dump({"run": os.system}, "forged.skops")
    skops.io.dump({"a": 1}, "plain.skops")
    with zipfile.ZipFile("damaged.skops", "w") as archive:
        archive.writestr("schema.json", "{}")
    library.save(library.BayesianSVC(), "early.skops")
    write_table(read_table(workshop / "new.csv").drop(columns="legs"), "part.csv")
    before = sorted(os.listdir())
    answer = bayesvm("predict", *(argument.format(folder=workshop) for argument in arguments))
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("bayesvm: ")
    assert answer.err.count("\n") == 1
    assert message in answer.err
    assert sorted(os.listdir()) == before


@pytest.fixture
def short_blocks(monkeypatch):
    from bayesvm.tables import _predictions, _reading

    for module in (_reading, _predictions):
        monkeypatch.setattr(module, "BLOCK_ROWS", 7)


@pytest.mark.parametrize("name", ["new.csv", "new.parquet"])
@pytest.mark.parametrize("keep", [False, True])
def test_blocks_of_rows_are_written_as_the_whole_table_would_be(
    bayesvm, model, workshop, here, name, keep, short_blocks
):
    """To the byte, whatever the form; what is said of odd values counts all rows."""
    table = read_table(workshop / name).assign(colour="mauve")
    write_table(table, name)
    table = read_table(name, model=library.load(model))
    with pytest.warns(UserWarning, match="40 values such as 'mauve'"):
        whole = predict_table(library.load(model), table, 0.1)
    whole.insert(0, "row", np.arange(1, 41))
    whole = pd.concat([table, whole], axis=1) if keep else whole
    flags = ["--abstain", 0.1, *(["--keep"] if keep else [])]
    answer = bayesvm("predict", model, name, *flags)
    assert answer.out == whole.to_csv(index=False, lineterminator="\n")
    assert answer.err.startswith("bayesvm: note: column 'colour': 40 values such as 'mauve'")
    assert answer.err.count("\n") == 1
    values = whole.astype(object)
    records = values.where(values.notna(), None).to_dict(orient="records")
    text = json.dumps(records, indent=2, default=str) + "\n"
    assert bayesvm("predict", model, name, *flags, "--json").out == text
    assert bayesvm("predict", model, name, *flags, "--json", "-o", "out.csv").out == text
    assert (here / "out.csv").read_text() == answer.out
    for file in ("one.parquet", "one.tsv.gz"):
        assert bayesvm("predict", model, name, *flags, "-o", file).status == 0
        write_table(whole, f"whole_{file}")
        pd.testing.assert_frame_equal(read_table(file), read_table(f"whole_{file}"), check_categorical=False)


def test_models_of_numbers_alone_refuse_before_they_write(bayesvm, here, short_blocks):
    X = np.random.default_rng(0).normal(size=(30, 2))
    library.save(library.BayesianSVC(hyperparameters="fixed").fit(X, X[:, 0] > 0), "plain.skops")
    table = pd.DataFrame(X, columns=["a", "b"])
    write_table(table, "t.csv")
    answer = bayesvm("predict", "plain.skops", "t.csv")
    assert len(answer.out.splitlines()) == 31
    table.loc[29, "b"] = np.nan
    write_table(table, "t.csv")
    answer = bayesvm("predict", "plain.skops", "t.csv")
    assert (answer.status, answer.out) == (2, "")
    assert "column 'b' has other or missing values" in answer.err


@pytest.fixture
def from_python(here):
    """A model saved from Python, and the table it comes from, with columns that it does not know."""
    X = np.random.default_rng(0).normal(size=(30, 2))
    table = pd.DataFrame({"id": np.arange(30), "a": X[:, 0], "b": X[:, 1], "label": X[:, 0] > 0})
    write_table(table, "rows.parquet")
    write_table(table, "rows.csv")
    model = library.BayesianSVC(hyperparameters="fixed").fit(table[["a", "b"]], table["label"])
    library.save(model, "plain.skops")
    return table


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv"])
def test_keep_hands_on_what_a_plain_model_does_not_know(bayesvm, from_python, short_blocks, name):
    answer = bayesvm("predict", "plain.skops", name, "--keep")
    assert (answer.status, answer.err) == (0, "")
    out = pd.read_csv(io.StringIO(answer.out))
    pd.testing.assert_frame_equal(out[["id", "a", "b", "label"]], from_python)
    alone = pd.read_csv(io.StringIO(bayesvm("predict", "plain.skops", name).out))
    pd.testing.assert_frame_equal(out.drop(columns=from_python.columns), alone)


@pytest.mark.parametrize("name", ["rows.csv", "./rows.csv", "link.csv"])
def test_the_table_is_not_overwritten(bayesvm, from_python, here, name):
    (here / "link.csv").symlink_to("rows.csv")
    before = (here / "rows.csv").read_bytes()
    answer = bayesvm("predict", "plain.skops", "rows.csv", "-o", name)
    assert (answer.status, answer.out) == (2, "")
    assert "is the table already; give another name" in answer.err
    assert (here / "rows.csv").read_bytes() == before


def test_help_names_both_origins_of_a_model(bayesvm):
    assert "bayesvm.save" in bayesvm("predict", "--help").out
