"""Learning in batches: it approaches the full fit and does not forget."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_moons

from bayesvm import BayesianSVC, RepeatedRowsWarning
from bayesvm._fit import partial_fit

from .data import FAST, assert_sound, problem, three_blobs, two_moons


def stream(model, X, y, order, size, classes):
    """Feed the rows in batches; yields the model after each."""
    for start in range(0, len(y), size):
        batch = order[start : start + size]
        yield model.partial_fit(X[batch], y[batch], classes=classes)


@pytest.mark.parametrize("rivals", ["exact", "sampled", "mean"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_batches_approach_the_full_fit(n_classes, rivals):
    X, y = problem(n_classes, 120)
    full = BayesianSVC(rivals=rivals, n_inducing=200, **FAST).fit(X, y)
    model = BayesianSVC(rivals=rivals, n_inducing=200, **FAST)
    for step in stream(model, X, y, np.arange(120), 30, np.unique(y)):
        assert_sound(step, X)
    assert_allclose(model.predict_proba(X), full.predict_proba(X), atol=0.1)
    assert model.loo_score_ == pytest.approx(full.loo_score_, abs=0.03)


def test_first_call_is_a_fit():
    X, y = three_blobs()
    first = BayesianSVC(random_state=0).partial_fit(X, y, classes=[0, 1, 2])
    assert_array_equal(first.predict_proba(X), BayesianSVC(random_state=0).fit(X, y).predict_proba(X))


ORDERS = {"shuffled": lambda X, y: np.arange(len(y)), "region": lambda X, y: np.argsort(X[:, 0]),
          "class": lambda X, y: np.argsort(y, kind="stable")}  # fmt: skip


@pytest.mark.parametrize("memory", [2000, 150])
@pytest.mark.parametrize("order", ORDERS)
def test_old_rows_are_not_erased(order, memory, monkeypatch):
    """Batches of one region or one class, with and without forgetting rows."""
    monkeypatch.setattr(partial_fit, "_MEMORY_ROWS", memory)
    X, y = make_moons(400, noise=0.2, random_state=0)
    X_test, y_test = make_moons(500, noise=0.2, random_state=1)
    full = BayesianSVC(**FAST).fit(X, y)
    rows = ORDERS[order](X, y)
    model = BayesianSVC(**FAST)
    for step in stream(model, X, y, rows, 80, [0, 1]):
        assert step.score(X[rows[:80]], y[rows[:80]]) > 0.85
    assert len(model.memory_.y) == min(memory, 400)
    assert model.score(X_test, y_test) > full.score(X_test, y_test) - 0.03


def test_iris_class_by_class():
    X, y = load_iris(return_X_y=True)
    model = BayesianSVC(random_state=0)
    for _ in stream(model, X, y, np.arange(150), 25, [0, 1, 2]):
        pass
    assert model.score(X, y) > 0.93


def test_one_class_after_a_full_fit():
    X, y = three_blobs(150)
    model = BayesianSVC(random_state=0).fit(X, y)
    before = model.score(X, y)
    more = np.random.default_rng(0).normal(X[y == 1].mean(0), 1.0, (60, 3))
    model.partial_fit(more, np.ones(60, int))
    assert model.score(X, y) > before - 0.03
    assert model.score(more, np.ones(60, int)) > 0.9


def test_a_column_that_wakes_up_later():
    X, y = two_moons(160)
    X = X * [1.0, 1e4]
    sleeping = X.copy()
    sleeping[:60, 1] = 5e3
    model = BayesianSVC(random_state=0)
    model.partial_fit(sleeping[:60], y[:60], classes=[0, 1])
    assert_sound(model, X)
    model.partial_fit(X[60:], y[60:])
    assert_sound(model, X)
    assert model.score(X[60:], y[60:]) > 0.9
    assert model.feature_relevance_[1] > 0.1


def test_forgotten_rows_still_count(monkeypatch):
    """Latents are surer after rows have passed through than after the remembered ones alone."""
    monkeypatch.setattr(partial_fit, "_MEMORY_ROWS", 40)
    X, y = three_blobs(240)
    model = BayesianSVC(normal_scores=False, **FAST)
    for _ in stream(model, X, y, np.arange(240), 40, [0, 1, 2]):
        pass
    memory = model.memory_
    assert memory.precision is not None
    assert len(memory.y) == 40
    alone = BayesianSVC(normal_scores=False, **FAST).fit(memory.X, memory.y, sample_weight=memory.weight)
    full = BayesianSVC(normal_scores=False, **FAST).fit(X, y)
    std = [m.predict_latent(X)[1].mean() for m in (full, model, alone)]
    assert std[1] < 0.8 * std[2]
    assert std[1] == pytest.approx(std[0], rel=0.25)
    assert model.score(X, y) > full.score(X, y) - 0.03


def test_weights_count_in_streams():
    X, y = three_blobs()
    weighted = BayesianSVC(**FAST).partial_fit(X[:30], y[:30], classes=[0, 1, 2])
    weighted.partial_fit(X[30:], y[30:], sample_weight=np.full(30, 2.0))
    repeated = BayesianSVC(**FAST).partial_fit(X[:30], y[:30], classes=[0, 1, 2])
    with pytest.warns(RepeatedRowsWarning):
        repeated.partial_fit(np.repeat(X[30:], 2, 0), np.repeat(y[30:], 2))
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-8)
    assert weighted.loo_proba_.shape == (30, 3)
    assert repeated.loo_proba_.shape == (60, 3)


def test_streams_count_rows_as_a_fit_does():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, size=(90, 2)).astype(float), np.arange(90) % 3
    whole = BayesianSVC(**FAST).fit(X, y)
    model = BayesianSVC(**FAST)
    for part in np.split(np.arange(90), 3):
        model.partial_fit(X[part], y[part], classes=[0, 1, 2])
    assert model.memory_.count.sum() == 90
    assert_array_equal(model.memory_.count, whole.memory_.count)
    assert model.loo_log_loss_ == pytest.approx(whole.loo_log_loss_, abs=0.02)


@pytest.mark.parametrize("n_classes", [2, 3, 50])
def test_first_batch_of_one_class(n_classes):
    X, y = two_moons(30)
    model = BayesianSVC(random_state=0).partial_fit(X, np.ones(30, int), classes=range(n_classes))
    assert_sound(model, X)
    assert (model.predict(X) == 1).all()
    model.partial_fit(X[y == 0], y[y == 0])
    assert_sound(model, X)


def test_every_inference_continues():
    X, y = three_blobs()
    for inference in ("coordinate", "natural", "adam"):
        model = BayesianSVC(inference=inference, batch_size=20, tol=0.5, max_iter=60, **FAST)
        model.set_params(tol=0.0) if inference == "adam" else None
        model.partial_fit(X[:50], y[:50], classes=[0, 1, 2]).partial_fit(X[50:], y[50:])
        assert_sound(model, X)


def test_single_rows_one_at_a_time():
    X, y = three_blobs(24)
    model = BayesianSVC(**FAST).partial_fit(X[:4], y[:4], classes=[0, 1, 2])
    for i in range(4, 24):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    assert len(model.memory_.y) == 24
    assert model.score(X, y) > 0.8  # smoke


def test_misuse_is_explained():
    X, y = three_blobs()
    with pytest.raises(ValueError, match="classes must be given in the first call"):
        BayesianSVC().partial_fit(X, y)
    with pytest.raises(ValueError, match=r"labels \[2\].*not among the classes"):
        BayesianSVC(**FAST).partial_fit(X, y, classes=[0, 1])
    model = BayesianSVC(**FAST).partial_fit(X, y, classes=[2, 1, 0])
    with pytest.raises(ValueError, match="differ from those of the first call"):
        model.partial_fit(X, y, classes=[0, 1, 2, 3])
    with pytest.raises(ValueError, match=r"labels \[7\]"):
        model.partial_fit(X, np.full(len(y), 7))
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :2], y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="infinity"):
        model.partial_fit(np.full((1, 3), np.inf), [0])
    assert_array_equal(model.predict_proba(X), before)
    model.class_weight = {0: 0.0}
    with pytest.raises(ValueError, match="positive weight"):
        model.partial_fit(X[y == 0], y[y == 0])


def test_forgetting_is_a_fit_with_faded_weights():
    """While all rows are remembered, a call that forgets is a fit in which old rows weigh less."""
    X, y = three_blobs(90)
    model = BayesianSVC(**FAST)
    for start in (0, 30, 60):
        model.partial_fit(X[start : start + 30], y[start : start + 30], classes=[0, 1, 2], forgetting=0.5)
    weight = np.repeat([0.25, 0.5, 1.0], 30)
    assert_allclose(np.sort(model.memory_.weight), np.sort(weight))
    expected = BayesianSVC(**FAST).partial_fit(X, y, classes=[0, 1, 2], sample_weight=weight)
    assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=2e-3)


def test_what_forgotten_rows_taught_fades():
    """By hand: precision beyond the prior and linear part shrink by the share."""
    memory = partial_fit.Memory(
        np.ones((1, 1)),
        np.zeros(1, int),
        np.array([2.0]),
        np.array([1]),
        np.array([[[3.0]]]),
        np.array([[5.0]]),
        9,
    )
    faded = memory.faded(0.25)
    assert faded.weight.tolist() == [1.5]
    assert faded.precision.tolist() == [[[2.5]]]
    assert faded.linear.tolist() == [[3.75]]
    assert memory.faded(0.0) is memory
    assert memory.faded(1.0).precision.tolist() == [[[1.0]]]


# Slow; forgetting on few rows runs fast.
@pytest.mark.slow
@pytest.mark.parametrize("memory", [2000, 100])
def test_a_stream_that_turns_around_is_followed_by_those_who_forget(memory, monkeypatch):
    monkeypatch.setattr(partial_fit, "_MEMORY_ROWS", memory)
    X, y = make_moons(1200, noise=0.2, random_state=0)
    labels = np.where(np.arange(1200) < 800, y, 1 - y)  # the classes change places
    scores = {}
    for share in (0.0, 0.5):
        model = BayesianSVC(**FAST)
        for start in range(0, 1200, 100):
            batch = slice(start, start + 100)
            model.partial_fit(X[batch], labels[batch], classes=[0, 1], forgetting=share)
            assert_sound(model, X[batch])
        scores[share] = model.score(X[800:], labels[800:])
        weight = model.memory_.weight.sum()
    assert scores[0.5] > 0.9
    assert scores[0.0] < scores[0.5] - 0.1
    assert weight < 200.0  # 100 / 0.5 rows, in the long run
    if memory == 100:  # faded rows make room for fresh ones
        assert np.median(model.memory_.weight) >= 0.5


def test_forgetting_everything_starts_again():
    X, y = three_blobs(90)
    model = BayesianSVC(**FAST).partial_fit(X[:45], y[:45], classes=[0, 1, 2])
    model.partial_fit(X[45:], y[45:], forgetting=1.0)
    assert len(model.memory_.y) == 45
    assert_sound(model, X)
    for bad in (-0.1, 1.5, "much", None, True, np.nan):
        with pytest.raises(ValueError, match=r"forgetting=.* must be a number from 0 to 1"):
            model.partial_fit(X, y, forgetting=bad)
