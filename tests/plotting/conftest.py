import matplotlib
import pytest
from sklearn.datasets import load_iris

from bayesvm import BayesianSVC

matplotlib.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="session")
def iris():
    X, y = load_iris(return_X_y=True, as_frame=True)
    X.columns = ["sepal length", "sepal width", "petal length", "petal width"]
    names = load_iris().target_names[y]
    return X, names


@pytest.fixture(scope="session")
def fitted(iris):
    """A model of the even rows; the odd ones are held out."""
    X, y = iris
    return BayesianSVC(kernel="rbf", random_state=0).fit(X[::2], y[::2])


@pytest.fixture
def held_out(iris):
    X, y = iris
    return X[1::2], y[1::2]
