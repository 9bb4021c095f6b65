"""With hyperparameters="elbo" the kernel of a streamed fit follows the bound of all rows."""

import numpy as np
import pytest

from bayesvm import BayesianSVC
from bayesvm._fit import defaults, polish
from tests.streaming.problems import batches, rings


@pytest.fixture(autouse=True)
def stream_early(monkeypatch):
    monkeypatch.setattr(defaults, "IN_MEMORY_ROWS", 500)
    monkeypatch.setattr("bayesvm._fit.fitting._FEWEST_SAMPLED", 150)
    monkeypatch.setattr("bayesvm._fit.fitting._ROWS_PER_POINT", 4)
    # A small sample does not tell the kernel much.
    monkeypatch.setattr(defaults, "SIZES", {0: defaults.Sizes(20, 60, 20)})


def model(seed=0, **options):
    return BayesianSVC(20, hyperparameters="elbo", random_state=seed, **options)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_bound_of_all_rows_is_higher(n_classes, monkeypatch):
    X, y = rings(2000, n_classes)
    after = [model(seed).fit(X, y) for seed in range(3)]
    monkeypatch.setattr(defaults, "POLISH_STEPS", 0)
    before = [model(seed).fit(X, y) for seed in range(3)]
    # What there is to gain depends on the rows that the kernel was learned from.
    gains = [a.elbo_curve_[-1] - b.elbo_curve_[-1] for a, b in zip(after, before, strict=True)]
    assert min(gains) > 2.0
    assert np.mean(gains) > 15.0
    X_new, y_new = rings(2000, n_classes, seed=1)
    for a, b in zip(after, before, strict=True):
        assert a.score(X_new, y_new) > b.score(X_new, y_new) - 0.02


@pytest.mark.parametrize("rivals", ["exact", "sampled"])
def test_chunks_do_not_matter(rivals, monkeypatch):
    X, y = rings(1500)
    one = model(rivals=rivals).fit(X, y)
    other = model(rivals=rivals).fit(batches(211, X, y))
    # Rows that are not kept are read in every step.
    monkeypatch.setattr("bayesvm._fit.engine.LocalEngine.may_keep", 0)
    third = model(rivals=rivals).fit(batches(400, X, y))
    for found in (other, third):
        np.testing.assert_allclose(found.predict_proba(X), one.predict_proba(X), atol=1e-6)
        for name, value in one.model_.params.items():
            np.testing.assert_allclose(found.model_.params[name], value, atol=1e-7)


def test_ctrl_c_keeps_the_best_kernel_so_far(monkeypatch):
    X, y = rings(1500)
    calls = []

    def pressed(*arguments):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return gradient(*arguments)

    gradient = polish.KernelGradient
    monkeypatch.setattr(polish, "KernelGradient", pressed)
    with pytest.warns(UserWarning, match="interrupted"):
        fitted = model().fit(X, y)
    assert len(calls) == 4
    assert fitted.interrupted_
    assert fitted.score(X, y) > 0.7
