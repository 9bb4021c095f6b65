"""Fits to chunks: the same whatever the chunks, and as good as fits in memory."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from bayesvm import BayesianSVC, BinaryBayesianSVC, LinearBayesianSVC, OneVsRestBayesianSVC, SVGPClassifier
from bayesvm._fit import defaults, fitting
from bayesvm._fit.engine import LocalEngine
from bayesvm._fit.fitting import fit_chunks
from bayesvm._fit.sources import as_source
from bayesvm._fit.sweeps import StreamedRows
from tests.streaming.problems import batches, engine, rings

LIMIT = 500


@pytest.fixture(autouse=True)
def stream_early(monkeypatch):
    """Few rows are enough to be streamed, in chunks as they are given."""
    monkeypatch.setattr(defaults, "IN_MEMORY_ROWS", LIMIT)
    monkeypatch.setattr("bayesvm._fit.engine._FEWEST_ROWS", 1)
    monkeypatch.setattr("bayesvm._fit.fitting._FEWEST_SAMPLED", 400)
    monkeypatch.setattr("bayesvm._fit.fitting._ROWS_PER_POINT", 8)
    monkeypatch.setattr("bayesvm._inference.coordinate._FEWEST_SAMPLED", 100)


def _fit(estimator, size, X, y, weight=None):
    fit_chunks(estimator, engine(size, X, y, weight))
    return estimator


def _same(one, other, X, tolerance=1e-9):
    for name in ("m", "R", "Z"):
        a, b = getattr(one.model_, name), getattr(other.model_, name)
        assert np.abs(a - b).max() < tolerance, name
    for a, b in zip(one.model_.calibration, other.model_.calibration, strict=True):
        assert (a.temperature, a.spread) == (b.temperature, b.spread)
        assert a.weight == pytest.approx(b.weight, abs=tolerance)
    assert np.abs(one.predict_proba(X) - other.predict_proba(X)).max() < tolerance
    assert one.loo_log_loss_ == pytest.approx(other.loo_log_loss_, abs=tolerance)
    assert one.n_iter_ == other.n_iter_


MODELS = {
    "exact": (lambda: BayesianSVC(20, rivals="exact", random_state=0), 3),
    "sampled": (lambda: BayesianSVC(20, rivals="sampled", random_state=0), 4),
    "mean": (lambda: BayesianSVC(20, rivals="mean", random_state=0, max_iter=20, tol=0.1), 3),
    "two classes": (lambda: BayesianSVC(20, random_state=0), 2),
    "binary": (lambda: BinaryBayesianSVC(20, random_state=0), 2),
    "one-vs-rest": (lambda: OneVsRestBayesianSVC(20, random_state=0), 3),
    "linear": (lambda: LinearBayesianSVC(random_state=0), 3),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_chunks_do_not_show_in_the_result(name):
    make, n_classes = MODELS[name]
    X, y = rings(1500, n_classes)
    one = _fit(make(), 1500, X, y)
    _same(one, _fit(make(), 1000, X, y), X[:100])
    _same(one, make().fit(X, y), X[:100])  # an array in memory goes the same way


def test_chunks_of_seven_rows_in_any_order():
    X, y = rings(900, 3)
    order = np.random.default_rng(1).permutation(900)
    one = _fit(BayesianSVC(20, rivals="sampled", random_state=0), 900, X, y)
    _same(one, _fit(BayesianSVC(20, rivals="sampled", random_state=0), 7, X[order], y[order]), X[:100])


@pytest.mark.parametrize("n_rows", [400, 1500])
def test_units_and_an_origin_of_the_columns_do_not_matter(n_rows):
    """In memory and streamed, where the random sample could differ."""
    X, y = rings(n_rows, 3)
    other = X * [3.7, 1e-6, 254.0] + [1.0, 0.0, -20.0]
    one, two = (BayesianSVC(20, random_state=0).fit(rows, y) for rows in (X, other))
    assert np.abs(one.predict_proba(X) - two.predict_proba(other)).max() < 1e-6


def test_few_rows_give_the_same_model_whichever_way_they_come(monkeypatch):
    """As an array, in batches, and streamed where the sample holds all of them."""
    X, y = rings(450, 3)
    one = BayesianSVC(20, random_state=0).fit(X, y)
    _same(one, BayesianSVC(20, random_state=0).fit(batches(70, X, y)), X, 1e-12)
    assert np.array_equal(one.loo_proba_, BayesianSVC(20, random_state=0).fit(batches(70, X, y)).loo_proba_)
    monkeypatch.setattr(defaults, "IN_MEMORY_ROWS", 100)
    monkeypatch.setattr("bayesvm._fit.fitting._FEWEST_SAMPLED", 451)
    _same(one, BayesianSVC(20, random_state=0).fit(X, y), X)
    _same(one, _fit(BayesianSVC(20, random_state=0), 33, X, y), X)


@pytest.mark.parametrize("rivals", ["exact", "sampled"])
def test_weight_two_is_the_row_twice_in_the_posterior_and_weight_zero_is_no_row(rivals):
    X, y = rings(900, 3)
    weight = np.arange(900) % 3.0
    twice = np.concatenate([np.flatnonzero(weight >= 1), np.flatnonzero(weight >= 2)])
    settings = {"rivals": rivals, "random_state": 0, "hyperparameters": "elbo"}
    weighted = _fit(BayesianSVC(20, **settings), 100, X, y, weight)
    repeated = _fit(BayesianSVC(20, **settings), 250, X[twice], y[twice])
    for a, b in zip(weighted.predict_latent(X), repeated.predict_latent(X), strict=True):
        assert np.abs(a - b).max() < 1e-7


def test_class_weights_are_weights():
    X, y = rings(900, 3)
    mass = np.bincount(y)
    balanced = _fit(BayesianSVC(20, class_weight="balanced", random_state=0), 100, X, y)
    by_hand = _fit(BayesianSVC(20, random_state=0), 90, X, y, 900 / (3 * mass[y]))
    assert np.abs(balanced.predict_proba(X) - by_hand.predict_proba(X)).max() < 1e-8


def _changing(changes):
    """A function that gives the rows in batches, and from some pass on others."""
    X, y = rings(900, 3)
    passes = iter(range(1000))

    def opened():
        return batches(100, *changes(next(passes), X, y))

    return opened


# The columns are looked at, labels are surveyed, the sample is drawn: the fourth opening is a sweep's.
CHANGES = {
    "other rows each time": lambda i, X, y: (np.random.default_rng(i).normal(size=X.shape), y),
    "labels shuffled": lambda i, X, y: (X, np.random.default_rng(i).permutation(y)),
    "one value, late": lambda i, X, y: (X + (i > 2) * (np.arange(X.size) == 1234).reshape(X.shape), y),
}


@pytest.mark.parametrize("may_keep", [2**30, 0], ids=["kept", "read again"])
@pytest.mark.parametrize("change", CHANGES)
def test_rows_that_change_between_passes_are_refused(change, may_keep):
    estimator = BayesianSVC(20, random_state=0)
    with pytest.raises(ValueError, match="rows changed between two passes: values or labels"):
        fit_chunks(estimator, LocalEngine(as_source(_changing(CHANGES[change])), may_keep))


def test_the_order_of_rows_may_change_between_passes():
    def shuffled(i, X, y):
        order = np.random.default_rng(i).permutation(len(y))
        return X[order], y[order]

    X, y = rings(900, 3)
    one = _fit(BayesianSVC(20, random_state=0), 100, X, y)
    _same(one, BayesianSVC(20, random_state=0).fit(_changing(shuffled)), X[:100])


def test_a_new_label_in_a_later_pass_is_refused():
    opened = _changing(lambda i, X, y: (X, np.where((np.arange(900) == 500) & (i > 1), 7, y)))
    with pytest.raises(ValueError, match="the label 7 did not occur in the first"):
        BayesianSVC(20, random_state=0).fit(opened)


def test_few_rows_in_chunks_are_fitted_as_an_array():
    X, y = rings(LIMIT, 3)
    array = BayesianSVC(20, random_state=0).fit(X, y)
    chunked = BayesianSVC(20, random_state=0).fit(batches(60, X, y), None)
    assert np.array_equal(array.predict_proba(X), chunked.predict_proba(X))
    assert np.array_equal(array.loo_proba_, chunked.loo_proba_)


@pytest.mark.parametrize(("n_classes", "rivals"), [(2, "exact"), (4, "exact"), (4, "sampled")])
def test_as_good_as_in_memory(monkeypatch, n_classes, rivals):
    monkeypatch.setattr("bayesvm._fit.fitting._FEWEST_SAMPLED", 1200)  # of 400 the kernel varies by .05
    X, y = rings(4500, n_classes)  # more columns give the kernel two optima
    X, y, new, truth = X[:3000], y[:3000], X[3000:], y[3000:]
    model = BayesianSVC(48, rivals=rivals, local=False, random_state=0)
    streamed = _fit(model, 400, X, y)
    monkeypatch.setattr(defaults, "IN_MEMORY_ROWS", 10**6)
    memory = BayesianSVC(48, rivals=rivals, local=False, random_state=0).fit(X, y)
    assert streamed.score(new, truth) > memory.score(new, truth) - 0.015
    assert log_loss(truth, streamed.predict_proba(new)) < log_loss(truth, memory.predict_proba(new)) + 0.03
    assert streamed.loo_score_ == pytest.approx(streamed.score(new, truth), abs=0.04)


def test_same_posterior_as_in_memory_under_the_same_kernel_and_points(monkeypatch):
    """With the kernel fixed and Z the few distinct rows there is nothing left that may differ."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(1200, 2)).astype(float)
    y = (X[:, 0] + rng.integers(0, 2, size=1200) > X[:, 1]).astype(int)
    settings = {"hyperparameters": "fixed", "local": False, "tol": 1e-7, "max_iter": 300, "random_state": 0}
    streamed = _fit(BayesianSVC(32, **settings), 100, X, y)
    monkeypatch.setattr(defaults, "IN_MEMORY_ROWS", 10**6)
    memory = BayesianSVC(32, **settings).fit(X, y)
    for one, other in zip(streamed.predict_latent(X[:50]), memory.predict_latent(X[:50]), strict=True):
        assert np.abs(one - other).max() < 1e-4


@pytest.mark.parametrize("rivals", ["exact", "sampled"])
def test_a_handful_of_distinct_rows(rivals):
    rng = np.random.default_rng(0)
    X = np.eye(4)[rng.integers(4, size=5000)]
    y = np.where(rng.random(5000) < 0.9, X.argmax(1) % 3, rng.integers(3, size=5000))
    model = _fit(BayesianSVC(20, rivals=rivals, random_state=0), 1000, X, y)
    assert np.isfinite(model.predict_proba(X[:50])).all()
    assert model.score(X, y) == pytest.approx(0.93, abs=0.02)
    assert model.memory_.precision is None  # all distinct rows are remembered


def test_leave_one_out_of_every_row_of_an_array(monkeypatch):
    X, y = rings(1200, 3)
    weight = np.where(np.arange(1200) % 5 == 0, 0.0, 1.0)
    model = BayesianSVC(20, rivals="exact", random_state=0).fit(X, y, weight)
    assert model.loo_proba_.shape == (1200, 3)
    assert model.loo_proba_.sum(1) == pytest.approx(np.ones(1200))
    used = weight > 0
    score = (model.loo_proba_[used].argmax(1) == y[used]).mean()
    assert score == pytest.approx(model.loo_score_, abs=0.04)  # that of the sample
    # Rows that took no part are predicted.
    assert np.abs(model.loo_proba_[~used] - model.predict_proba(X[~used])).max() < 0.02
    assert np.abs(model.loo_proba_[used] - model.predict_proba(X[used])).max() > 1e-3
    monkeypatch.setattr("bayesvm._fit.fitting.MOST_PROBABILITIES", 3000)
    assert BayesianSVC(20, rivals="exact", random_state=0).fit(X, y).loo_proba_ is None
    assert _fit(BayesianSVC(20, rivals="exact", random_state=0), 100, X, y).loo_proba_ is None


def test_partial_fit_goes_on_from_a_streamed_fit():
    X, y = rings(3000, 3)
    model = _fit(BayesianSVC(20, rivals="exact", random_state=0), 500, X[:2500], y[:2500])
    kept = model.memory_
    assert kept.precision is not None
    before = model.score(X, y)
    model.partial_fit(X[2500:], y[2500:])
    assert model.score(X, y) > before - 0.02


def test_warm_start_goes_on_from_the_last_fit():
    X, y = rings(1500, 3)
    model = BayesianSVC(20, rivals="exact", hyperparameters="fixed", warm_start=True, random_state=0)
    first = _fit(model, 300, X, y).model_
    second = _fit(model, 500, X, y)
    assert np.array_equal(first.Z, second.model_.Z)
    assert second.n_iter_ <= 3
    with pytest.raises(ValueError, match="X has 2 columns, and the last fit had 3"):
        _fit(model, 500, X[:, :2], y)
    with pytest.raises(ValueError, match="warm_start: the last fit had the classes"):
        _fit(model, 500, X, y + 1)


def test_what_cannot_be_used_is_named():
    X, y = rings(1000, 3)
    bad = X.copy()
    bad[720, 2] = np.nan
    with pytest.raises(ValueError, match=r"contains NaN, column 2 in row 720 \(of all chunks"):
        _fit(BayesianSVC(), 300, bad, y)
    with pytest.raises(ValueError, match="needs at least two classes; y holds one class, 0"):
        _fit(BayesianSVC(), 300, X, np.zeros(1000, dtype=int))
    with pytest.raises(ValueError, match="all sample weights are zero"):
        _fit(BayesianSVC(), 300, X, y, np.zeros(1000))
    with pytest.raises(ValueError, match="at least 2 classes must have rows of positive weight"):
        _fit(BayesianSVC(), 300, X, y, (y == 1).astype(float))
    with pytest.raises(ValueError, match="class_weight names"):
        _fit(BayesianSVC(class_weight={7: 1.0}), 300, X, y)


def test_methods_that_hold_all_rows_refuse_chunks_and_take_arrays():
    X, y = rings(700, 2)
    with pytest.raises(ValueError, match="'ecm' holds all rows in memory, and 700 rows in chunks"):
        _fit(BayesianSVC(20, inference="ecm"), 100, X, y)
    model = SVGPClassifier(8, max_iter=2, tol=0.0, random_state=0).fit(X, y)  # as ever
    assert model.loo_proba_.shape == (700, 2)


def test_names_of_columns_and_of_labels():
    X, y = rings(900, 3)
    labels = np.array(["low", "middle", "top"])[y]
    chunks = engine(200, X, labels)
    chunks.source.feature_names = ("a", "b", "c")
    model = BayesianSVC(20, rivals="exact", random_state=0)
    fit_chunks(model, chunks)
    assert model.classes_.tolist() == ["low", "middle", "top"]
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.n_features_in_ == 3


@pytest.mark.parametrize(("rivals", "at"), [("exact", 1), ("exact", 5), ("sampled", 1), ("sampled", 4)])
def test_interrupting_keeps_the_best_posterior(monkeypatch, rivals, at):
    X, y = rings(1500, 3)
    whole = _fit(BayesianSVC(20, normal_scores=False, rivals=rivals, random_state=0), 500, X, y)
    passes = []
    evaluate = StreamedRows.evaluate

    def raises(self, *arguments):
        passes.append(1)
        if len(passes) == at:
            raise KeyboardInterrupt
        return evaluate(self, *arguments)

    monkeypatch.setattr(StreamedRows, "evaluate", raises)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = _fit(BayesianSVC(20, normal_scores=False, rivals=rivals, random_state=0), 500, X, y)
    assert model.interrupted_
    assert len(passes) == at
    assert np.isfinite(model.predict_proba(X)).all()
    assert model.score(X, y) > whole.score(X, y) - 0.05


def test_progress_has_both_stages_and_every_state_is_a_model(monkeypatch):
    X, y = rings(900, 3)
    seen = []

    class Reporter(fitting.FitReporter):
        def _report(self, step):
            seen.append((step.stage, step.number))
            if step.number == 2:
                assert self._fitted_attributes(step.state())["loo_score_"] > 0.5
            return False

    monkeypatch.setattr(fitting, "FitReporter", Reporter)
    _fit(BayesianSVC(20, rivals="sampled", random_state=0), 300, X, y)
    assert {stage for stage, _ in seen} == {"kernel", "posterior"}
