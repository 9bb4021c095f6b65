import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesvm import BayesianSVC
from bayesvm.plotting import FeatureRelevanceDisplay


def labels(display):
    return [text.get_text() for text in display.ax_.get_yticklabels()]


def test_bars_are_sorted_and_named():
    display = FeatureRelevanceDisplay(
        [0.1, 0.6, 0.0, 0.3], feature_names=["a", "b", "c", "d"], top_k=3
    ).plot()
    assert display.order.tolist() == [1, 3, 0]
    # From the bottom up.
    np.testing.assert_allclose([bar.get_width() for bar in display.bars_], [10, 30, 60])
    assert labels(display) == ["a", "d", "b"]
    assert display.ax_.get_xlabel() == "Relevance (%), top 3 of 4"
    assert [text.get_text() for text in display.ax_.texts] == ["10.0", "30.0", "60.0"]


def test_names_come_from_the_frame(fitted):
    display = FeatureRelevanceDisplay.from_estimator(fitted, top_k=None)
    order = np.argsort(-fitted.feature_relevance_)
    assert labels(display) == [fitted.feature_names_in_[i] for i in order[::-1]]
    total = sum(bar.get_width() for bar in display.bars_)
    assert total == pytest.approx(100)
    assert display.ax_.get_xlabel() == "Relevance (%)"


def test_names_come_from_the_pipeline(iris):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), BayesianSVC(kernel="linear", random_state=0)).fit(X, y)
    display = FeatureRelevanceDisplay.from_estimator(pipeline)
    assert sorted(labels(display)) == sorted(X.columns)


def test_arrays_get_numbers_and_names_can_be_given(iris):
    X, y = iris
    model = BayesianSVC(kernel="linear", hyperparameters="fixed", random_state=0).fit(X.to_numpy(), y)
    assert set(labels(FeatureRelevanceDisplay.from_estimator(model))) == {f"feature {i}" for i in range(4)}
    named = FeatureRelevanceDisplay.from_estimator(model, feature_names=list("wxyz"))
    assert set(labels(named)) == set("wxyz")


def test_says_what_is_wrong():
    with pytest.raises(ValueError, match="top_k=0 is not valid"):
        FeatureRelevanceDisplay([1.0], top_k=0)
    with pytest.raises(ValueError, match="1 feature_names for 2 features"):
        FeatureRelevanceDisplay([0.5, 0.5], feature_names=["a"])
