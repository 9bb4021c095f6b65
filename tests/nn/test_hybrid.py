"""The classifier: with a head that is not ours where it alone is tested, with ours where all is."""

import json
import os
import pickle
import struct
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from bayesvm.nn import Epoch, HeadError, HybridClassifier
from tests.nn.fakes import FakeHead, blobs, network, same, weights
from tests.nn.test_training import Interrupts, Poisoned


class FakeHybrid(HybridClassifier):
    def _make_head(self, in_features, n_classes, seed):
        return FakeHead(in_features, n_classes, seed=seed)


def images(n_rows=120, seed=0):
    """Four by four images of a bright corner, and where it is."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % 3
    X = 0.5 * rng.normal(size=(n_rows, 1, 4, 4))
    for c, (i, j) in enumerate([(0, 0), (0, 2), (2, 2)]):
        X[y == c, 0, i : i + 2, j : j + 2] += 1.5
    return X, np.array(["bottom", "middle", "top"])[y]


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(128, 6))

    def forward(self, x):
        return self.body(x)


def make_network():
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6))


SMALL = {"epochs": 8, "batch_size": 32, "rate": 1e-2, "random_state": 0}
REAL = {**SMALL, "n_inducing": 8}


def _rows(n_rows=150, **options):
    X, y = blobs(n_rows, **options)
    return X.numpy(), y.numpy()


@pytest.mark.parametrize("posterior", ["natural", "gradient"])
def test_learns_images_with_string_labels(posterior):
    X, y = images(240)
    new, truth = images(200, seed=1)
    model = HybridClassifier(Convolution, posterior=posterior, **{**REAL, "epochs": 15}).fit(X, y)
    assert model.score(new, truth) > 0.9
    assert model.classes_.tolist() == ["bottom", "middle", "top"]
    proba = model.predict_proba(new)
    assert proba.shape == (200, 3)
    assert proba.dtype == np.float64
    np.testing.assert_allclose(proba.sum(1), 1.0, rtol=1e-12)
    assert (model.predict(new) == model.classes_[proba.argmax(1)]).all()
    assert log_loss(truth, proba) < 0.5
    np.testing.assert_allclose(np.exp(model.predict_log_proba(new)), proba)
    assert len(model.validation_rows_) == 24
    assert all(isinstance(epoch, Epoch) for epoch in model.history_)
    assert len(model.history_) <= 15
    best = min(model.history_, key=lambda e: e.validation_log_loss)
    assert model.best_epoch_ == best.number
    # The kept state and temperature score what history says on the rows that were held out.
    held = model.validation_rows_
    loss = log_loss(y[held], model.predict_proba(X[held]), labels=model.classes_)
    assert loss == pytest.approx(best.validation_log_loss, abs=1e-5)
    assert model.score(X[held], y[held]) == best.validation_accuracy


def test_uncertainty_is_that_of_the_head():
    X, y = images()
    model = HybridClassifier(Convolution, **REAL).fit(X, y)
    mean, std = model.predict_latent(X)
    ratio, log_ratio = model.variation_ratio(X), model.log_variation_ratio(X)
    assert mean.shape == std.shape == (120, 3)
    assert (std > 0).all()
    features = torch.tensor(model.features(X))
    with torch.no_grad():
        torch.testing.assert_close(features, model.network_(torch.tensor(X, dtype=torch.float32)))
        output = model.head_(features)
    np.testing.assert_allclose(mean, output.mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(std, output.variance.sqrt(), rtol=1e-4)
    for ours, theirs in (
        (ratio, output.variation_ratio()),
        (log_ratio, output.log_variation_ratio()),
        (model.entropy(X), output.entropy()),
        (model.mutual_information(X), output.mutual_information()),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)
        assert ours.shape == (120,)
        assert np.isfinite(ours).all()
    big = ratio > 1e-3
    np.testing.assert_allclose(np.exp(log_ratio[big]), ratio[big], rtol=1e-2)
    # Of what is no corner at all it is less sure than of what it has seen.
    noise = np.random.default_rng(0).normal(size=(120, 1, 4, 4))
    assert model.log_variation_ratio(noise).mean() > log_ratio.mean()


@pytest.mark.parametrize("kind", [FakeHybrid, HybridClassifier])
def test_predictions_do_not_depend_on_batches(kind):
    X, y = _rows()
    model = kind(make_network, **{**SMALL, "epochs": 3}).fit(X, y)
    whole = model.predict_proba(X)
    log_ratio = model.log_variation_ratio(X)
    for size in (1, 7, 1000):
        model.set_params(batch_size=size)
        np.testing.assert_allclose(model.predict_proba(X), whole, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(model.log_variation_ratio(X), log_ratio, rtol=1e-3)
    np.testing.assert_allclose(model.predict_proba(X[3:5]), whole[3:5], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", [FakeHybrid, HybridClassifier])
def test_same_seed_same_model(kind):
    X, y = _rows()
    models = []
    for seed, noise in ((0, 1), (0, 2), (5, 1)):
        torch.manual_seed(noise)
        before = torch.get_rng_state()
        models.append(kind(make_network, **{**SMALL, "epochs": 2, "random_state": seed}).fit(X, y))
        assert torch.equal(before, torch.get_rng_state())
    first, again, other = (weights(m.network_, m.head_) for m in models)
    assert same(first, again)
    assert not same(first, other)


def test_tensors_arrays_and_other_types_are_the_same_rows():
    X, y = _rows()
    expected = FakeHybrid(make_network, **SMALL).fit(X, y).predict_proba(X)
    backwards = np.ascontiguousarray(X[::-1])[::-1]
    read_only = X.copy()
    read_only.setflags(write=False)
    for rows, labels in (
        (torch.from_numpy(X), torch.from_numpy(y)),
        (X.astype(np.float64), y.astype(str)),
        (X.astype(">f4"), y.tolist()),
        (X.tolist(), y),
        (backwards, y),
        (read_only, y),
        (torch.from_numpy(X).requires_grad_(), y),
    ):
        model = FakeHybrid(make_network, **SMALL).fit(rows, labels)
        np.testing.assert_array_equal(model.predict_proba(rows), expected)


def test_the_module_passed_in_is_not_changed():
    X, y = _rows()
    given = network(norm=True)
    before = weights(given)
    model = FakeHybrid(given, **SMALL).fit(X, y)
    assert given.training
    assert same(before, weights(given))
    assert model.network is given
    assert not same(before, weights(model.network_))
    again = clone(model)
    assert again.network is not given
    assert same(weights(again.network), before)
    assert not hasattr(again, "head_")
    assert same(weights(again.fit(X, y).network_), weights(model.network_))


def test_networks_may_be_made_in_several_ways():
    X, y = _rows()
    for made in (make_network, lambda: (make_network(), 6), lambda: nn.Sequential(nn.LazyLinear(5))):
        assert FakeHybrid(made, **{**SMALL, "epochs": 20}).fit(X, y).score(X, y) > 0.7
    lazy = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(5))
    a, b = (FakeHybrid(lazy, **SMALL).fit(X, y) for _ in range(2))
    assert same(weights(a.network_, a.head_), weights(b.network_, b.head_))
    double = FakeHybrid(lambda: make_network().double(), **SMALL).fit(X, y)
    assert double.predict_proba(X).shape == (150, 3)


def test_whole_numbers_are_for_the_network_to_read():
    y = np.arange(90) % 3
    tokens = np.random.default_rng(0).integers(0, 4, size=(90, 5)) + 4 * y[:, None]

    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.EmbeddingBag(12, 8)

        def forward(self, x):
            return self.embedding(x)

    model = FakeHybrid(Bag, **{**SMALL, "epochs": 30}).fit(tokens, y)
    assert model.score(tokens, y) > 0.95
    # Those that the network cannot take as they are come as floats.
    X = (10 * X0 + 100).astype(np.uint8)
    model = FakeHybrid(make_network, **SMALL).fit(X, Y0)
    same_numbers = FakeHybrid(make_network, **SMALL).fit(X.astype(np.float32), Y0)
    np.testing.assert_array_equal(model.predict_proba(X), same_numbers.predict_proba(X.astype(float)))


class LazyNetwork(nn.Sequential):
    def __init__(self):
        super().__init__(nn.LazyLinear(16), nn.ReLU(), nn.Linear(16, 8))


@pytest.mark.slow
@parametrize_with_checks(
    [HybridClassifier(LazyNetwork, **{**REAL, "epochs": 30})],
    expected_failed_checks=lambda model: {
        "check_methods_subset_invariance": "asks for ten digits, single precision has seven"
    },
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
def test_scikit_learn_agrees(estimator, check):
    check(estimator)


def test_settings_may_be_numbers_of_numpy(tmp_path):
    X, y = _rows()
    options = {
        "n_inducing": np.int64(8),
        "epochs": np.int64(2),
        "rate": np.float64(0.01),
        "damping": np.float32(0.1),
        "patience": np.int64(1),
        "validation_fraction": np.float32(0.2),
        "random_state": np.int64(0),
    }
    folder = tmp_path / "run"
    for _ in range(2):
        model = HybridClassifier(make_network, checkpoint=folder, **options).fit(X, y)
    path = model.save(tmp_path / "m")
    assert HybridClassifier.load(path, make_network).rate == 0.01


def test_in_pipelines_and_cross_validation():
    X, y = _rows()
    pipeline = make_pipeline(StandardScaler(), FakeHybrid(make_network, **SMALL))
    assert cross_val_score(pipeline, 100.0 * X, y, cv=2).mean() > 0.7


@pytest.mark.parametrize("kind", [FakeHybrid, HybridClassifier])
def test_pickling(kind):
    X, y = _rows()
    model = kind(make_network, **SMALL).fit(X, y)
    expected = model.predict_proba(X)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(X), expected)
    assert copy.history_ == model.history_


@pytest.mark.parametrize("labels", ["strings", "numbers", "objects", "booleans"])
def test_files(tmp_path, labels):
    X, y = _rows()
    y = {
        "strings": np.array(["a", "bé", "c"])[y],
        "numbers": y - 1.0,
        "objects": np.array(["a", "b", "c"], dtype=object)[y],
        "booleans": y > 0,
    }[labels]
    model = HybridClassifier(make_network, **REAL).fit(X, y)
    expected = model.predict_proba(X)
    path = model.save(tmp_path / "model.safetensors")
    for again in (make_network, make_network()):
        loaded = HybridClassifier.load(path, again)
        np.testing.assert_allclose(loaded.predict_proba(X), expected, rtol=1e-6)
        assert loaded.classes_.dtype == model.classes_.dtype
        assert (loaded.predict(X) == model.predict(X)).all()
        assert loaded.temperature_ == model.temperature_
        assert loaded.history_ == model.history_
        assert loaded.n_inducing == 8
        assert loaded.get_params().keys() == model.get_params().keys()
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]
    loaded.fit(X, y)  # a loaded model can be trained like any other


def test_files_hold_tensors_and_json_alone(tmp_path):
    X, y = _rows()
    path = FakeHybrid(make_network, **SMALL).fit(X, y).save(tmp_path / "m")
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    about = json.loads(header.pop("__metadata__")["bayesvm"])
    assert about["classes"]["labels"] == [0, 1, 2]
    assert {name.split(".")[0] for name in header} == {"network", "head"}
    for name, tensor in header.items():
        assert set(tensor) == {"dtype", "shape", "data_offsets"}, name


def test_files_that_do_not_fit(tmp_path):
    X, y = _rows()
    model = FakeHybrid(make_network, **SMALL)
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "m")
    path = model.fit(X, y).save(tmp_path / "m")
    with pytest.raises(ValueError, match="weights of another network"):
        FakeHybrid.load(path, network(n_features=9))
    with pytest.raises(FileNotFoundError, match="no model file"):
        FakeHybrid.load(tmp_path / "nothing", make_network)
    for content in (b"", b"rubbish" * 99, path.read_bytes()[:200], pickle.dumps(model.get_params)):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(ValueError, match="is not a file that"):
            FakeHybrid.load(tmp_path / "bad", make_network)
    with pytest.raises(FileNotFoundError):
        model.save(tmp_path / "no" / "folder")
    model.classes_ = model.classes_.astype("datetime64[D]")
    with pytest.raises(ValueError, match="labels of type"):
        model.save(tmp_path / "m")


def test_before_fit():
    for method in ("predict", "predict_proba", "variation_ratio", "log_variation_ratio", "features"):
        with pytest.raises(NotFittedError):
            getattr(HybridClassifier(make_network), method)(np.zeros((2, 4)))


X0, Y0 = _rows(60)


def _with(value, row=7):
    X = X0.copy()
    X[row, 1] = value
    return X


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (_with(np.nan), Y0, "NaN or infinity in 1 of 60 rows, the first of them row 7"),
        (_with(np.inf), Y0, "NaN or infinity"),
        (X0.astype(np.float64) * 1e300, Y0, "NaN or infinity"),
        (X0[:, 0], Y0, "must have a row for every example"),
        (X0[:0], Y0[:0], r"0 sample\(s\)"),
        (X0[:, :0], Y0, r"0 feature\(s\)"),
        (X0.astype(str), Y0, "array of numbers"),
        (X0.astype(complex), Y0, "Complex data not supported"),
        (X0, Y0[:-1], "59 labels for the 60 rows"),
        (X0, np.eye(3)[Y0], r"y.argmax\(1\)"),
        (X0, np.where(Y0 == 1, np.nan, Y0), "leave out rows whose class is unknown"),
        (X0, np.linspace(0, 1, 60), "continuous"),
        (X0, np.zeros(60), "one class"),
        (X0, np.array(["a", None], object)[Y0 % 2], "different types"),
        (X0, None, "requires y"),
        (X0[:, :3], Y0, r"cannot take rows of shape \(3,\)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_is_explained(X, y, message):
    with pytest.raises(ValueError, match=message):
        FakeHybrid(make_network, **SMALL).fit(X, y)


def test_bad_rows_to_predict_are_explained():
    model = FakeHybrid(make_network, **SMALL).fit(X0, Y0)
    for X, message in (
        (X0[:, :3], "X has 3 features, but FakeHybrid is expecting 4 features"),
        (X0[:, :, None], "3 with|dimensions"),
        (_with(np.nan), "NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(X)
    with pytest.warns(DataConversionWarning):
        FakeHybrid(make_network, **SMALL).fit(X0, Y0[:, None])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": 3}, "network=3"),
        ({"network": lambda: "no"}, "must make a torch Module"),
        ({"network": nn.Sequential(nn.Linear(4, 3), nn.Unflatten(1, (1, 3)))}, "features of shape"),
        ({"epochs": 0}, "epochs=0"),
        ({"rate": -1.0}, "rate"),
        ({"validation_fraction": 1.0}, r"validation_fraction=1\.0"),
        ({"validation_fraction": "half"}, "validation_fraction='half'"),
        ({"patience": 0}, "patience=0"),
        ({"device": "toaster"}, "device='toaster'"),
        ({"checkpoint": "x", "random_state": None}, "random_state"),
        ({"schedule": "no"}, "schedule='no'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_arguments_are_explained_in_fit(change, message):
    model = FakeHybrid(**{"network": make_network, **SMALL, **change})
    with pytest.raises(ValueError, match=message):
        model.fit(X0, Y0)
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize("fraction", [0.05, 0.25, 0.9])
def test_held_out_rows_keep_the_shares_of_classes(fraction):
    counts = np.array([100, 37, 5, 1])
    y = np.repeat([0, 1, 2, 3], counts)
    X = np.random.default_rng(0).normal(size=(143, 4))
    options = {**SMALL, "epochs": 1, "validation_fraction": fraction}
    held = FakeHybrid(make_network, **options).fit(X, y).validation_rows_
    assert len(held) == len(set(held)) == pytest.approx(143 * fraction, abs=2)
    taken = np.bincount(y[held], minlength=4)
    assert (np.abs(taken - fraction * counts) <= 1).all()
    assert (taken < counts).all()
    with pytest.raises(ValueError, match="validation_fraction=0"):
        FakeHybrid(make_network, **options).fit(X[:4], np.arange(4))


def test_validation_rows():
    X, y = _rows(spread=3.0)
    none = FakeHybrid(make_network, validation_fraction=0, **SMALL).fit(X, y)
    assert none.temperature_ == 2.0
    assert none.best_epoch_ == SMALL["epochs"]
    assert none.history_[-1].validation_log_loss is None
    assert len(none.validation_rows_) == 0
    Xv, yv = _rows(80, seed=3, spread=3.0)
    given = FakeHybrid(make_network, **SMALL).fit(X, y, validation=(Xv, yv))
    assert given.score(Xv, yv) == given.history_[given.best_epoch_ - 1].validation_accuracy
    assert given.temperature_ != 2.0
    with pytest.raises(ValueError, match="no training row has"):
        FakeHybrid(make_network, **SMALL).fit(X, y, validation=(Xv, yv + 1))


def test_early_stopping():
    X, y = _rows(60, spread=4.0)
    options = {**SMALL, "epochs": 60, "rate": 0.05, "validation_fraction": 0.5}
    assert FakeHybrid(make_network, **options).fit(X, y).ended_ == "patience"
    model = FakeHybrid(make_network, patience=2, **options).fit(X, y)
    assert (model.ended_, len(model.history_)) == ("patience", model.best_epoch_ + 2)
    assert FakeHybrid(make_network, patience=None, **options).fit(X, y).ended_ == "finished"
    cycle = FakeHybrid(make_network, schedule="one_cycle", **options).fit(X, y)
    assert cycle.ended_ == "finished"  # a cycle is not cut short unless asked


def test_progress(capsys):
    X, y = _rows()
    seen = []
    model = FakeHybrid(
        make_network, verbose=1, on_epoch=lambda epoch: seen.append(epoch) or epoch.number == 3, **SMALL
    )
    model.fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(seen) == len(model.history_) == 3
    assert lines[1].startswith("epoch 2/8  objective ")
    assert f"log-loss {seen[1].validation_log_loss:.4f}" in lines[1]
    assert model.ended_ == "asked"
    FakeHybrid(make_network, **SMALL).fit(X, y)
    assert capsys.readouterr() == ("", "")


def test_ctrl_c_keeps_the_best_so_far():
    X, y = _rows()

    def press(epoch):
        if epoch.number == 4:
            raise KeyboardInterrupt

    model = FakeHybrid(make_network, on_epoch=press, **SMALL)
    with pytest.warns(ConvergenceWarning, match="interrupted after 4 epochs") as caught:
        model.fit(X, y)
    assert caught[0].filename == __file__
    assert model.ended_ == "interrupted"
    assert len(model.history_) == 4
    assert model.predict_proba(X).shape == (150, 3)
    with pytest.raises(KeyboardInterrupt):
        FakeHybrid(Interrupts(make_network(), 6), **SMALL).fit(X, y)


@pytest.mark.parametrize("kind", [FakeHybrid, HybridClassifier])
def test_nan_in_training_is_raised_and_the_best_kept(kind, tmp_path):
    X, y = _rows()
    n_batches = 5
    options = {**SMALL, "checkpoint": tmp_path}
    model = kind(Poisoned(make_network(), n_batches + 3 * n_batches), **options)
    with pytest.raises(HeadError, match=r"lower the (learning )?rate") as caught:
        model.fit(X, y)
    assert len(model.history_) == 3
    assert model.ended_ == "failed"
    assert f"epoch {model.best_epoch_}" in caught.value.__notes__[0]
    assert np.isfinite(model.predict_proba(X)).all()
    assert (tmp_path / f"best-{model.best_epoch_:05d}.pt").exists()
    unfitted = kind(Poisoned(make_network(), n_batches + 1), **SMALL)
    with pytest.raises(HeadError):
        unfitted.fit(X, y)
    with pytest.raises(NotFittedError):
        unfitted.predict(X)


@pytest.mark.parametrize("kind", [FakeHybrid, HybridClassifier])
def test_resuming(kind, tmp_path):
    X, y = _rows()
    straight = kind(make_network, **SMALL).fit(X, y)

    def die(epoch):
        if epoch.number == 3:
            raise OSError("pulled the plug")

    with pytest.raises(OSError, match="plug"):
        kind(make_network, checkpoint=tmp_path, on_epoch=die, **SMALL).fit(X, y)
    resumed = kind(make_network, checkpoint=os.fspath(tmp_path), **SMALL).fit(X, y)
    assert same(weights(resumed.network_, resumed.head_), weights(straight.network_, straight.head_))
    assert resumed.best_epoch_ == straight.best_epoch_
    assert resumed.temperature_ == straight.temperature_
    with pytest.raises(ValueError, match="another run"):
        kind(make_network, checkpoint=tmp_path, **SMALL).fit(X[:-1], y[:-1])
    anew = kind(make_network, checkpoint=tmp_path, resume=False, **SMALL).fit(X[:-1], y[:-1])
    assert len(anew.history_) <= SMALL["epochs"]


def test_two_classes_and_many():
    X, y = _rows(400, n_classes=2, n_columns=4)
    model = HybridClassifier(make_network, **{**REAL, "epochs": 15}).fit(X, y == 1)
    assert model.classes_.dtype == bool
    assert model.predict_proba(X).shape == (400, 2)
    assert model.score(X, y == 1) >= LogisticRegression().fit(X, y).score(X, y) - 0.02
    X, y = _rows(400, n_classes=40)
    model = HybridClassifier(make_network, **{**REAL, "epochs": 3}).fit(X, y)
    assert model.predict_proba(X).shape == (400, 40)


def test_a_class_with_a_single_row_is_trained_on():
    X, y = _rows()
    y = y.copy()
    y[17] = 9
    model = FakeHybrid(make_network, **SMALL).fit(X, y)
    assert 17 not in model.validation_rows_
    assert model.predict_proba(X).shape == (150, 4)


def test_a_device_that_is_gone_is_replaced():
    X, y = _rows()
    model = FakeHybrid(make_network, **SMALL).fit(X, y)
    expected = model.predict_proba(X)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="device='cuda'"):
            FakeHybrid(make_network, device="cuda", **SMALL).fit(X, y)
    model.set_params(device="cuda:99")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-5)
