"""Saved models predict as before, and loading runs no code."""

import io
import os
import pickle
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayesvm
from bayesvm import BayesianSVC, CompiledPredictor, SVGPClassifier
from bayesvm._core.likelihoods import Softmax
from bayesvm._persistence import trusted_types
from bayesvm.kernels import KERNEL_NAMES, RBF

from .estimators.data import FAST, assert_sound, problem, three_blobs

skops_io = pytest.importorskip("skops.io", reason="saving needs the extra 'io'")


def pickled(model, path):
    return pickle.loads(pickle.dumps(model))


def dumped(model, path):
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


def saved(model, path):
    assert bayesvm.save(model, path) == path
    return bayesvm.load(path)


WAYS = [pickled, dumped, saved]


@pytest.mark.filterwarnings("ignore::bayesvm.RepeatedRowsWarning")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rivals": "sampled", "class_weight": {0: 2.0}},
        {"inference": "natural", "batch_size": 20, "tol": 0.1, "random_state": np.random.RandomState(0)},
        {"dtype": "float32", "class_weight": "balanced"},
    ],
    ids=["defaults", "sampled", "natural", "single"],
)
def test_round_trip(way, n_classes, settings, tmp_path):
    X, y = problem(n_classes)
    model = BayesianSVC(**{**FAST, **settings}).fit(X, y)
    again = way(model, tmp_path / "model.skops")
    assert_sound(again, X)
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert_array_equal(again.sample_proba(X, 2, 0), model.sample_proba(X, 2, 0))
    assert_array_equal(again.loo_proba_, model.loo_proba_)
    assert_array_equal(again.feature_relevance_, model.feature_relevance_)
    assert again.abstention_threshold(0.2) == model.abstention_threshold(0.2)
    assert again.kernel == model.kernel
    again.partial_fit(X, y)
    assert_sound(again, X)


@pytest.mark.parametrize(
    "kernel", [*sorted(KERNEL_NAMES), "0.1*rbf + anova", "linear + rbf*constant", RBF(ard=False)], ids=str
)
def test_every_kernel_can_be_saved(kernel, tmp_path):
    X, y = three_blobs(30)
    model = BayesianSVC(kernel=kernel, **FAST).fit(X, y)
    again = saved(model, tmp_path / "model.skops")
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("way", WAYS)
def test_pipeline_of_frames_with_string_labels(way, tmp_path):
    X, y = three_blobs()
    table = pd.DataFrame(X, columns=["length", "width", "height"])
    names = np.array(["ant", "bee", "cow"])[y]
    pipe = make_pipeline(StandardScaler(), BayesianSVC(**FAST)).set_output(transform="pandas")
    pipe.fit(table, names)
    again = way(pipe, tmp_path / "pipe.skops")
    assert_array_equal(again.predict(table), pipe.predict(table))
    assert again[-1].feature_names_in_.tolist() == ["length", "width", "height"]


@pytest.mark.filterwarnings("ignore::bayesvm.RepeatedRowsWarning")
def test_unfitted_models_and_streams_can_be_saved(tmp_path, monkeypatch):
    fresh = saved(BayesianSVC(n_inducing=5), tmp_path / "fresh.skops")
    assert fresh.get_params() == BayesianSVC(n_inducing=5).get_params()
    monkeypatch.setattr("bayesvm._fit.partial_fit._MEMORY_ROWS", 30)
    X, y = three_blobs()
    model = BayesianSVC(**FAST).partial_fit(X, y, classes=[0, 1, 2])
    again = saved(model, tmp_path / "stream.skops")
    assert_array_equal(again.partial_fit(X, y).predict_proba(X), model.partial_fit(X, y).predict_proba(X))


def test_models_hold_no_tensors():
    X, y = three_blobs(30)
    model = BayesianSVC(**FAST).fit(X, y)

    def walk(thing):
        assert not isinstance(thing, torch.Tensor)
        for value in thing.values() if isinstance(thing, dict) else getattr(thing, "__dict__", {}).values():
            walk(value)

    walk(vars(model))


@dataclass(frozen=True)
class Foreign(RBF):
    """A kernel that bayesvm has not reviewed."""


def test_foreign_types_are_refused(tmp_path):
    X, y = three_blobs(30)
    path = bayesvm.save(BayesianSVC(kernel=Foreign(), **FAST).fit(X, y), tmp_path / "foreign.skops")
    with pytest.raises(ValueError, match=r"does not trust.*Foreign"):
        bayesvm.load(path)


@dataclass(frozen=True)
class OwnSoftmax(Softmax):
    """A user's likelihood, of a type that the library does not know."""


def test_a_registered_class_does_not_replace_one_of_the_same_name(tmp_path, monkeypatch):
    X, y = three_blobs(30)
    path = bayesvm.save(BayesianSVC(kernel="rbf", **FAST).fit(X, y), tmp_path / "model.skops")
    own = ModuleType("my_kernels")
    own.RBF = type("RBF", (Foreign,), {"__module__": own.__name__})
    monkeypatch.setitem(sys.modules, own.__name__, own)
    monkeypatch.setitem(KERNEL_NAMES, "own", own.RBF)
    assert type(bayesvm.load(path).model_.kernel) is RBF


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (SVGPClassifier(10, likelihood=OwnSoftmax(), max_iter=30, tol=1.0, **FAST), ["OwnSoftmax"]),
        (BayesianSVC(kernel=Foreign(), **FAST), ["Foreign"]),
    ],
    ids=["likelihood", "kernel"],
)
def test_types_of_ones_own_load_if_they_are_named(model, names, tmp_path):
    X, y = three_blobs(30)
    path = bayesvm.save(model.fit(X, y), tmp_path / "own.skops")
    trusted = [f"{__name__}.{name}" for name in names]
    with pytest.raises(ValueError, match=rf"name them: bayesvm\.load\(path, trusted=\['{trusted[0]}'\]\)"):
        bayesvm.load(path)
    with pytest.raises(ValueError, match=rf"does not trust.*{names[0]}"):
        bayesvm.load(path, trusted=["some.Other"])
    again = bayesvm.load(path, trusted=trusted)
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    with pytest.raises(ValueError, match="must be a list of names"):
        bayesvm.load(path, trusted=trusted[0])


def test_naming_one_type_lets_no_other_in(tmp_path):
    path = tmp_path / "bad.skops"
    skops_io.dump({"model": BayesianSVC(kernel=Foreign()), "run": os.system}, path)
    with pytest.raises(ValueError, match=r"does not trust: \['posix\.system'\]|does not trust.*system"):
        bayesvm.load(path, trusted=[f"{__name__}.Foreign"])


class Payload:
    """What an attacker would put into a file."""

    def __reduce__(self):
        return os.system, ("false",)


def test_code_in_a_file_is_refused(tmp_path):
    path = tmp_path / "bad.skops"
    skops_io.dump({"model": BayesianSVC(), "run": os.system}, path)
    with pytest.raises(ValueError, match=r"does not trust.*system"):
        bayesvm.load(path)
    path.write_bytes(pickle.dumps(Payload()))
    with pytest.raises(ValueError, match="not a model file"):
        bayesvm.load(path)


def test_trusted_types_exist_and_are_no_functions():
    import importlib

    for name in trusted_types():
        module, _, attribute = name.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), attribute), type)
    foreign = {name for name in trusted_types() if not name.startswith("bayesvm.")}
    assert foreign == {"numpy.dtype", "skrub._datetime_encoder.DatetimeEncoder", "skrub._to_str.ToStr"}


def rewritten(path, change):
    """The model file with its description changed, as another version would have written it."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
        comment = archive.comment
    members["schema.json"] = change(members["schema.json"].decode()).encode()
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = comment
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_files_of_the_first_version_are_refused_in_one_line():
    folder = Path(__file__).parent / "data"
    with pytest.raises(ValueError, match=r"cannot load it; fit the model again$"):
        bayesvm.load(folder / "first_version.skops")
    with pytest.raises(ValueError, match="in format 1; this version reads format 4: compile"):
        CompiledPredictor.load(folder / "first_version_compiled.npz")


@pytest.mark.parametrize(
    "change",
    [
        lambda schema: schema.replace('"Model"', '"ModelOfThen"'),
        lambda schema: schema.replace("bayesvm._svc", "bayesvm.svc"),
        lambda schema: schema.replace('"n_inducing"', '"n_points"'),
        lambda schema: schema.replace('"temperature"', '"heat"'),
    ],
    ids=["type", "module", "parameter", "field"],
)
def test_old_models_that_do_not_fit_are_refused(change, tmp_path):
    X, y = three_blobs(30)
    path = bayesvm.save(BayesianSVC(**FAST).fit(X, y), tmp_path / "old.skops")
    version = bayesvm.__version__
    with pytest.raises(ValueError, match=rf"written by bayesvm {version}, and .*; fit the model again$"):
        bayesvm.load(rewritten(path, change))


def test_models_with_a_calibration_of_then_are_refused(tmp_path):
    X, y = three_blobs(30)
    model = BayesianSVC(**FAST).fit(X, y)
    object.__setattr__(model.model_.calibration[0], "offset", (0.0, 0.0, 0.0))
    path = bayesvm.save(model, tmp_path / "old.skops")
    with pytest.raises(ValueError, match=r"cannot load it; fit the model again$"):
        bayesvm.load(path)


def test_files_that_are_no_models(tmp_path):
    with pytest.raises(FileNotFoundError, match="no model file"):
        bayesvm.load(tmp_path / "nothing.skops")
    with pytest.raises(ValueError, match="not a model file"):
        bayesvm.load(tmp_path)
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("hello.txt", "hello")
    with pytest.raises(ValueError, match="not a model file"):
        bayesvm.load(other)
    other.write_bytes(b"")
    with pytest.raises(ValueError, match="not a model file"):
        bayesvm.load(other)


@pytest.mark.parametrize("schema", ["{}", "[1]", "{", "null", '{"__loader__": "ObjectNode"}', "cut"])
def test_damaged_files_are_no_models(schema, tmp_path):
    path = tmp_path / "damaged.skops"
    if schema == "cut":
        bayesvm.save(BayesianSVC(), path)
        path.write_bytes(path.read_bytes()[:-40])
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("schema.json", schema)
    with pytest.raises(ValueError, match=r"damaged\.skops is not a model file"):
        bayesvm.load(path)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("skrub", r"needs the module skrub, which is not installed: pip install 'bayesvm\[cli\]'"),
        ("dask.array", r"needs the module dask\.array, .*: pip install 'bayesvm\[dask\]'"),
        ("my_kernels", "needs the module my_kernels, which cannot be imported here"),
    ],
)
def test_missing_packages_are_named(module, message, tmp_path, monkeypatch):
    path = bayesvm.save(BayesianSVC(), tmp_path / "model.skops")

    def needs_another(*args, **kwargs):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(skops_io, "load", needs_another)
    with pytest.raises(ImportError, match=message):
        bayesvm.load(path)


def test_modules_of_ones_own_that_cannot_be_imported_are_named(tmp_path):
    path = bayesvm.save(BayesianSVC(kernel=Foreign()), tmp_path / "own.skops")
    path = rewritten(path, lambda schema: schema.replace(f'"{__name__}"', '"my_kernels"'))
    with pytest.raises(ImportError, match="needs the module my_kernels, which cannot be imported here"):
        bayesvm.load(path, trusted=["my_kernels.Foreign"])


def test_failed_saves_leave_nothing_behind(tmp_path, monkeypatch):
    X, y = three_blobs(30)
    model = BayesianSVC(**FAST).fit(X, y)
    path = bayesvm.save(model, tmp_path / "model.skops")
    content = path.read_bytes()

    def half(estimator, file, **settings):
        with open(file, "wb") as stream:
            stream.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(skops_io, "dump", half)
    with pytest.raises(KeyboardInterrupt):
        bayesvm.save(model, path)
    assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["model.skops"]


def test_saved_files_have_ordinary_permissions(tmp_path):
    plain = tmp_path / "plain"
    plain.touch()
    path = bayesvm.save(BayesianSVC(), str(tmp_path / "model.skops"))
    assert path.stat().st_mode == plain.stat().st_mode


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("way", WAYS)
def test_model_of_a_gpu_predicts_without_one(way, tmp_path):
    X, y = three_blobs()
    model = BayesianSVC(**FAST).fit(X, y)
    expected = model.predict_proba(X)
    model.device = "cuda:1"
    again = way(model, tmp_path / "gpu.skops")
    assert_array_equal(again.predict_proba(X), expected)
    assert_sound(again, X)
