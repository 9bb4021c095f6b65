"""Handing doubtful rows to a person keeps the promised error among the rest."""

import itertools

import numpy as np
import pytest
from sklearn.datasets import make_classification

from bayesvm import BayesianSVC, LinearBayesianSVC, OneVsRestBayesianSVC, SVGPClassifier, TooFewRowsWarning

from .data import FAST, three_blobs


def noisy(n: int, seed: int, class_sep: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
    return make_classification(
        n, 6, n_informative=4, n_redundant=0, n_classes=3, flip_y=0.0, class_sep=class_sep, random_state=seed
    )


def test_accepted_rows_keep_the_error():
    """Statistical smoke test: pooled over four training sets."""
    X, y = noisy(4000, 0, 1.2)
    wrong = accepted = 0
    for start in range(0, 1200, 300):
        model = BayesianSVC(**FAST).fit(X[start : start + 300], y[start : start + 300])
        keep = ~model.abstain(X[1200:], max_error=0.1)
        wrong += (model.predict(X[1200:])[keep] != y[1200:][keep]).sum()
        accepted += keep.sum()
    assert wrong / accepted < 0.1
    assert accepted > 0.5 * 4 * 2800
    assert model.score(X[1200:], y[1200:]) < 0.89  # without abstaining the promise would be broken


def test_thresholds_fall_with_the_allowed_error():
    X, y = noisy(300, 0, 1.0)
    model = BayesianSVC(**FAST).fit(X, y)
    thresholds = [model.abstention_threshold(e) for e in (0.01, 0.05, 0.1, 0.2, 0.5, 0.9)]
    assert all(a >= b for a, b in itertools.pairwise(thresholds))
    assert thresholds[-1] == 0.0
    with pytest.warns(TooFewRowsWarning, match="the smallest rate that 300 can promise is 0.00765"):
        assert model.abstain(X, 1e-6).all()
    assert not model.abstain(X, 0.9).any()
    kept = [(~model.abstain(X, e)).sum() for e in (0.01, 0.05, 0.065, 0.3)]
    assert kept == sorted(kept)
    assert 0 < kept[2] < kept[3] == 300


@pytest.mark.parametrize("max_error", [0.0, 1.0, -0.1, 2.0, float("nan")])
def test_error_rate_is_checked(max_error):
    X, y = three_blobs(30)
    model = BayesianSVC(**FAST).fit(X, y)
    with pytest.raises(ValueError, match=r"max_error=.*between 0 and 1"):
        model.abstain(X, max_error)


# With calibration rows ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    """A model, calibration rows and new ones."""
    X, y = noisy(4000, 2, 2.0)
    return BayesianSVC(**FAST).fit(X[:200], y[:200]), (X[200:800], y[200:800]), (X[800:], y[800:])


def test_calibration_rows_decide(fitted):
    model, (Xc, yc), (X, y) = fitted
    keep = ~model.abstain(X, 0.02, calibration=(Xc, yc))
    assert 0.5 < keep.mean() < 1.0
    assert (model.predict(X)[keep] != y[keep]).mean() < 0.02
    # Wrong labels: nothing holds any longer, though leave-one-out knows nothing of it.
    assert model.abstain(X, 0.05, calibration=(Xc, (yc + 1) % 3)).all()
    assert model.abstention_threshold(0.9, calibration=(Xc, yc)) == 0.0
    assert not model.abstain(X, 0.9, calibration=(Xc, yc)).any()


def test_higher_confidence_answers_less(fitted):
    model, calibration, _ = fitted
    thresholds = [model.abstention_threshold(0.05, c, calibration) for c in (0.5, 0.9, 0.999)]
    assert thresholds == sorted(thresholds)
    assert thresholds[0] < thresholds[-1]


def test_too_few_rows_answer_nothing_and_say_what_they_can_promise(fitted):
    model, (Xc, yc), (X, _) = fitted
    with pytest.warns(
        TooFewRowsWarning, match=r"at least 45 rows.*no row.*that 30 can promise is 0\.0739"
    ) as w:
        assert model.abstain(X, 0.05, calibration=(Xc[:30], yc[:30])).all()
    assert w[0].filename == __file__
    sure = Xc[model.predict(Xc) == yc][:30]
    assert model.abstention_threshold(0.0739, calibration=(sure, model.predict(sure))) == 0.0


def test_labels_may_be_names_in_lists():
    X, y = three_blobs(120)
    names = np.array(["a", "b", "c"])[y]
    model = BayesianSVC(**FAST).fit(X[:60], names[:60])
    threshold = model.abstention_threshold(0.4, calibration=(X[60:], names[60:]))
    assert threshold < np.inf
    assert model.abstention_threshold(0.4, calibration=(X[60:].tolist(), names[60:].tolist())) == threshold


@pytest.mark.parametrize("method", ["abstain", "predict_set"])
def test_calibration_rows_are_checked(fitted, method):
    model, (Xc, yc), (X, _) = fitted
    for calibration, message in [
        ((Xc, yc, np.ones(600)), r"must be a pair \(X, y\)"),
        (Xc, r"must be a pair \(X, y\)"),
        ((Xc[:, :2], yc), "calibration: X has 2 features, but BayesianSVC is expecting 6"),
        ((np.full_like(Xc, np.inf), yc), "calibration: .*infinity"),
        ((Xc, yc[:5]), r"calibration: y has shape \(5,\), but X has 600 rows"),
        ((Xc, yc[:, None]), r"calibration: y has shape \(600, 1\)"),
        ((Xc, np.where(yc == 0, 7, yc)), r"calibration: y holds the labels \[7\].*classes are \[0, 1, 2\]"),
        ((Xc, yc.astype(str)), "calibration: y holds the labels .*'0'"),
    ]:
        with pytest.raises(ValueError, match=message):
            getattr(model, method)(X, calibration=calibration)


@pytest.mark.parametrize("value", [0.0, 1.0, 2.0, float("nan"), "high", None])
def test_probabilities_are_checked(fitted, value):
    model, calibration, (X, _) = fitted
    with pytest.raises(ValueError, match=r"confidence=.*between 0 and 1"):
        model.abstain(X, confidence=value, calibration=calibration)
    with pytest.raises(ValueError, match=r"coverage=.*between 0 and 1"):
        model.predict_set(X, value)


# Sets -----------------------------------------------------------------------------------------


def test_sets_cover(fitted):
    model, calibration, (X, y) = fitted
    sizes = []
    for coverage in (0.7, 0.9, 0.99):
        sets = model.predict_set(X, coverage, calibration)
        assert sets.shape == (len(X), 3)
        assert sets[np.arange(len(X)), model.predict(X)].all()
        assert sets[np.arange(len(X)), y].mean() > coverage - 0.03  # of one draw
        sizes.append(sets.sum(1).mean())
    assert sizes == sorted(sizes)


def test_sets_from_leave_one_out(fitted):
    """Approximate; here the kernel was not learned."""
    model, _, (X, y) = fitted
    assert model.left_out().log_loss == pytest.approx(model.loo_log_loss_)
    assert model.predict_set(X, 0.97)[np.arange(len(X)), y].mean() == pytest.approx(0.97, abs=0.02)
    rows = len(model.loo_weight_)
    assert model.loo_label_proba_.shape == (rows,)
    assert np.exp(np.mean(np.log(model.loo_label_proba_))) == pytest.approx(np.exp(-model.loo_log_loss_))


def test_too_few_rows_for_a_coverage(fitted):
    model, (Xc, yc), (X, _) = fitted
    with pytest.warns(
        TooFewRowsWarning, match=r"coverage=0.95 takes at least 19.*all classes.*18 can .* 0\.947"
    ):
        assert model.predict_set(X, 0.95, (Xc[:18], yc[:18])).all()
    assert not model.predict_set(X, 0.5, (Xc[:18], yc[:18])).all()


@pytest.mark.parametrize("estimator", [LinearBayesianSVC, SVGPClassifier, OneVsRestBayesianSVC])
def test_the_family_promises_too(estimator):
    X, y = three_blobs(200)
    model = estimator(random_state=0).fit(X[:60], y[:60])
    new, calibration = X[150:], (X[60:150], y[60:150])
    assert model.predict_set(new, 0.9, calibration).shape == model.predict_set(new).shape == (50, 3)
    assert not model.abstain(new, 0.6, calibration=calibration).all()
