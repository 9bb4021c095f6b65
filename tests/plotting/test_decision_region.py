import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from bayesvm import BayesianSVC
from bayesvm.plotting import DecisionRegionDisplay
from bayesvm.plotting._decision_region import feature_grid


@pytest.fixture(scope="module")
def plane(iris):
    X, y = iris
    X = X[["petal length", "petal width"]]
    return BayesianSVC(kernel="rbf", random_state=0).fit(X, y), X, y


def test_regions_and_uncertainty_are_the_models(plane):
    model, X, y = plane
    display = DecisionRegionDisplay.from_estimator(model, X, y, grid_resolution=12)
    for row, column in [(0, 0), (3, 8), (11, 2), (6, 6)]:
        point = pd.DataFrame([[display.x[column], display.y[row]]], columns=X.columns)
        assert model.classes_[display.region[row, column]] == model.predict(point)[0]
        assert display.epistemic[row, column] == pytest.approx(model.uncertainty(point).epistemic[0])


def test_colours_fade_with_epistemic_uncertainty():
    proba = np.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
    display = DecisionRegionDisplay(
        x=np.array([0.0, 1.0]),
        y=np.array([0.0, 1.0]),
        proba=proba,
        epistemic=np.array([[0.0, 0.5], [1.0, 0.25]]),
        classes=np.array(["a", "b"]),
    ).plot(colors=["black", "red"])
    image = display.image_.get_array()
    darkness = 1.0 - np.asarray(image)[..., 1]  # green is absent from both colours
    assert darkness[0, 0] > darkness[1, 1] > darkness[0, 1] > darkness[1, 0]
    np.testing.assert_allclose(darkness[0, 1], (darkness[0, 0] + darkness[1, 0]) / 2)
    assert darkness[1, 0] < 0.05
    np.testing.assert_allclose(image[0, 0], image[0, 0, 0])  # grey: class a
    np.testing.assert_allclose(image[1, 1, 0], 1.0)  # pale red: class b
    # Faded to white at vmax, whatever lies above it.
    np.testing.assert_allclose(display.faded(["black", "red"], 0.5)[0, 1], 1.0, atol=0.05)


def test_far_from_the_data_is_paler(plane):
    model, X, y = plane
    display = DecisionRegionDisplay.from_estimator(model, X, y, grid_resolution=15, margin=3.0)
    assert display.epistemic[0, -1] > 5 * display.epistemic[7, 7]


def test_points_wear_the_colour_of_their_class(plane):
    model, X, y = plane
    display = DecisionRegionDisplay.from_estimator(
        model, X, y, grid_resolution=8, colors=["red", "green", "blue"]
    )
    assert len(display.points_) == 3
    for c, color, drawn in zip(model.classes_, ["red", "green", "blue"], display.points_, strict=True):
        np.testing.assert_allclose(drawn.get_offsets(), X[y == c].to_numpy())
        np.testing.assert_allclose(drawn.get_facecolor()[0, :3], to_rgb(color))
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == list(model.classes_)
    assert display.ax_.get_xlabel() == "petal length"


def test_inducing_points_are_in_the_units_of_the_data(plane):
    model, X, y = plane
    display = DecisionRegionDisplay.from_estimator(model, X, y, grid_resolution=8, show_inducing=True)
    np.testing.assert_allclose(display.inducing_.get_offsets(), model.inducing_points_)


def test_options_leave_things_out(plane):
    model, X, _ = plane
    unlabelled = DecisionRegionDisplay.from_estimator(model, X, grid_resolution=8, legend=False)
    assert len(unlabelled.points_) == 1
    assert unlabelled.ax_.get_legend() is None
    bare = DecisionRegionDisplay.from_estimator(model, X, grid_resolution=8, show_points=False)
    assert bare.points_ == []


def test_other_features_are_held_at_their_median(fitted, iris):
    X, y = iris
    features = ("petal width", "sepal width")
    display = DecisionRegionDisplay.from_estimator(fitted, X, y, features=features, grid_resolution=7)
    row = X.median().to_frame().T
    row["petal width"], row["sepal width"] = display.x[2], display.y[5]
    np.testing.assert_allclose(display.proba[5, 2], fitted.predict_proba(row)[0])


def test_pipelines_and_searches_are_looked_into(iris):
    X, y = iris
    X = X[["petal length", "petal width"]]
    pipeline = make_pipeline(StandardScaler(), BayesianSVC(kernel="linear", random_state=0))
    search = GridSearchCV(pipeline, {"bayesiansvc__hyperparameters": ["fixed"]}, cv=2).fit(X, y)
    display = DecisionRegionDisplay.from_estimator(search, X, y, grid_resolution=6)
    point = pd.DataFrame([[display.x[4], display.y[1]]], columns=X.columns)
    np.testing.assert_allclose(display.proba[1, 4], search.predict_proba(point)[0])
    with pytest.raises(ValueError, match="without preprocessing"):
        DecisionRegionDisplay.from_estimator(search, X, y, grid_resolution=6, show_inducing=True)


def test_categories_are_held_at_the_most_frequent(iris):
    X, y = iris
    X = X[["petal length", "petal width"]].assign(site=np.where(np.arange(len(y)) % 3, "field", "hill"))
    prepare = make_column_transformer(
        ("passthrough", ["petal length", "petal width"]), (OneHotEncoder(sparse_output=False), ["site"])
    )
    pipeline = make_pipeline(prepare, BayesianSVC(kernel="linear", hyperparameters="fixed", random_state=0))
    pipeline.fit(X, y)
    display = DecisionRegionDisplay.from_estimator(pipeline, X, y, grid_resolution=5)
    point = pd.DataFrame({"petal length": [display.x[3]], "petal width": [display.y[2]], "site": ["field"]})
    np.testing.assert_allclose(display.proba[2, 3], pipeline.predict_proba(point)[0])


def test_columns_with_categories_and_gaps(iris):
    X, y = iris
    X = X[["petal length", "petal width"]].assign(site=np.where(np.arange(len(y)) % 3, "field", "hill"))
    X.iloc[:5, 0] = np.nan
    X["site"] = X["site"].astype("category")
    model = BayesianSVC(20, hyperparameters="fixed", random_state=0).fit(X, y)
    numbers = ("petal length", "petal width")
    display = DecisionRegionDisplay.from_estimator(
        model, X, y, features=numbers, grid_resolution=5, show_inducing=True
    )
    point = pd.DataFrame({"petal length": [display.x[3]], "petal width": [display.y[2]], "site": ["field"]})
    np.testing.assert_allclose(display.proba[2, 3], model.predict_proba(point)[0])
    with pytest.raises(ValueError, match="two columns of numbers"):
        DecisionRegionDisplay.from_estimator(model, X, y, features=("petal length", "site"))


def test_many_classes_get_distinct_colours(plane):
    from bayesvm.plotting._style import class_colors

    for n in (2, 7, 8, 30):
        assert len({to_rgb(color) for color in class_colors(n)}) == n


def test_grid_of_an_array():
    X = np.array([[0.0, 5.0, 1.0], [2.0, 7.0, 9.0], [1.0, 6.0, 2.0]])
    grid = feature_grid(X, (0, 2), 3, 0.5)
    np.testing.assert_allclose(grid.x, [-1, 1, 3])
    np.testing.assert_allclose(grid.y, [-3, 5, 13])
    np.testing.assert_allclose(grid.rows[:4], [[-1, 6, -3], [1, 6, -3], [3, 6, -3], [-1, 6, 5]])
    assert grid.names == ("feature 0", "feature 2")


def test_grid_keeps_the_type_of_a_frame():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [0.0, 1.0], "b": [1.0, 3.0], "c": ["u", "u"]})
    grid = feature_grid(frame, ("a", "b"), 2, 0.0)
    assert isinstance(grid.rows, polars.DataFrame)
    assert grid.rows["a"].to_list() == [0.0, 1.0, 0.0, 1.0]
    assert grid.rows["c"].to_list() == ["u"] * 4


@pytest.mark.parametrize(
    ("features", "resolution", "message"),
    [
        ((0, 7), 5, "feature 7 is unknown; X has 3 features"),
        ((0, "x"), 5, "feature 'x' is unknown"),
        ((0,), 5, "must name two features"),
        ((0, 1), 1, "grid_resolution=1 is not valid"),
    ],
)
def test_grid_says_what_is_wrong(features, resolution, message):
    with pytest.raises(ValueError, match=message):
        feature_grid(np.eye(3), features, resolution, 0.1)
