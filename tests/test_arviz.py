"""Chains as ArviZ wants them, before and after its version 1.0."""

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from bayesvm import BayesianSVC, BinaryBayesianSVC, LinearBayesianSVC, SVGPClassifier
from bayesvm._chains import FittedChains, fitted_chains, to_arviz
from bayesvm._core.likelihoods import BinaryHinge
from bayesvm._inference import gibbs
from tests.inference.posteriors import chains_of, task_of
from tests.problems import classification_rows


def _estimator(n_classes: int = 3) -> SimpleNamespace:
    rng = np.random.default_rng(0)
    J = 1 if n_classes == 2 else n_classes
    chains = FittedChains(
        v=rng.normal(size=(4, 50, J, 5)),
        f=rng.normal(size=(4, 50, 7, J)).astype(np.float32),
        log_likelihood=-rng.random((4, 50, 7)),
        y=np.arange(7) % n_classes,
        weight=np.linspace(1.0, 2.0, 7),
        r_hat=1.01,
        bulk_sample_size=300.0,
        tail_sample_size=250.0,
        enough=400.0,
        n_steps=200,
        thinning=2,
        converged=False,
    )
    return SimpleNamespace(chains_=chains, classes_=np.array(["a", "b", "c"][:n_classes]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_groups_have_labelled_dimensions(n_classes):
    pytest.importorskip("arviz", exc_type=ImportError)
    estimator = _estimator(n_classes)
    data = to_arviz(estimator)
    f = data["posterior"]["f"]
    assert f.dims == ("chain", "draw", "row", "function")
    assert list(f.coords["function"].values) == (["b - a"] if n_classes == 2 else ["a", "b", "c"])
    np.testing.assert_array_equal(f.values, estimator.chains_.f.astype(np.float64))
    assert data["posterior"]["v"].dims == ("chain", "draw", "function", "inducing_point")
    assert data["log_likelihood"]["y"].dims == ("chain", "draw", "row")
    np.testing.assert_array_equal(data["observed_data"]["y"].values, estimator.chains_.y)
    total = (estimator.chains_.log_likelihood * estimator.chains_.weight).sum(2)
    np.testing.assert_allclose(data["sample_stats"]["log_likelihood"].values, total)


@pytest.mark.filterwarnings("ignore")
def test_arviz_sees_the_diagnostics_we_report():
    arviz = pytest.importorskip("arviz", exc_type=ImportError)
    rows = classification_rows(12, 2, 4, seed=0)
    chains = chains_of(gibbs.METHOD, task_of(rows, BinaryHinge(), 1, fitc=True, max_iter=600, n_draws=300))
    shown = fitted_chains(chains, rows.y.numpy(), rows.weight.numpy())
    data = to_arviz(SimpleNamespace(chains_=shown, classes_=np.array([0, 1])))
    r_hat = max(float(arviz.rhat(data)["f"].max()), float(arviz.rhat(data.sample_stats)["log_likelihood"]))
    assert shown.r_hat == pytest.approx(r_hat, rel=1e-9)
    assert shown.bulk_sample_size <= float(arviz.ess(data)["f"].min()) * (1 + 1e-9)
    assert torch.is_tensor(chains.f)
    assert isinstance(shown.f, np.ndarray)


def test_groups_are_one_dictionary_from_version_one_on(monkeypatch):
    stub = ModuleType("arviz")
    stub.__version__ = "1.3.0"
    stub.from_dict = lambda data, *, coords, dims: (data, coords, dims)
    monkeypatch.setitem(sys.modules, "arviz", stub)
    data, coords, dims = to_arviz(_estimator())
    assert set(data) == {"posterior", "log_likelihood", "sample_stats", "observed_data"}
    assert set(coords) == {"row", "function", "inducing_point"}
    assert dims["f"] == ["row", "function"]


def test_without_arviz_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"pip install 'bayesvm\[arviz\]'"):
        to_arviz(_estimator())


def test_an_estimator_without_chains_is_told_so():
    with pytest.raises(ValueError, match="inference='slice' or 'gibbs'"):
        to_arviz(SimpleNamespace())


@pytest.mark.parametrize(
    ("estimator", "sampler"),
    [
        (BayesianSVC(), "slice"),
        (SVGPClassifier(), "slice"),
        (BinaryBayesianSVC(), "slice' or 'gibbs"),
        (LinearBayesianSVC(), "gibbs"),
    ],
)
def test_the_sampler_advised_is_one_that_the_estimator_has(estimator, sampler):
    with pytest.raises(ValueError, match=f"has no chains; fit it with inference='{sampler}'$"):
        to_arviz(estimator)


def test_a_pipeline_may_end_in_the_estimator(monkeypatch):
    stub = ModuleType("arviz")
    stub.__version__ = "1.0.0"
    stub.from_dict = lambda data, *, coords, dims: data
    monkeypatch.setitem(sys.modules, "arviz", stub)
    pipeline = SimpleNamespace(steps=[("scale", None), ("model", _estimator())])
    assert "posterior" in to_arviz(pipeline)


def test_chains_say_in_words_what_is_wrong():
    chains = _estimator().chains_
    assert "not converged" in repr(chains)
    for word in ("they agree", "300", "250", "n_draws and max_iter"):
        assert word in chains.problem
    apart = replace(chains, r_hat=1.2)
    for word in ("they disagree", "1.200", "1.05", "Raise n_draws and max_iter"):
        assert word in apart.problem
    assert "Raise max_iter" in replace(apart, v=np.zeros((4, 500, 3, 5))).problem
    assert replace(chains, converged=True).problem == ""
