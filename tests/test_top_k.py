"""The most probable classes of many, against the probabilities of all of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from bayesvm import BayesianSVC, _prediction, load, save
from bayesvm._core.calibration import Calibration
from bayesvm._core.features import inducing_factor
from bayesvm._core.kernels import RBF, Linear
from bayesvm._fit.rows import Scaler
from bayesvm._model import LoadedModel, Model
from bayesvm._top_k import largest_probability, most_probable, top_k
from tests.problems import normal, uniform

C, P, D = 600, 6, 3


def _model(kernel=None, sharpness: float = 4.0, temperature: float = 3.0) -> LoadedModel:
    """Many classes with means and variances of their own."""
    kernel = RBF() if kernel is None else kernel
    Z = normal(P, D, seed=0)
    params = kernel.init(Z)
    B = normal(C, P, 2, seed=1) * uniform(C, 1, 1, seed=2, low=0.0, high=3.0)
    R = torch.linalg.cholesky(B @ B.mT + 4.0 * torch.eye(P, dtype=torch.float64))
    return Model(
        scaler=Scaler.identity(D),
        kernel=kernel,
        params={k: v.numpy() for k, v in params.items()},
        Z=Z.numpy(),
        Lz=inducing_factor(kernel, params, Z).numpy(),
        m=(sharpness * normal(C, P, seed=3)).numpy(),
        R=R.numpy(),
        calibration=(Calibration(temperature, 0.5),),
        n_classes=C,
    ).on("cpu", torch.float64)


X = normal(40, D, seed=9).numpy()


@pytest.mark.parametrize("kernel", [RBF(), Linear()], ids=["stationary", "linear"])
@pytest.mark.parametrize("max_left_out", [1.0, 0.1, 1e-3, 0.0])
def test_probabilities_agree_with_those_of_all_classes_to_what_is_left_out(kernel, max_left_out):
    model = _model(kernel)
    best, p, left_out = top_k(model, X, 5, max_left_out)
    full = _prediction.proba(model, X)
    of_best = np.take_along_axis(full, best, 1)
    assert (left_out <= max_left_out).all()
    assert (of_best <= p + 1e-12).all()
    assert (of_best >= p - left_out[:, None] - 1e-12).all()
    assert (np.diff(p, axis=1) <= 0).all()
    # Whoever is not among the five has no more than the fifth, or was left out.
    np.put_along_axis(full, best, 0.0, 1)
    assert (full.max(1) <= np.maximum(p[:, -1], left_out) + 1e-12).all()


def test_few_candidates_suffice_where_latents_are_far_apart():
    """Smoke test of the purpose: most rows are done without the variances of all classes."""
    left_out = top_k(_model(), X, 5, 1e-3).left_out
    assert (left_out > 0).mean() > 0.5


def test_flat_probabilities_are_computed_for_all_classes():
    model = _model(sharpness=0.01, temperature=0.25)
    best, p, left_out = top_k(model, X, 3, 1e-3)
    assert_array_equal(left_out, 0.0)
    assert_allclose(p, np.take_along_axis(_prediction.proba(model, X), best, 1))


@pytest.mark.parametrize("sharpness", [4.0, 0.3])
def test_the_most_probable_class_is_the_argmax(sharpness):
    model = _model(sharpness=sharpness)
    full = _prediction.proba(model, X)
    assert_array_equal(most_probable(model, X), full.argmax(1))
    assert_allclose(largest_probability(model, X), full.max(1), rtol=1e-12)


def test_rows_do_not_depend_on_the_rows_beside_them():
    model = _model(Linear())
    together = top_k(model, X, 4, 0.05)
    for i in (0, 7, 39):
        alone = top_k(model, X[i : i + 1], 4, 0.05)
        assert_array_equal(alone.best[0], together.best[i])
        assert_allclose(alone.proba[0], together.proba[i], rtol=1e-9)
        assert_allclose(alone.left_out[0], together.left_out[i], rtol=1e-7)


def test_models_without_independent_latents_use_all_classes():
    model = _model()
    pooled = replace(model, model=replace(model.model, pooled=True))
    best, p, left_out = top_k(pooled, X, 3, 1e-3)
    assert_array_equal(left_out, 0.0)
    assert_allclose(p, np.take_along_axis(_prediction.proba(pooled, X), best, 1))


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    y = np.repeat(np.array(["a", "b", "c", "d"]), 15)
    rows = 3.0 * rng.standard_normal((4, 2))[np.unique(y, return_inverse=True)[1]] + rng.standard_normal(
        (60, 2)
    )
    return BayesianSVC(random_state=0, max_iter=5, tol=0.0).fit(rows, y), rows


def test_labels_come_with_their_probabilities(fitted):
    model, rows = fitted
    top = model.predict_top_k(rows, k=2)
    assert top.classes.shape == top.probabilities.shape == (60, 2)
    assert_array_equal(top.classes[:, 0], model.predict(rows))
    assert_allclose(top.probabilities, np.sort(model.predict_proba(rows), 1)[:, :1:-1])
    assert_array_equal(top.left_out, 0.0)
    assert model.predict_top_k(rows).classes.shape == (60, 4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"k": 1.5}, "k=1.5"),
        ({"k": 0}, "k=0"),
        ({"max_left_out": -1}, "max_left"),
    ],
)
def test_what_cannot_be_asked_for(fitted, arguments, words):
    model, rows = fitted
    with pytest.raises(ValueError, match=words):
        model.predict_top_k(rows, **arguments)


def test_what_a_prediction_leaves_behind_goes_through_files(fitted, tmp_path):
    """The bound on variances is computed once and stays with the model."""
    model, rows = fitted
    assert len(model.model_.envelope) == 2
    save(model, tmp_path / "model.skops")
    assert_array_equal(load(tmp_path / "model.skops").predict(rows), model.predict(rows))
