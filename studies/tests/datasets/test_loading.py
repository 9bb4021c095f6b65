"""Sets by name, from a folder or by download, and errors that say what to do."""

import sys
import types
from pathlib import Path

import numpy as np
import pytest

from bayesvm_studies.datasets import (
    DatasetError,
    data_folder,
    find_set,
    fully_published,
    image_folder,
    load,
    paper_sets,
    published_accuracies,
)
from bayesvm_studies.datasets.catalogue import CLASSIFIERS
from studies.tests.datasets.folders import iris_folder, write_set


@pytest.fixture
def no_pmlb(monkeypatch):
    monkeypatch.setitem(sys.modules, "pmlb", None)


def fake_pmlb(monkeypatch, fetch):
    module = types.ModuleType("pmlb")
    module.fetch_data = fetch
    monkeypatch.setitem(sys.modules, "pmlb", module)


def test_the_catalogue():
    sets = paper_sets()
    assert len(sets) == len({s.name for s in sets}) == 68
    assert all(s.rows >= 128 and s.classes >= 3 for s in sets)
    assert [s.rows for s in sets] == sorted(s.rows for s in sets)
    assert sum(s.rows >= 1000 for s in sets) == 40
    assert find_set("poker").rows == 1_025_009
    assert find_set("mnist") is None


def test_published_accuracies():
    published = published_accuracies()
    assert len(published) == 66
    assert set(published) <= {s.name for s in paper_sets()}
    names = fully_published()
    assert len(names) == 63
    means = {c: np.mean([published[n][f"{c}_single"] for n in names]) for c in CLASSIFIERS}
    assert [round(float(means[c]), 3) for c in ("SVC", "GB", "RF")] == [0.807, 0.829, 0.833]
    assert all(published[n][f"{c}_best"] >= published[n][f"{c}_single"] for n in names for c in CLASSIFIERS)


def test_from_a_folder(tmp_path):
    loaded = load("iris", data=iris_folder(tmp_path))
    assert loaded.X.shape == (150, 4)
    assert loaded.X.dtype == loaded.y.dtype == np.float64
    assert loaded.feature_names == ("x0", "x1", "x2", "x3")
    assert (loaded.completed, loaded.note) == (False, "")


@pytest.mark.parametrize(
    ("folder_of", "variable", "cached"),
    [(data_folder, "BAYESVM_DATA", "pmlb"), (image_folder, "BAYESVM_IMAGES", "images")],
)
def test_the_folder_is_given_or_named_by_a_variable_or_in_the_cache(
    tmp_path, monkeypatch, folder_of, variable, cached
):
    assert folder_of() == tmp_path / "cache" / "bayesvm" / cached
    named, given = (tmp_path / name for name in ("named", "given"))
    named.mkdir()
    given.mkdir()
    monkeypatch.setenv(variable, str(named))
    assert folder_of() == named
    assert folder_of(given) == given
    monkeypatch.setenv(variable, str(tmp_path / "nowhere"))
    with pytest.raises(DatasetError, match=f"{variable}: there is no folder"):
        folder_of()
    with pytest.raises(DatasetError, match="data: there is no folder"):
        folder_of(tmp_path / "nowhere")


def test_other_rows_than_the_papers_are_noted(tmp_path):
    write_set(tmp_path, "iris", np.arange(12.0).reshape(6, 2), np.arange(6) % 2)
    assert load("iris", data=tmp_path).note.startswith("not the iris of 2018: 6 rows, 2 features, 2 classes")


@pytest.mark.usefixtures("no_pmlb")
def test_a_missing_set_says_how_to_get_it(tmp_path):
    with pytest.raises(DatasetError) as caught:
        load("glass", data=tmp_path)
    ways = ("glass/glass.tsv.gz", "--data", "BAYESVM_DATA", "pip install pmlb")
    for part in ("'glass'", str(tmp_path), *ways):
        assert part in str(caught.value)


def test_an_unknown_set(tmp_path):
    with pytest.raises(DatasetError, match="did you mean 'iris'"):
        load("irsi", data=tmp_path)


def test_downloads_into_the_folder(tmp_path, monkeypatch):
    asked = []

    def fetch(name, local_cache_dir):
        asked.append(name)
        iris_folder(local_cache_dir)

    fake_pmlb(monkeypatch, fetch)
    for _ in range(2):
        assert len(load("iris", data=tmp_path).y) == 150
    assert asked == ["iris"]  # the second time it was there
    assert Path(tmp_path, "iris", "iris.tsv.gz").is_file()


def test_a_download_that_fails(tmp_path, monkeypatch):
    def fetch(name, local_cache_dir):
        raise OSError("no network")

    fake_pmlb(monkeypatch, fetch)
    with pytest.raises(DatasetError, match="could not: OSError: no network"):
        load("iris", data=tmp_path)
    with pytest.raises(DatasetError, match="is not in"):
        load("iris", data=tmp_path, download=False)


@pytest.mark.parametrize("content", [b"", b"not gzip", b"\x1f\x8b\x08\x00half"])
def test_a_damaged_file(tmp_path, content):
    (tmp_path / "iris").mkdir()
    (tmp_path / "iris" / "iris.tsv.gz").write_bytes(content)
    with pytest.raises(DatasetError, match=r"iris\.tsv\.gz"):
        load("iris", data=tmp_path)


@pytest.mark.filterwarnings("ignore")  # what pandas says to the authors of pmlb
def test_the_package_reads_the_same_layout(tmp_path):
    pmlb = pytest.importorskip("pmlb")
    X, y = pmlb.fetch_data("iris", return_X_y=True, local_cache_dir=str(iris_folder(tmp_path)))
    loaded = load("iris", data=tmp_path)
    assert (X == loaded.X).all()
    assert (y == loaded.y).all()
