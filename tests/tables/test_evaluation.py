"""Every figure of an evaluation, by hand."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, confusion_matrix, log_loss

from bayesvm.metrics import expected_calibration_error
from bayesvm.tables import Evaluation, TableError, TableWarning, evaluate_table

from .data import mixed_table


def evaluation(n=200, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    classes = np.array(["ant", "bee", "cow", "dog"])[:n_classes]
    labels = rng.choice(classes, n)
    proba = rng.dirichlet(np.ones(n_classes), n)
    counts = np.arange(n_classes, 0, -1)
    return Evaluation(classes, labels, proba, np.arange(n), "new table", counts)


def test_figures_agree_with_scikit_learn():
    e = evaluation()
    assert e.accuracy.value == accuracy_score(e.labels, e.predicted)
    assert e.log_loss.value == pytest.approx(log_loss(e.labels, e.proba, labels=e.classes))
    assert e.brier == pytest.approx(
        brier_score_loss(e.labels, e.proba, labels=e.classes, scale_by_half=False)
    )
    assert e.calibration_error == expected_calibration_error(e.labels, e.proba, labels=e.classes)
    np.testing.assert_array_equal(e.confusion, confusion_matrix(e.labels, e.predicted, labels=e.classes))
    np.testing.assert_array_equal(e.correct, e.predicted == e.labels)
    assert e.baseline_accuracy == (e.labels == "ant").mean()


def test_intervals_hold_the_value_and_shrink():
    few, many = evaluation(100), evaluation(10_000)
    for e in (few, many):
        for figure in (e.accuracy, e.log_loss):
            assert figure.low < figure.value < figure.high
    assert few.log_loss.high - few.log_loss.low > 5 * (many.log_loss.high - many.log_loss.low)
    assert evaluation(100).log_loss == few.log_loss  # seeded


def test_bootstrap_agrees_with_the_normal_interval_of_large_tables():
    large = evaluation(20_001)
    small = Evaluation(
        large.classes, large.labels[1:], large.proba[1:], large.rows[1:], "new table", large.counts
    )
    assert list(small.log_loss) == pytest.approx(list(large.log_loss), rel=0.002)


def test_log_loss_covers_the_truth_as_often_as_it_says():
    """A smoke test of the interval: the truth is the log-loss of ten thousand rows."""
    truth = evaluation(100_000, seed=99).log_loss.value
    inside = [e.low <= truth <= e.high for e in (evaluation(100, seed=s).log_loss for s in range(60))]
    assert 0.85 <= np.mean(inside) <= 1.0


def test_certain_and_wrong_stays_finite():
    e = Evaluation(
        np.array([0, 1]), np.array([0, 1]), np.array([[0.0, 1.0], [0.0, 1.0]]), np.arange(2), "x", np.ones(2)
    )
    assert np.isfinite(e.log_loss.value)


def test_answered_rows():
    proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.5, 0.5]])
    e = Evaluation(np.array([0, 1]), np.array([0, 1, 1, 0]), proba, np.arange(4), "x", np.ones(2))
    share, accuracy = e.answered(0.8)
    assert (share, accuracy.value) == (0.5, 1.0)
    share, accuracy = e.answered(0.55)
    assert (share, accuracy.value) == (0.75, pytest.approx(2 / 3))
    assert e.answered(np.inf) == (0.0, None)


@pytest.mark.parametrize("classes", [["a", "b"], [0, 1], [False, True]])
def test_dictionary_is_ready_for_json(classes):
    classes = np.array(classes)
    e = Evaluation(classes, classes, np.eye(2) * 0.8 + 0.1, np.arange(2), "held out", np.ones(2))
    again = json.loads(json.dumps(e.as_dict()))
    assert again["classes"] == classes.tolist()
    assert again["accuracy"]["value"] == 1.0
    assert again["confusion"] == [[1, 0], [0, 1]]


def test_evaluate_table(pipeline):
    new = mixed_table(80, seed=1).set_axis(range(100, 180))
    e = evaluate_table(pipeline, new)
    assert e.origin == "new table"
    np.testing.assert_array_equal(e.labels, new["species"])
    np.testing.assert_array_equal(e.proba, pipeline.predict_proba(new))
    assert e.accuracy.value > 0.9
    counts = mixed_table()["species"].value_counts()
    assert e.majority == counts.idxmax()


def test_rows_that_cannot_be_judged_are_left_out_and_counted(pipeline):
    new = mixed_table(80, seed=1)
    new.loc[:4, "species"] = None
    new.loc[5:9, "species"] = "walrus"
    new.loc[10, "species"] = "yak"
    e = evaluate_table(pipeline, new)
    assert e.rows.tolist() == list(range(11, 80))
    assert (e.n_unlabelled, e.unseen) == (5, {"walrus": 5, "yak": 1})
    assert e.as_dict()["rows_with_unseen_label"] == {"walrus": 5, "yak": 1}


def test_tables_that_cannot_be_judged(pipeline):
    new = mixed_table(20, seed=1)
    with pytest.raises(
        TableError, match=r"no column 'species', which the model predicts; did you mean 'specie"
    ):
        evaluate_table(pipeline, new.rename(columns={"species": "specie"}))
    with pytest.raises(TableError, match=r"no row has a label.*'ant', 'bee', 'cow'"):
        evaluate_table(pipeline, new.assign(species="yak"))


def test_training_rows_are_recognised(pipeline):
    both = pd.concat([mixed_table(), mixed_table(30, seed=1)], ignore_index=True)
    with pytest.warns(TableWarning, match=r"120 of 150 rows are among those the model was trained on"):
        evaluate_table(pipeline, both)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate_table(pipeline, mixed_table(30, seed=1))
