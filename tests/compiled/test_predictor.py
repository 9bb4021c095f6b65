"""Compiled predictors as objects: shapes, refusals, threads, pickles, files."""

import json
import pickle
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

import bayesvm
from bayesvm import BayesianSVC, SVGPClassifier
from bayesvm._compiled import CompiledPredictor
from bayesvm._compiled.kernels import PROFILES
from bayesvm._compiled.latents import ExpectedSoftmax, SigmoidAtNodes
from bayesvm._core.likelihoods import LIKELIHOODS, RobustMax
from bayesvm._core.predictive import expected_softmax, line_nodes
from bayesvm.kernels import KERNEL_NAMES, RBF

from ..estimators.data import FAST, problem
from .test_agreement import Cubic


@lru_cache
def fitted(n_classes: int = 3) -> BayesianSVC:
    X, y = problem(n_classes)
    return BayesianSVC(20, local=False, **FAST).fit(X, np.array(["a", "b", "c"])[y])


def test_labels_shapes_and_one_row():
    X, _ = problem(3)
    predictor = fitted().compile_predictor()
    p = predictor.predict_proba(X)
    assert p.shape == (len(X), 3)
    assert_array_equal(predictor.predict(X), predictor.classes_[p.argmax(1)])
    assert predictor.predict_proba_one(X[0].tolist()).shape == (3,)
    assert predictor.predict_one(X[0]) == predictor.predict(X[:1])[0]
    assert predictor.predict_proba(X[:0]).shape == (0, 3)
    assert predictor.predict(X[:0]).shape == (0,)


@pytest.mark.parametrize("kernel", ["rbf", "matern32", "matern52", "anova", "linear"])
def test_the_largest_numbers_are_fine(kernel):
    X, y = problem(3)
    model = BayesianSVC(20, kernel=kernel, local=False, **FAST).fit(X, y)
    far = np.array([[1.7e308, -1.7e308, 1.7e308], [1e308, 0.0, 0.0], [1e-308, 1e30, -1e15]])
    for dtype in ("float32", "float64"):
        p = model.compile_predictor(dtype).predict_proba(far)
        assert_allclose(p, model.predict_proba(far), rtol=0, atol=1e-4)


def test_later_fits_leave_a_predictor_alone():
    X, y = problem(3)
    model = BayesianSVC(20, local=False, **FAST).fit(X, y)
    predictor = model.compile_predictor()
    before = predictor.predict_proba(X)
    model.fit(X, (y + 1) % 3)
    assert_array_equal(predictor.predict_proba(X), before)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_batches_threads_and_blocks_agree(n_classes):
    """To the rounding of products of other shapes."""
    predictor = fitted(n_classes).compile_predictor()
    X = np.random.default_rng(0).normal(size=(20_011, predictor.n_features_in_))
    p = predictor.predict_proba(X, n_threads=1)
    assert_array_equal(predictor.predict_proba(X, n_threads=3), p)
    assert_allclose(predictor.predict_proba(X[7:1000:3]), p[7:1000:3], rtol=0, atol=1e-5)


def test_threads_share_a_predictor():
    predictor = fitted().compile_predictor()
    X = np.random.default_rng(0).normal(size=(64, 3))
    expected = predictor.predict_proba(X)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: predictor.predict_proba(X), range(200)):
            assert_array_equal(found, expected)


def test_number_of_threads(monkeypatch):
    predictor = fitted().compile_predictor()
    X = np.random.default_rng(0).normal(size=(20_011, predictor.n_features_in_))
    expected = predictor.predict_proba(X, n_threads=1)
    for setting in ("1", "not a number"):
        monkeypatch.setenv("OMP_NUM_THREADS", setting)
        assert_array_equal(predictor.predict_proba(X), expected)
    for bad in (0, "2", 1.5, True):
        with pytest.raises(ValueError, match=f"n_threads={bad!r} is not valid"):
            predictor.predict_proba(X[:1], n_threads=bad)


def test_an_error_in_a_thread_is_raised(monkeypatch):
    def fails(self, F, s2):
        raise ArithmeticError

    monkeypatch.setattr(ExpectedSoftmax, "__call__", fails)
    with pytest.raises(ArithmeticError):
        fitted().compile_predictor("float64").predict_proba(np.zeros((20_011, 3)), n_threads=4)


@pytest.mark.parametrize("deviation", [1e-3, 1.0, 100.0, 1e7])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float64", 1e-13)])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_readouts_are_expected_softmax(n_classes, dtype, tolerance, deviation):
    """Also of deviations whose exponentials overflow in single precision, and shared by the classes."""
    import torch

    rng = np.random.default_rng(0)
    F, s = deviation * rng.normal(size=(2, 50, n_classes))
    readout = ExpectedSoftmax(None, dtype)
    if n_classes == 2:
        readout = SigmoidAtNodes(*(t.numpy().astype(dtype) for t in line_nodes(128)))
    for s2 in (s**2, s[:, :1] ** 2):
        found = readout(F, s2)
        for rows in (slice(None), slice(0, 3)):
            f, v = torch.tensor(F[rows]), torch.tensor(np.broadcast_to(s2, F.shape)[rows].copy())
            expected = expected_softmax(f, v, 1.0).numpy()
            assert_allclose(found[rows], expected, rtol=0, atol=tolerance)


def test_refusals():
    X, _ = problem(3)
    model = fitted()
    predictor = model.compile_predictor()
    with pytest.raises(NotFittedError):
        BayesianSVC().compile_predictor()
    with pytest.raises(ValueError, match="dtype='half'"):
        model.compile_predictor("half")
    with pytest.raises(ValueError, match="predict_one"):
        predictor.predict_proba(X[0])
    with pytest.raises(ValueError, match="2 features"):
        predictor.predict_proba(X[:, :2])
    with pytest.raises(ValueError, match="4 features"):
        predictor.predict_one([0.0, 1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"sequence of 3 numbers; got the shape \(1, 3\)\. For tables"):
        predictor.predict_one(X[:1])
    with pytest.raises(ValueError, match="infinity"):
        predictor.predict_one([0.0, np.inf, 1.0])
    with pytest.raises(ValueError, match="could not convert"):
        predictor.predict_one(["x", 0.0, 1.0])


def test_column_names():
    X, y = problem(3)
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    model = BayesianSVC(20, local=False, **FAST).fit(frame, y)
    predictor = model.compile_predictor()
    assert predictor.feature_names_in_ == ("u", "v", "w")
    assert_allclose(predictor.predict_proba(frame), model.predict_proba(frame), rtol=0, atol=1e-4)
    with pytest.raises(ValueError, match=r"\['w', 'v', 'u'\]"):
        predictor.predict_proba(frame[["w", "v", "u"]])


@lru_cache
def named() -> tuple[CompiledPredictor, pd.DataFrame]:
    X, y = problem(3)
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    return BayesianSVC(20, local=False, **FAST).fit(frame, y).compile_predictor(), frame


@pytest.mark.parametrize("method", ["predict_one", "predict_proba_one"])
def test_names_of_one_row(method):
    predictor, frame = named()
    one = getattr(predictor, method)
    row = frame.iloc[0]
    expected = one(row.tolist())
    assert_array_equal(one(row), expected)
    assert_array_equal(one(row.reset_index(drop=True)), expected)  # no names
    assert_array_equal(one({"w": row["w"], "u": row["u"], "v": row["v"]}), expected)
    with pytest.raises(ValueError, match=r"\['w', 'v', 'u'\].*\['u', 'v', 'w'\]; give the same columns"):
        one(row[["w", "v", "u"]])
    with pytest.raises(ValueError, match=r"\['u', 'v', 'x'\]"):
        one(row.rename({"w": "x"}))
    with pytest.raises(ValueError, match=r"lacks \['v', 'w'\]; .*\['u', 'v', 'w'\]"):
        one({"u": 1.0})
    with pytest.raises(ValueError, match=r"lacks \['w'\] and has the unknown \['x', 5\]"):
        one({"u": 1.0, "v": 2.0, "x": 3.0, 5: 0.0})
    with pytest.raises(ValueError, match=r"the row has the unknown \['x'\]"):
        one({"u": 1.0, "v": 2.0, "w": 0.0, "x": 3.0})
    assert_array_equal(one({"u": 1.0, "v": None, "w": 0.0}), one([1.0, np.nan, 0.0]))


def test_names_that_the_model_does_not_know():
    X, _ = problem(3)
    predictor = fitted().compile_predictor()
    named_row = pd.Series(X[0], index=["u", "v", "w"])
    assert predictor.predict_one(named_row) == predictor.predict_one(X[0])
    with pytest.raises(
        ValueError, match="give the 3 numbers as a sequence in the order of the columns at fit"
    ):
        predictor.predict_one({"u": 1.0, "v": 2.0, "w": 3.0})


@pytest.mark.parametrize("kernel", ["0.1*rbf + anova", "matern52*constant + linear", Cubic()])
def test_a_log_gets_one_line(kernel):
    rng = np.random.default_rng(1)
    X = rng.integers(0, 3, (200, 3)) + 0.05 * rng.integers(0, 2, (200, 3))
    y = (X.astype(int).sum(1) % 3).astype(int)
    local = BayesianSVC(20, **FAST).fit(X, y)
    assert repr(local.compile_predictor("float64")) == (
        "CompiledPredictor(3 classes, 3 features, 20 inducing points, float64, local part of "
        f"{len(local.compile_predictor().local.X)} rows)"
    )
    predictor = BayesianSVC(20, kernel=kernel, local=False, **FAST).fit(X, y).compile_predictor("float64")
    assert repr(predictor) == (
        "CompiledPredictor(3 classes, 3 features, 20 inducing points, float64, no local part)"
    )
    parts = (predictor.columns, predictor.kernel, predictor.posterior, predictor.readout)
    for part in (*parts, local.compile_predictor().local):
        assert "\n" not in repr(part)
        assert len(repr(part)) < 800
    assert "alpha=<float64 of shape (20, " in repr(predictor.posterior)


@pytest.mark.parametrize("kind", [str, object, np.int64, np.float64, bool])
def test_round_trips(kind, tmp_path):
    X, y = problem(2)
    labels = np.array(["no", "yes"])[y].astype(kind) if kind in (str, object) else y.astype(kind)
    predictor = BayesianSVC(20, local=False, **FAST).fit(X, labels).compile_predictor()
    path = tmp_path / "predictor.npz"
    assert predictor.save(path) == path
    for again in (CompiledPredictor.load(path), pickle.loads(pickle.dumps(predictor))):
        assert_array_equal(again.predict_proba(X), predictor.predict_proba(X))
        assert_array_equal(again.predict(X), predictor.predict(X))
        assert again.classes_.dtype == predictor.classes_.dtype


@pytest.mark.parametrize("kernel", ["0.1*rbf + anova", "matern52*constant + linear", "matern32"])
def test_files_hold_every_kernel(kernel, tmp_path):
    X, y = problem(3)
    predictor = BayesianSVC(20, kernel=kernel, **FAST).fit(X, y).compile_predictor("float64")
    again = CompiledPredictor.load(predictor.save(tmp_path / "p.npz"))
    assert_array_equal(again.predict_proba(X), predictor.predict_proba(X))
    assert again.dtype == "float64"


def test_files_hold_the_local_part_and_likelihoods(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.integers(0, 3, (200, 3)) + 0.05 * rng.integers(0, 2, (200, 3))
    y = (X.astype(int).sum(1) % 3).astype(int)
    local = BayesianSVC(20, **FAST).fit(X, y)
    assert local.local_part_ is not None
    own = SVGPClassifier(12, likelihood="robustmax", max_iter=5, tol=0.0, random_state=0).fit(X, y)
    for model in (local, own):
        predictor = model.compile_predictor()
        again = CompiledPredictor.load(predictor.save(tmp_path / "p.npz"))
        assert_array_equal(again.predict_proba(X), predictor.predict_proba(X))


def test_files_of_estimators_are_for_estimators(tmp_path):
    with pytest.raises(TypeError, match=r"predictor\.save"):
        bayesvm.save(fitted().compile_predictor(), tmp_path / "p.skops")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_without_code(tmp_path):
    X, y = problem(3)
    own = BayesianSVC(20, kernel=Cubic(), local=False, **FAST).fit(X, y).compile_predictor()
    with pytest.raises(TypeError, match="Cubic"):
        own.save(tmp_path / "p.npz")
    assert not list(tmp_path.iterdir())
    assert_array_equal(pickle.loads(pickle.dumps(own)).predict(X), own.predict(X))


@dataclass(frozen=True)
class OwnRBF(RBF):
    """A registered kernel, whose covariances go through torch."""


def test_a_file_of_a_kernel_that_is_not_registered_says_so(tmp_path, monkeypatch):
    X, y = problem(3)
    model = BayesianSVC(20, kernel=OwnRBF(), local=False, **FAST).fit(X, y)
    with pytest.raises(TypeError, match=r"OwnRBF in it .* not a dataclass that is registered"):
        model.compile_predictor().save(tmp_path / "p.npz")
    with monkeypatch.context() as patch:
        patch.setitem(KERNEL_NAMES, "own", OwnRBF)
        predictor = model.compile_predictor()
        path = predictor.save(tmp_path / "p.npz")
        assert_array_equal(CompiledPredictor.load(path).predict_proba(X), predictor.predict_proba(X))
    with pytest.raises(ValueError, match=rf"{__name__}\.OwnRBF, which is not registered here") as refused:
        CompiledPredictor.load(path)
    assert "damaged" not in str(refused.value)


def test_a_file_of_a_profile_that_is_not_registered_says_so(tmp_path, monkeypatch):
    path = fitted().compile_predictor().save(tmp_path / "p.npz")
    monkeypatch.delitem(PROFILES, "rbf")
    with pytest.raises(
        ValueError, match="the kernel profile 'rbf', which is not in PROFILES here"
    ) as refused:
        CompiledPredictor.load(path)
    assert "damaged" not in str(refused.value)


def test_a_registered_class_does_not_replace_one_of_the_same_name(tmp_path, monkeypatch):
    X, y = problem(3)
    model = SVGPClassifier(12, likelihood="robustmax", max_iter=5, tol=0.0, random_state=0).fit(X, y)
    predictor = model.compile_predictor()
    before = predictor.save(tmp_path / "before.npz")
    own = dataclass(frozen=True)(type("RobustMax", (RobustMax,), {"__module__": __name__}))
    monkeypatch.setitem(LIKELIHOODS, "own", own)
    for path in (before, predictor.save(tmp_path / "after.npz")):
        assert type(CompiledPredictor.load(path).readout.likelihood) is RobustMax


class Boom:
    """Unpickling it would be noticed."""

    def __reduce__(self):
        return (print, ("boom",))


def test_files_run_no_code(tmp_path, capsys):
    np.savez(tmp_path / "pickled.npz", description=np.array([Boom()], dtype=object))
    with open(tmp_path / "plain.npz", "wb") as stream:
        pickle.dump(Boom(), stream)
    for name in ("pickled.npz", "plain.npz"):
        with pytest.raises(ValueError, match="not a compiled predictor"):
            CompiledPredictor.load(tmp_path / name)
    assert "boom" not in capsys.readouterr().out


def altered(path, change):
    """The file with another description."""
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    description = json.loads(str(arrays["description"]))
    change(description)
    arrays["description"] = np.array(json.dumps(description))
    with open(path, "wb") as stream:
        np.savez(stream, **arrays)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(format=99), "format 99"),
        (lambda d: d["content"].update(type="Popen"), "not a compiled predictor"),
        (lambda d: d["content"].pop("kernel"), "not a compiled predictor"),
        (lambda d: d["content"].update(surprise=1), "not a compiled predictor"),
        (lambda d: d.update(content=d["content"]["columns"]), "no compiled predictor"),
        (lambda d: d.clear(), "not a compiled predictor"),
    ],
)
def test_files_of_other_content(change, words, tmp_path):
    path = fitted().compile_predictor().save(tmp_path / "p.npz")
    altered(path, change)
    with pytest.raises(ValueError, match=words):
        CompiledPredictor.load(path)


def test_damaged_and_missing_files(tmp_path):
    path = fitted().compile_predictor().save(tmp_path / "p.npz")
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(ValueError, match="damaged"):
        CompiledPredictor.load(path)
    np.save(tmp_path / "array.npy", np.zeros(3))
    with pytest.raises(ValueError, match="not a compiled predictor"):
        CompiledPredictor.load(tmp_path / "array.npy")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as other:
        other.writestr("readme.txt", "hello")
    with pytest.raises(ValueError, match="not a compiled predictor"):
        CompiledPredictor.load(tmp_path / "other.zip")
    with pytest.raises(FileNotFoundError, match=r"nothing\.npz"):
        CompiledPredictor.load(tmp_path / "nothing.npz")


@pytest.mark.parametrize(
    "content", [b"garbage, and more of it", b"", b"PK\x03\x04 and no more", b"\x80\x04K\x01."]
)
def test_garbage_is_refused_in_our_words(content, tmp_path):
    path = tmp_path / "garbage.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"garbage\.npz is not a compiled predictor") as refused:
        CompiledPredictor.load(path)
    assert refused.value.__suppress_context__  # nor does a traceback show numpy's
    assert "pickle" not in str(refused.value)


def test_serving_needs_numpy_alone(tmp_path):
    X, _ = problem(3)
    predictor = fitted().compile_predictor()
    path = predictor.save(tmp_path / "p.npz")
    program = (
        "import sys\n"
        "from bayesvm._compiled import CompiledPredictor\n"
        f"predictor = CompiledPredictor.load({str(path)!r})\n"
        f"print(predictor.predict_one({X[0].tolist()!r}))\n"
        "assert not {'torch', 'sklearn', 'scipy', 'pandas'} & set(sys.modules), sorted(sys.modules)\n"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == predictor.predict_one(X[0])
