"""What holds for every member of the family, however it is fitted."""

import io
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import bayesvm
from bayesvm import (
    BayesianSVC,
    BinaryBayesianSVC,
    LinearBayesianSVC,
    OneVsRestBayesianSVC,
    SVGPClassifier,
)

from .data import assert_sound, problem

KERNEL = {"n_inducing": 10, "kernel": "rbf", "random_state": 0}
# Short chains: whether they converge is another test's business.
CHAINS = {"n_chains": 2, "n_draws": 40, "max_iter": 200}

ESTIMATORS = {
    "multiclass": BayesianSVC(**KERNEL),
    "multiclass, mode": BayesianSVC(inference="ecm", **KERNEL),
    "multiclass, natural and Adam": BayesianSVC(inference="natural_adam", max_iter=40, tol=0.0, **KERNEL),
    "multiclass, chains": BayesianSVC(inference="slice", **CHAINS, **KERNEL),
    "one against the rest": OneVsRestBayesianSVC(**KERNEL),
    "one against the rest, augmented": OneVsRestBayesianSVC(expectation="augmented", **KERNEL),
    "one against the rest, mode": OneVsRestBayesianSVC(inference="ecm", approximation="fitc", **KERNEL),
    "one against the rest, Gibbs": OneVsRestBayesianSVC(inference="gibbs", **CHAINS, **KERNEL),
    "one against the rest, minibatches": OneVsRestBayesianSVC(batch_size=20, tol=0.1, **KERNEL),
    "softmax": SVGPClassifier(likelihood="softmax", **KERNEL),
    "softmax, calibrated": SVGPClassifier(likelihood="softmax", probabilities="calibrated", **KERNEL),
    "robust-max": SVGPClassifier(likelihood="robustmax", **KERNEL),
    "robust-max, Adam": SVGPClassifier(inference="adam", learning_rate=0.05, max_iter=30, tol=0.0, **KERNEL),
    "linear": LinearBayesianSVC(random_state=0),
    "linear, mode": LinearBayesianSVC(inference="em", random_state=0),
    "linear, Gibbs": LinearBayesianSVC(inference="gibbs", **CHAINS, random_state=0),
}
BINARY = {
    "binary": BinaryBayesianSVC(**KERNEL),
    "binary, mode": BinaryBayesianSVC(inference="ecm", **KERNEL),
    "binary, Gibbs": BinaryBayesianSVC(inference="gibbs", approximation="dtc", **CHAINS, **KERNEL),
    "binary, chains": BinaryBayesianSVC(inference="slice", **CHAINS, **KERNEL),
}
ROUGH = ".*leave-one-out probabilities.*are unreliable"
CASES = [(name, n) for n in (2, 3) for name in ESTIMATORS] + [(name, 2) for name in BINARY]
every_case = pytest.mark.parametrize(("name", "n_classes"), CASES)
_fitted: dict[tuple[str, int], object] = {}


def make(name):
    return clone({**ESTIMATORS, **BINARY}[name])


def fit(model, *data, **more):
    """Short chains and few epochs warn; that is not what is looked at here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message=ROUGH)
        return model.fit(*data, **more)


def fitted(name, n_classes):
    if (name, n_classes) not in _fitted:
        _fitted[name, n_classes] = fit(make(name), *problem(n_classes))
    return _fitted[name, n_classes]


@every_case
def test_everything_said_is_sound(name, n_classes):
    X, y = problem(n_classes)
    model = fitted(name, n_classes)
    assert_sound(model, X)
    assert model.score(X, y) > 0.75
    assert model.loo_score_ > 0.7
    far = 50.0 * X[:5]
    assert_sound(model, far)


@pytest.mark.filterwarnings(
    "ignore::bayesvm.RepeatedRowsWarning"
)  # of copies all are left out, as of weights
@every_case
def test_weights_are_repeated_rows_in_any_order(name, n_classes):
    X, y = problem(n_classes)
    rng = np.random.default_rng(0)
    times = rng.integers(0, 3, len(y))
    weighted = fit(make(name), X, y, sample_weight=times)
    rows = rng.permutation(np.repeat(np.arange(len(y)), times))
    repeated = fit(make(name), X[rows], y[rows])
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-7)
    assert weighted.loo_log_loss_ == pytest.approx(repeated.loo_log_loss_, abs=1e-7)


@every_case
def test_files_and_pickles_hold_the_model(name, n_classes, tmp_path):
    X, _ = problem(n_classes)
    model = fitted(name, n_classes)
    wanted = model.predict_proba(X)
    loaded = bayesvm.load(bayesvm.save(model, tmp_path / "model.skops"))
    assert type(loaded) is type(model)
    assert_allclose(loaded.predict_proba(X), wanted, atol=0)
    assert_allclose(loaded.uncertainty(X).epistemic, model.uncertainty(X).epistemic, atol=0)
    assert loaded.get_params() == model.get_params()
    copy = pickle.load(io.BytesIO(pickle.dumps(model)))
    assert_allclose(copy.predict_proba(X), wanted, atol=0)


@every_case
def test_the_same_seed_gives_the_same_model_whatever_the_classes_are_called(name, n_classes):
    X, y = problem(n_classes)
    words = np.array(["ash", "birch", "cedar"])
    plain, named = fitted(name, n_classes), fit(make(name), X, words[y])
    assert_allclose(named.predict_proba(X), plain.predict_proba(X), atol=0)
    assert np.array_equal(named.predict(X), words[plain.predict(X)])


@pytest.mark.parametrize("name", [n for n in (*ESTIMATORS, *BINARY) if "chains" in n or "Gibbs" in n])
def test_chains_are_kept_and_judged(name):
    X, y = problem(2)
    model = make(name).set_params(n_draws=10, max_iter=30)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=ROUGH)
        with pytest.warns(ConvergenceWarning, match=r"not converged.*R-hat"):
            model.fit(X, y)
    assert model.chains_.v.shape[:2] == (2, 10)
    assert not model.chains_.converged
    assert "2 chains of 10 draws" in repr(model.chains_)


@pytest.mark.parametrize("name", [n for n in (*ESTIMATORS, *BINARY) if "mode" in n])
def test_modes_say_how_far_they_may_be_from_the_best(name):
    model = fitted(name, 2)
    assert 0.0 <= model.duality_gap_ < 1e-4
    assert fitted("multiclass", 2).duality_gap_ is None


@pytest.mark.parametrize(("name", "n_classes"), [case for case in CASES if "mode" in case[0]])
def test_the_largest_latent_decides_at_the_mode(name, n_classes):
    X, _ = problem(n_classes)
    model = fitted(name, n_classes)
    grid = np.random.default_rng(0).normal(size=(300, X.shape[1])) * X.std(0) + X.mean(0)
    assert np.array_equal(model.predict(grid), model.predict_latent(grid)[0].argmax(1))
    assert model.uncertainty(grid).epistemic.mean() > 1e-4


def test_methods_that_do_not_fit_a_model_say_what_is_missing():
    X, y = problem(3)
    with pytest.raises(ValueError, match="inference='gibbs' cannot fit BayesianSVC here"):
        BayesianSVC(inference="gibbs").fit(X, y)
    with pytest.raises(ValueError, match="inference='ecm' cannot fit SVGPClassifier here"):
        SVGPClassifier(inference="ecm").fit(X, y)


@pytest.mark.parametrize("inference", ["slice", "ecm"])
def test_more_rows_for_a_posterior_that_is_not_variational(inference):
    X, y = problem(2)
    model = BayesianSVC(inference=inference, **{**CHAINS, **KERNEL})
    with pytest.raises(AttributeError) as caught:
        model.partial_fit(X, y, classes=[0, 1])
    assert f"inference={inference!r} makes none" in str(caught.value.__cause__)
    assert not hasattr(model, "partial_fit")
    assert hasattr(model.set_params(inference="natural"), "partial_fit")


def test_a_fit_that_is_refused_leaves_the_last_model_alone():
    X, y = problem(3)
    model = BinaryBayesianSVC(10, hyperparameters="fixed").fit(X[y < 2], np.array(["a", "b"])[y[y < 2]])
    before = model.predict(X)
    with pytest.raises(ValueError, match="3 classes"):
        model.fit(X, np.array(["x", "y", "z"])[y])
    assert np.array_equal(model.predict(X), before)
