import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesvm import BayesianSVC
from bayesvm.metrics import expected_calibration_error
from bayesvm.plotting import ReliabilityDisplay

PROBA = np.array([[0.95, 0.05], [0.93, 0.07], [0.91, 0.09], [0.35, 0.65], [0.4, 0.6]])
Y = np.array([0, 0, 1, 1, 0])


def test_points_bars_and_intervals_are_the_counted_ones():
    display = ReliabilityDisplay.from_predictions(Y, PROBA, n_bins=5)
    line, _, (segments,) = display.points_
    # Bin (0.4, 0.6]: one wrong row. (0.6, 0.8]: one right row. (0.8, 1]: two of three.
    np.testing.assert_allclose(line.get_xdata(), [0.6, 0.65, 0.93])
    np.testing.assert_allclose(line.get_ydata(), [0.0, 1.0, 2 / 3])
    np.testing.assert_allclose([bar.get_height() for bar in display.bars_], [0, 0, 1, 1, 3])
    ends = np.array([segment[:, 1] for segment in segments.get_segments()])
    filled = display.curve.counts > 0
    np.testing.assert_allclose(ends[:, 0], display.curve.low[filled], atol=1e-12)
    np.testing.assert_allclose(ends[:, 1], display.curve.high[filled], atol=1e-12)
    assert (ends[:, 0] <= line.get_ydata() + 1e-12).all()
    assert (ends[:, 1] >= line.get_ydata() - 1e-12).all()


def test_legend_states_the_calibration_error():
    display = ReliabilityDisplay.from_predictions(Y, PROBA, n_bins=5, name="toy")
    expected = (1 * 0.6 + 1 * 0.35 + 3 * (0.93 - 2 / 3)) / 5
    assert display.expected_calibration_error == pytest.approx(expected)
    (text,) = display.ax_.get_legend().get_texts()
    assert text.get_text() == f"toy, ECE {100 * expected:.1f} %"


def test_counts_are_written_above_their_bars():
    display = ReliabilityDisplay.from_predictions(Y, PROBA, n_bins=5)
    assert [text.get_text() for text in display.counts_ax_.texts] == ["", "", "1", "1", "3"]


@pytest.mark.parametrize("model", [None, LogisticRegression(max_iter=1000)], ids=["ours", "another"])
def test_from_estimator_judges_its_probabilities(fitted, iris, held_out, model):
    X, y = held_out
    model = fitted if model is None else model.fit(*iris)
    display = ReliabilityDisplay.from_estimator(model, X, y)
    expected = expected_calibration_error(y, model.predict_proba(X), labels=model.classes_)
    assert display.expected_calibration_error == pytest.approx(expected)
    assert display.name == type(model).__name__
    assert display.curve.counts.sum() == len(y)


def test_leave_one_out_uses_the_training_labels(fitted, iris):
    y = iris[1][::2]
    display = ReliabilityDisplay.from_leave_one_out(fitted, y)
    assert display.expected_calibration_error == pytest.approx(
        expected_calibration_error(y, fitted.loo_proba_)
    )
    hits = np.nansum(display.curve.accuracy * display.curve.counts)
    assert hits / len(y) == pytest.approx(fitted.loo_score_)


def test_leave_one_out_looks_inside_pipelines(iris):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), BayesianSVC(kernel="linear", random_state=0)).fit(X, y)
    display = ReliabilityDisplay.from_leave_one_out(pipeline, y)
    assert display.curve.counts.sum() == len(y)


def test_leave_one_out_refuses_other_labels(fitted, iris):
    with pytest.raises(ValueError, match="leave-one-out predictions of 75 rows"):
        ReliabilityDisplay.from_leave_one_out(fitted, iris[1])


def test_leave_one_out_needs_a_model_that_has_it(iris):
    X, y = iris
    model = LogisticRegression(max_iter=1000).fit(X, y)
    with pytest.raises(TypeError, match="LogisticRegression has no loo_proba_"):
        ReliabilityDisplay.from_leave_one_out(model, y)


def test_weight_two_draws_the_row_twice():
    twice = ReliabilityDisplay.from_predictions(np.append(Y, Y[0]), np.vstack([PROBA, PROBA[:1]]))
    weighted = ReliabilityDisplay.from_predictions(Y, PROBA, sample_weight=[2, 1, 1, 1, 1])
    for a, b in zip(twice.curve, weighted.curve, strict=True):
        np.testing.assert_allclose(a, b)
