import numpy as np
import pytest

from bayesvm.plotting import CoverageDisplay

PROBA = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]])
Y = np.array([0, 0, 1, 0])


def test_curve_is_the_counted_one():
    display = CoverageDisplay.from_predictions(Y, PROBA)
    np.testing.assert_allclose(display.line_.get_xdata(), [25, 50, 75, 100])
    np.testing.assert_allclose(display.line_.get_ydata(), [100, 100, 100, 75])
    assert display.mark_ is None
    assert np.isnan(display.accepted_coverage)


def test_mark_sits_where_the_threshold_cuts():
    display = CoverageDisplay.from_predictions(Y, PROBA, threshold=0.7, max_error=0.1)
    assert display.accepted_coverage == 0.75
    assert display.accepted_accuracy == 1.0
    np.testing.assert_allclose(display.mark_.get_xydata(), [[75, 100]])
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["all rows: 75.0 %", "asked for: 90 %", "accepted 75 %: 100.0 %"]


def test_nothing_accepted_is_said_not_drawn():
    display = CoverageDisplay.from_predictions(Y, PROBA, threshold=float("inf"), max_error=0.001)
    assert display.mark_ is None
    assert display.accepted_coverage == 0.0
    assert np.isnan(display.accepted_accuracy)
    assert "no row accepted" in [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_mark_agrees_with_abstain(fitted, held_out):
    X, y = held_out
    display = CoverageDisplay.from_estimator(fitted, X, y, max_error=0.1)
    accepted = ~fitted.abstain(X, max_error=0.1)
    assert accepted.mean() > 0.0
    assert display.accepted_coverage == pytest.approx(accepted.mean())
    assert display.accepted_accuracy == pytest.approx((fitted.predict(X) == y)[accepted].mean())
    assert display.line_.get_ydata()[-1] == pytest.approx(100 * fitted.score(X, y))


def test_leave_one_out_keeps_the_error_it_promises(fitted, iris):
    y = iris[1][::2]
    display = CoverageDisplay.from_leave_one_out(fitted, y, max_error=0.1)
    assert display.line_.get_ydata()[-1] == pytest.approx(100 * fitted.loo_score_)
    assert display.accepted_accuracy >= 0.9


def test_early_error_does_not_set_the_scale():
    n = 100
    top = np.linspace(0.99, 0.6, n)
    y = np.zeros(n, int)
    y[0] = 1
    y[-1] = 1
    display = CoverageDisplay.from_predictions(y, np.stack([top, 1 - top], 1))
    assert display.line_.get_ydata()[0] == 0.0
    assert display.ax_.get_ylim()[0] > 70
