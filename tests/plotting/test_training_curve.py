import numpy as np

from bayesvm import BayesianSVC
from bayesvm.plotting import TrainingCurveDisplay


def test_both_curves_are_drawn_in_order(fitted):
    display = TrainingCurveDisplay.from_estimator(fitted)
    kernel, elbo = display.lines_
    np.testing.assert_array_equal(kernel.get_ydata(), fitted.kernel_curve_)
    np.testing.assert_array_equal(elbo.get_ydata(), fitted.elbo_curve_)
    np.testing.assert_array_equal(elbo.get_xdata(), np.arange(len(fitted.elbo_curve_)))
    assert [ax.get_title(loc="left") for ax in display.axes_] == ["Learning the kernel", "Final kernel"]


def test_a_fixed_kernel_leaves_one_panel(iris):
    X, y = iris
    model = BayesianSVC(kernel="rbf", hyperparameters="fixed", random_state=0).fit(X, y)
    display = TrainingCurveDisplay.from_estimator(model)
    assert len(display.lines_) == 1
    assert display.axes_ == [display.ax_]
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), model.elbo_curve_)
