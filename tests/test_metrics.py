import numpy as np
import pytest
from scipy.stats import binomtest

from bayesvm.metrics import (
    accuracy_coverage_curve,
    expected_calibration_error,
    reliability_curve,
    top_class,
    wilson_interval,
)


@pytest.fixture
def predictions():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([0.6, 0.4, 0.3], 400)
    y = np.array([rng.choice(3, p=p) for p in proba])
    return y, proba


def test_top_class_follows_the_labels_of_the_columns():
    proba = [[0.2, 0.8], [0.7, 0.3]]
    correct, confidence = top_class(["b", "b"], proba, labels=["a", "b"])
    assert correct.tolist() == [1.0, 0.0]
    assert confidence.tolist() == [0.8, 0.7]


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_wilson_interval_against_scipy(level):
    for successes, count in [(0, 5), (5, 5), (3, 7), (90, 100)]:
        low, high = wilson_interval([successes], [count], level)
        expected = binomtest(successes, count).proportion_ci(level, method="wilson")
        np.testing.assert_allclose([low[0], high[0]], [expected.low, expected.high], atol=1e-12)


@pytest.mark.parametrize("n_bins", [1, 4, 15])
def test_reliability_against_a_loop(predictions, n_bins):
    y, proba = predictions
    curve = reliability_curve(y, proba, n_bins=n_bins)
    total = 0.0
    for b in range(n_bins):
        rows = [i for i in range(len(y)) if curve.edges[b] < proba[i].max() <= curve.edges[b + 1]]
        assert curve.counts[b] == len(rows)
        if not rows:
            assert np.isnan([curve.confidence[b], curve.accuracy[b], curve.low[b], curve.high[b]]).all()
            continue
        accuracy = np.mean([proba[i].argmax() == y[i] for i in rows])
        confidence = np.mean([proba[i].max() for i in rows])
        np.testing.assert_allclose([curve.accuracy[b], curve.confidence[b]], [accuracy, confidence])
        assert curve.low[b] <= accuracy <= curve.high[b]
        total += len(rows) / len(y) * abs(accuracy - confidence)
    assert expected_calibration_error(y, proba, n_bins=n_bins) == pytest.approx(total)


def test_one_bin_compares_the_means(predictions):
    y, proba = predictions
    expected = abs(np.mean(proba.argmax(1) == y) - proba.max(1).mean())
    assert expected_calibration_error(y, proba, n_bins=1) == pytest.approx(expected)


def test_calibration_error_sees_overconfidence(predictions):
    y, proba = predictions
    sharp = proba**3 / (proba**3).sum(1, keepdims=True)
    assert expected_calibration_error(y, sharp) > 2 * expected_calibration_error(y, proba)


def test_certainty_falls_into_the_last_bin():
    curve = reliability_curve([0, 1], [[1.0, 0.0], [0.0, 1.0]], n_bins=10)
    assert curve.counts.tolist() == [0.0] * 9 + [2.0]
    assert expected_calibration_error([0, 1], [[1.0, 0.0], [0.0, 1.0]]) == 0.0


def test_coverage_against_a_loop(predictions):
    y, proba = predictions
    proba = np.round(proba, 2)  # ties
    curve = accuracy_coverage_curve(y, proba, labels=[0, 1, 2])
    confidence, correct = proba.max(1), proba.argmax(1) == y
    assert curve.threshold.tolist() == sorted(set(confidence.tolist()), reverse=True)
    for coverage, accuracy, threshold in zip(*curve, strict=True):
        accepted = confidence >= threshold
        np.testing.assert_allclose([coverage, accuracy], [accepted.mean(), correct[accepted].mean()])
    assert curve.coverage[-1] == 1.0


def test_row_order_changes_nothing(predictions):
    y, proba = predictions
    order = np.random.default_rng(1).permutation(len(y))
    for a, b in zip(
        accuracy_coverage_curve(y, proba), accuracy_coverage_curve(y[order], proba[order]), strict=True
    ):
        np.testing.assert_allclose(a, b)


def test_weights_count_rows(predictions):
    y, proba = predictions
    weight = np.random.default_rng(2).integers(0, 4, len(y))
    twice = np.repeat(np.arange(len(y)), weight)
    pairs = [
        (reliability_curve(y, proba, sample_weight=weight), reliability_curve(y[twice], proba[twice])),
        (
            [expected_calibration_error(y, proba, sample_weight=weight)],
            [expected_calibration_error(y[twice], proba[twice])],
        ),
    ]
    for weighted, repeated in pairs:
        for a, b in zip(weighted, repeated, strict=True):
            np.testing.assert_allclose(a, b)
    weighted = accuracy_coverage_curve(y, proba, sample_weight=weight)
    repeated = accuracy_coverage_curve(y[twice], proba[twice])
    # Rows of weight zero add thresholds, not steps.
    np.testing.assert_allclose(np.unique(weighted.coverage.round(12)), repeated.coverage.round(12))


@pytest.mark.parametrize(
    ("y", "proba", "options", "message"),
    [
        ([0, 1], [0.2, 0.3], {}, "must have shape"),
        ([0], [[0.5, 0.5], [1.0, 0.0]], {}, "y_true has shape"),
        ([], np.empty((0, 2)), {}, "no rows"),
        ([0, 0], [[0.5, 0.5], [1.0, 0.0]], {}, "give labels="),
        ([0, 5], [[0.5, 0.5], [1.0, 0.0]], {"labels": [0, 1]}, r"holds the labels \[5\]"),
        ([0, 1], [[2.0, -1.0], [1.0, 0.0]], {}, "between 0 and 1"),
        ([0, 1], [[np.nan, 0.5], [1.0, 0.0]], {}, "between 0 and 1"),
        ([0, 1], [[0.5, 0.5], [1.0, 0.0]], {"n_bins": 0}, "n_bins=0"),
        ([0, 1], [[0.5, 0.5], [1.0, 0.0]], {"level": 1.0}, "level=1.0"),
        ([0, 1], [[0.5, 0.5], [1.0, 0.0]], {"sample_weight": [1.0]}, "sample_weight has shape"),
        ([0, 1], [[0.5, 0.5], [1.0, 0.0]], {"sample_weight": [1.0, -1.0]}, "non-negative"),
    ],
)
def test_says_what_is_wrong(y, proba, options, message):
    with pytest.raises(ValueError, match=message):
        reliability_curve(y, proba, **options)
