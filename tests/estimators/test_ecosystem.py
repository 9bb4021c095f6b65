"""Frames, pipelines, searches, calibration, metadata routing and the HTML repr."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

from bayesvm import BayesianSVC, LinearBayesianSVC, OneVsRestBayesianSVC, SVGPClassifier
from bayesvm._fit import defaults

from .data import FAST, problem, three_blobs

NAMES = ["length", "width", "height"]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_keep_their_column_names(frame):
    X, y = three_blobs()
    table = frame(dict(zip(NAMES, X.T, strict=True)))
    model = BayesianSVC(**FAST).fit(table, y)
    assert model.feature_names_in_.tolist() == NAMES
    assert_array_equal(model.predict_proba(table), BayesianSVC(**FAST).fit(X, y).predict_proba(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame(dict(zip(["length", "width", "depth"], X.T, strict=True))))


@pytest.mark.parametrize("series", [pd.Series, pl.Series, lambda v: pd.Series(v, dtype="category")])
def test_labels_and_weights_as_series(series):
    X, y = three_blobs()
    names = np.array(["ant", "bee", "cow"])[y].tolist()
    model = BayesianSVC(**FAST).fit(X, series(names), sample_weight=pd.Series(np.ones(len(y))))
    assert model.classes_.tolist() == ["ant", "bee", "cow"]
    assert set(model.predict(X)) <= {"ant", "bee", "cow"}
    assert model.score(X, series(names)) > 0.8  # smoke


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
@pytest.mark.parametrize("above", [False, True], ids=["whole", "in passes"])
def test_columns_of_a_frame_may_be_named(frame, above, monkeypatch):
    """As they may with Arrow data, wherever the columns are in the frame."""
    X, y = three_blobs()
    labels, weight = np.array(["ant", "bee", "cow"])[y], np.arange(len(y)) % 3
    rows = dict(zip(NAMES, X.T, strict=True))
    table = frame({"kind": labels, **rows, "w": weight})
    if above:
        monkeypatch.setattr(defaults, "IN_MEMORY_ROWS", 20)
    named = BayesianSVC(**FAST).fit(table, "kind", sample_weight="w")
    expected = BayesianSVC(**FAST).fit(frame(rows), labels, sample_weight=weight)
    assert named.feature_names_in_.tolist() == NAMES
    assert named.classes_.tolist() == ["ant", "bee", "cow"]
    assert_array_equal(named.predict_proba(frame(rows)), expected.predict_proba(frame(rows)))
    by_rows = BayesianSVC(**FAST).partial_fit(table, "kind", ["ant", "bee", "cow"], "w")
    assert by_rows.feature_names_in_.tolist() == NAMES
    with pytest.raises(ValueError, match=r"y='knid' is not a column of the data; did you mean 'kind'\?"):
        BayesianSVC(**FAST).fit(table, "knid")
    with pytest.raises(ValueError, match="sample_weight='weight' is not a column of the data"):
        BayesianSVC(**FAST).fit(table, "kind", sample_weight="weight")
    with pytest.raises(ValueError, match=r"no column besides \['kind'\]"):
        BayesianSVC(**FAST).fit(table[["kind"]], "kind")


@pytest.mark.parametrize(
    ("estimator", "more"),
    [
        (LinearBayesianSVC, {}),
        (OneVsRestBayesianSVC, {"hyperparameters": "fixed"}),
        (SVGPClassifier, {"inference": "coordinate"}),
    ],
)
def test_the_whole_family_takes_named_columns(estimator, more):
    X, y = three_blobs()
    rows = pd.DataFrame(X, columns=NAMES)
    named = estimator(random_state=0, **more).fit(rows.assign(kind=y), "kind")
    expected = estimator(random_state=0, **more).fit(rows, y)
    assert_array_equal(named.predict_proba(rows), expected.predict_proba(rows))


def test_names_without_a_frame_are_refused():
    X, _ = three_blobs()
    for rows in (X, X.tolist()):
        with pytest.raises(TypeError, match="y='kind' names a column, but X is not a data frame"):
            BayesianSVC(**FAST).fit(rows, "kind")
    doubled = pd.DataFrame(X, columns=["a", "a", "kind"])
    with pytest.raises(ValueError, match="more than one column named 'a'"):
        BayesianSVC(**FAST).fit(doubled, "kind")


def test_pipeline_that_outputs_frames():
    X, y = three_blobs()
    table = pd.DataFrame(X, columns=NAMES)
    pipe = make_pipeline(StandardScaler(), BayesianSVC(**FAST)).set_output(transform="pandas")
    pipe.fit(table, y)
    assert pipe[-1].feature_names_in_.tolist() == NAMES
    # Standardising twice is standardising once.
    plain = BayesianSVC(**FAST).fit(table, y)
    assert_allclose(pipe.predict_proba(table), plain.predict_proba(table), atol=1e-6)


def test_grid_search():
    X, y = three_blobs()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), BayesianSVC(**FAST)),
        {"bayesiansvc__kernel": ["rbf", "linear"], "bayesiansvc__n_inducing": [5, 20]},
        scoring="neg_log_loss",
        cv=3,
        error_score="raise",
    ).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.predict_proba(X).shape == (len(y), 3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_cross_validation(n_classes):
    X, y = problem(n_classes, 90)
    p = cross_val_predict(BayesianSVC(**FAST), X, y, cv=3, method="predict_proba")
    assert log_loss(y, p) < 0.6  # smoke
    scoring = ["accuracy", "roc_auc_ovr", "neg_log_loss"] + ["roc_auc"] * (n_classes == 2)
    scores = cross_validate(BayesianSVC(**FAST), X, y, cv=3, scoring=scoring, error_score="raise")
    assert all(np.isfinite(scores[f"test_{name}"]).all() for name in scoring)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibration_wrapper(n_classes, method):
    X, y = problem(n_classes, 90)
    model = CalibratedClassifierCV(BayesianSVC(**FAST), method=method, cv=3).fit(X, y)
    assert_allclose(model.predict_proba(X).sum(1), 1.0)
    assert model.score(X, y) > 0.8  # smoke


def test_inside_a_meta_estimator():
    X, y = three_blobs()
    assert OneVsRestClassifier(BayesianSVC(**FAST)).fit(X, y).score(X, y) > 0.8  # smoke


def test_metadata_routing_of_weights():
    X, y = three_blobs()
    weight = np.ones(len(y))
    weight[y == 0] = 0.01
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_pipeline(StandardScaler(), BayesianSVC(**FAST).set_fit_request(sample_weight=True))
        routed[0].set_fit_request(sample_weight=False)
        routed.fit(X, y, sample_weight=weight)
        requests = BayesianSVC().set_partial_fit_request(classes=True, sample_weight=True)
        assert requests.get_metadata_routing() is not None
    direct = BayesianSVC(**FAST).fit(X, y, sample_weight=weight)
    assert_allclose(routed.predict_proba(X), direct.predict_proba(X), atol=1e-6)


def test_html_repr():
    X, y = three_blobs()
    model = BayesianSVC(kernel="linear", **FAST)
    assert "BayesianSVC" in estimator_html_repr(model)
    fitted = estimator_html_repr(make_pipeline(StandardScaler(), model).fit(X, y))
    assert "BayesianSVC" in fitted
    assert "linear" in fitted
    assert repr(model) == "BayesianSVC(hyperparameters='fixed', kernel='linear', random_state=0)"


def test_fit_in_worker_processes():
    X, y = three_blobs(40)
    scores = cross_validate(BayesianSVC(**FAST), X, y, cv=2, n_jobs=2, error_score="raise")
    assert np.isfinite(scores["test_score"]).all()
