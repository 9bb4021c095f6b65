"""The tabular estimators on a GPU: the results of the processor, to the tolerance docs/scale.md states."""

import pickle

import numpy as np
import pytest
import torch

import bayesvm
from bayesvm import BayesianSVC, BinaryBayesianSVC, LinearBayesianSVC, OneVsRestBayesianSVC, SVGPClassifier

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

# Of probabilities after a whole fit: rounding differs, and learning the kernel takes many steps from it.
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    centres = 2.0 * rng.normal(size=(4, 6))
    y = rng.integers(0, 4, 900)
    X = centres[y] + 1.3 * rng.normal(size=(900, 6))
    return X, np.array(["a", "b", "c", "d"])[y]


def both(make, X, y, **fitting):
    return [make(device).fit(X, y, **fitting) for device in ("cpu", "cuda")]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"kernel": "matern32", "hyperparameters": "elbo"},
        {"inference": "natural", "hyperparameters": "fixed", "max_iter": 20},
        {"inference": "adam", "max_iter": 20},
        {"inference": "natural_adam", "max_iter": 20},
        {"inference": "ecm", "hyperparameters": "fixed"},
        {"rivals": "sampled", "hyperparameters": "fixed"},
        {"n_inducing": 900, "hyperparameters": "fixed"},
        {"class_weight": "balanced", "n_inducing": 32},
    ],
    ids=str,
)
def test_a_fit_is_that_of_the_processor(rows, settings):
    X, y = rows
    cpu, gpu = both(lambda d: BayesianSVC(random_state=0, device=d, **settings), X, y)
    np.testing.assert_allclose(gpu.predict_proba(X), cpu.predict_proba(X), atol=TOLERANCE)
    assert gpu.converged_ == cpu.converged_


@pytest.mark.filterwarnings("ignore:the draws are too few for the model")
def test_chains_run(rows):
    X, y = (part[:80] for part in rows)
    model = BayesianSVC(
        inference="slice", n_inducing=8, n_chains=2, n_draws=10, max_iter=40, random_state=0, device="cuda"
    ).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    assert model.score(X, y) > 0.7


@pytest.mark.parametrize("kind", [BinaryBayesianSVC, LinearBayesianSVC, OneVsRestBayesianSVC, SVGPClassifier])
def test_the_family_too(rows, kind):
    X, y = rows
    if kind is BinaryBayesianSVC:
        X, y = X[(y == "a") | (y == "b")], y[(y == "a") | (y == "b")]
    cpu, gpu = both(lambda d: kind(random_state=0, device=d), X, y)
    np.testing.assert_allclose(gpu.predict_proba(X), cpu.predict_proba(X), atol=TOLERANCE)


def test_single_precision_features(rows):
    X, y = rows
    gpu = BayesianSVC(random_state=0, device="cuda", dtype="float32").fit(X, y)
    cpu = BayesianSVC(random_state=0).fit(X, y)
    np.testing.assert_allclose(gpu.predict_proba(X), cpu.predict_proba(X), atol=2e-2)


def test_streams_and_files(rows, tmp_path):
    X, y = rows
    batches = [(X[i : i + 200], y[i : i + 200]) for i in range(0, 900, 200)]
    cpu, gpu = (
        BayesianSVC(random_state=0, n_inducing=32, device=d).fit(lambda: iter(batches))
        for d in ("cpu", "cuda")
    )
    np.testing.assert_allclose(gpu.predict_proba(X), cpu.predict_proba(X), atol=TOLERANCE)
    np.testing.assert_allclose(
        pickle.loads(pickle.dumps(gpu)).predict_proba(X), gpu.predict_proba(X), atol=1e-12
    )
    bayesvm.save(gpu, tmp_path / "model.bayesvm")
    np.testing.assert_allclose(
        bayesvm.load(tmp_path / "model.bayesvm").predict_proba(X), gpu.predict_proba(X), atol=1e-12
    )


def test_rows_that_come_later(rows):
    X, y = rows
    fitted = []
    for device in ("cpu", "cuda"):
        model = BayesianSVC(random_state=0, n_inducing=32, device=device)
        for i in range(0, 900, 300):
            model.partial_fit(X[i : i + 300], y[i : i + 300], classes=np.unique(y))
        fitted.append(model)
    np.testing.assert_allclose(fitted[1].predict_proba(X), fitted[0].predict_proba(X), atol=TOLERANCE)


def test_the_best_few_and_the_compiled_predictor(rows):
    X, y = rows
    cpu, gpu = both(lambda d: BayesianSVC(random_state=0, n_inducing=32, device=d), X, y)
    a, b = cpu.predict_top_k(X, 2), gpu.predict_top_k(X, 2)
    assert np.mean(a[0] == b[0]) > 0.99
    np.testing.assert_allclose(b[1], a[1], atol=TOLERANCE)
    np.testing.assert_allclose(
        gpu.compile_predictor("float64").predict_proba(X), gpu.predict_proba(X), atol=1e-9
    )
