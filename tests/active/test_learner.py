"""The loop: what it asks, how it learns, and that it can stop, undo and go on."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from bayesvm import BayesianSVC
from bayesvm.active import ActiveLearner
from bayesvm.active._rules import RULES
from tests.active.problems import blobs, first_of_each, moons


def _model(**options):
    return BayesianSVC(**{"n_inducing": 8, "local": False, "random_state": 0, **options})


def _same(a, b, X):
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))


@pytest.mark.parametrize("policy", RULES)
def test_every_policy_learns(policy):
    X, y = blobs(120)
    learner = ActiveLearner(_model(), policy, batch_size=4).start(X, first_of_each(y))
    learner.run(y, 20)
    assert len(learner.labelled_rows_) == 24
    assert len(set(learner.labelled_rows_)) == 24
    np.testing.assert_array_equal(learner.labels_, y[learner.labelled_rows_])
    assert (learner.estimator_.predict(X) == y).mean() > 0.75
    assert [r.n_labelled for r in learner.history_] == [8, 12, 16, 20, 24]
    assert all(r.seconds > 0 for r in learner.history_)
    assert learner.history_[-1].loo_accuracy == learner.loo_accuracy_


def test_the_query_is_the_row_of_largest_variation_ratio():
    X, y = blobs(200)
    learner = ActiveLearner(_model()).start(X, dict(enumerate(y[:30])))
    ratio = learner.estimator_.variation_ratio(X)
    ratio[:30] = -1
    assert learner.query().tolist() == [ratio.argmax()]
    assert learner.query(5).tolist() == np.argsort(-ratio)[:5].tolist()
    learner.skip(int(ratio.argmax()))
    assert learner.query()[0] == np.argsort(-ratio)[1]


def test_it_refits_by_partial_fit_as_one_would_by_hand():
    X, y = blobs(60)
    learner = ActiveLearner(_model(), "margin").start(X, first_of_each(y)).run(y, 6)
    rows = learner.labelled_rows_
    by_hand = _model().partial_fit(X[rows[:4]], y[rows[:4]], classes=np.arange(4))
    for row in rows[4:]:
        by_hand.partial_fit(X[[row]], y[[row]])
    _same(learner.estimator_, by_hand, X)


def test_without_increments_it_fits_to_all_labels():
    X, y = blobs(60)
    learner = ActiveLearner(_model(), "margin", incremental=False).start(X, first_of_each(y)).run(y, 4)
    rows = learner.labelled_rows_
    _same(learner.estimator_, _model().fit(X[rows], y[rows]), X)


@pytest.mark.parametrize(
    "estimator",
    [RandomForestClassifier(10, random_state=0), make_pipeline(StandardScaler(), LogisticRegression())],
    ids=["forest", "pipeline"],
)
def test_other_classifiers_are_fitted_anew(estimator):
    X, y = moons(80)
    learner = ActiveLearner(estimator, "margin").start(X, first_of_each(y)).run(y, 10)
    assert len(learner.labels_) == 12
    assert learner.loo_accuracy_ is None
    assert not hasattr(estimator, "classes_")
    assert (learner.estimator_.predict(X) == y).mean() > 0.7


def test_a_start_without_labels_asks_at_random_until_two_classes_are_known():
    X, y = moons(60)
    learner = ActiveLearner(_model(), random_state=5).start(X)
    assert learner.estimator_ is None
    assert learner.loo_accuracy_ is None
    learner.run(y, 8)
    assert learner.estimator_ is not None
    assert learner.classes_ == [0, 1]
    other = ActiveLearner(_model(), random_state=6).start(X)
    assert {int(ActiveLearner(random_state=s).start(X).query()[0]) for s in range(9)} != {
        int(other.query()[0])
    }


def test_known_classes_make_a_model_from_one_label():
    X, y = moons(40)
    learner = ActiveLearner(_model()).start(X, {3: y[3]}, classes=[0, 1])
    assert learner.estimator_ is not None
    assert learner.query().size == 1


def test_a_new_class_joins():
    X, y = blobs(60)
    names = np.array(["a", "b", "c", "d"])[y]
    learner = ActiveLearner(_model()).start(X, {0: "a", 1: "b"})
    learner.tell([2, 6], ["c", "c"])
    assert learner.classes_ == ["a", "b", "c"]
    assert learner.estimator_.classes_.tolist() == ["a", "b", "c"]
    by_hand = _model().partial_fit(X[[0, 1, 2, 6]], names[[0, 1, 2, 6]], classes=["a", "b", "c"])
    _same(learner.estimator_, by_hand, X)
    learner.undo()
    assert learner.classes_ == ["a", "b"]
    assert learner.estimator_.classes_.tolist() == ["a", "b"]


def test_labels_may_be_an_array_with_gaps():
    X, y = moons(40)
    gaps = np.full(40, np.nan)
    gaps[[2, 5, 7]] = y[[2, 5, 7]]
    learner = ActiveLearner(_model()).start(X, gaps)
    assert sorted(learner.labelled_rows_) == [2, 5, 7]
    texts = np.array([None] * 40, dtype=object)
    texts[[1, 2]] = ["yes", "no"]
    assert ActiveLearner(_model()).start(X, texts).classes_ == ["no", "yes"]
    assert sorted(ActiveLearner(_model()).start(X, pd.Series(texts)).labelled_rows_) == [1, 2]
    listed = [float("nan"), "yes", "no", *[None] * 37]
    assert sorted(ActiveLearner(_model()).start(X, listed).labelled_rows_) == [1, 2]


def test_undo_gives_the_model_and_the_question_of_before():
    X, y = blobs(80)
    learner = ActiveLearner(_model()).start(X, first_of_each(y)).run(y, 7)
    proba, question = learner.estimator_.predict_proba(X), learner.query(3)
    history = len(learner.history_)
    learner.tell(question, y[question])
    assert learner.undo().tolist() == question.tolist()
    np.testing.assert_array_equal(learner.estimator_.predict_proba(X), proba)
    assert learner.query(3).tolist() == question.tolist()
    assert len(learner.history_) == history
    learner.skip(question[:1])
    assert learner.query()[0] != question[0]
    assert learner.undo().tolist() == question[:1].tolist()
    assert learner.query()[0] == question[0]


def test_undo_ends_at_the_start():
    X, y = moons(30)
    learner = ActiveLearner(_model()).start(X, first_of_each(y)).run(y, 2)
    assert [learner.undo().size for _ in range(4)] == [1, 1, 0, 0]
    assert len(learner.labelled_rows_) == 2


def test_a_skipped_row_may_be_told_and_untold():
    X, y = moons(30)
    learner = ActiveLearner(_model()).start(X, first_of_each(y))
    row = int(learner.query()[0])
    learner.skip(row)
    assert learner.skipped_rows_.tolist() == [row]
    learner.tell(row, y[row])
    assert learner.skipped_rows_.size == 0
    learner.undo()
    assert learner.skipped_rows_.tolist() == [row]
    assert learner.query()[0] != row


def test_the_pool_runs_out():
    X, y = moons(12)
    learner = ActiveLearner(_model(), batch_size=5).start(X, first_of_each(y)).run(y, 100)
    assert sorted(learner.labelled_rows_) == list(range(12))
    assert learner.query().size == 0


@pytest.mark.parametrize("kind", ["function", "array", "dict", "file"])
def test_labels_come_from_a_function_a_table_or_a_file(kind, tmp_path):
    X, y = moons(40)
    file = tmp_path / "labels.csv"
    pd.DataFrame({"row": np.arange(40), "label": y}).to_csv(file, index=False)
    oracle = {"function": lambda rows: y[rows], "array": y, "dict": dict(enumerate(y)), "file": file}[kind]
    learner = ActiveLearner(_model()).start(X, first_of_each(y)).run(oracle, 5)
    np.testing.assert_array_equal(learner.labels_, y[learner.labelled_rows_])
    assert len(learner.labels_) == 7


def test_what_an_oracle_does_not_know_is_skipped():
    X, y = moons(40)
    known = {row: label for row, label in enumerate(y) if row % 2}
    learner = ActiveLearner(_model(), batch_size=3).start(X, {1: y[1], 3: y[3]}, classes=[0, 1])
    learner.run(known, 12)
    assert len(learner.labels_) + len(learner.skipped_rows_) == 14
    assert (learner.skipped_rows_ % 2 == 0).all()
    assert learner.skipped_rows_.size


def test_saving_and_loading_gives_the_same_question(tmp_path):
    X, y = blobs(100)
    names = np.array(["süß", "b", "c", "d"])[y]
    learner = ActiveLearner(_model(), "bald", batch_size=2, random_state=3).start(X, first_of_each(names))
    learner.run(names, 14).skip([50, 51])
    learner.save(tmp_path / "state.json")
    again = ActiveLearner.load(tmp_path / "state.json", X, _model())
    _same(learner.estimator_, again.estimator_, X)
    assert again.query(4).tolist() == learner.query(4).tolist()
    assert again.history_ == learner.history_
    assert again.skipped_rows_.tolist() == [50, 51]
    learner.undo()
    again.undo()
    learner.undo()
    again.undo()
    _same(learner.estimator_, again.estimator_, X)
    assert again.query(4).tolist() == learner.query(4).tolist()


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    X, y = blobs(100)
    whole = ActiveLearner(_model()).start(X, first_of_each(y)).run(y, 20)
    file = tmp_path / "run.json"
    part = ActiveLearner(_model()).start(X, first_of_each(y))
    part.run(y, 20, checkpoint=file, on_round=lambda learner: len(learner.history_) < 9)
    assert len(part.history_) == 9
    rest = ActiveLearner(_model()).start(X, first_of_each(y)).run(y, 20, checkpoint=file)
    np.testing.assert_array_equal(rest.labelled_rows_, whole.labelled_rows_)
    _same(rest.estimator_, whole.estimator_, X)
    asked = []
    ActiveLearner(_model()).start(X).run(lambda rows: asked.append(rows), 20, checkpoint=file)
    assert not asked


# Slow; resumption from a checkpoint runs fast.
@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
def test_a_killed_run_loses_nothing(tmp_path):
    file = tmp_path / "run.json"
    program = (
        "import os, signal, sys\n"
        "from bayesvm import BayesianSVC\n"
        "from bayesvm.active import ActiveLearner\n"
        "from tests.active.problems import blobs, first_of_each\n"
        "X, y = blobs(100)\n"
        "def oracle(rows):\n"
        "    if os.environ.get('KILL') and len(learner.history_) == 5: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return y[rows]\n"
        "model = BayesianSVC(n_inducing=8, local=False, random_state=0)\n"
        "learner = ActiveLearner(model).start(X, first_of_each(y))\n"
        f"learner.run(oracle, 8, checkpoint={str(file)!r})\n"
        "print(*learner.labelled_rows_)"
    )
    command = [sys.executable, "-c", program]
    killed = subprocess.run(command, env={**os.environ, "KILL": "1"}, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert len(json.loads(file.read_text())["events"]) == 6
    rest = subprocess.run(command, capture_output=True, text=True, check=True)
    X, y = blobs(100)
    whole = ActiveLearner(_model()).start(X, first_of_each(y)).run(y, 8)
    assert rest.stdout.split() == [str(row) for row in whole.labelled_rows_]


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    X, y = moons(30)
    file = tmp_path / "run.json"
    ActiveLearner(_model()).start(X, first_of_each(y)).run(y, 2, checkpoint=file)
    with pytest.raises(ValueError, match="another pool"):
        ActiveLearner(_model()).start(X + 1, first_of_each(y)).run(y, 2, checkpoint=file)
    with pytest.raises(ValueError, match="'policy': 'variation_ratio'"):
        ActiveLearner(_model(), "margin").start(X, first_of_each(y)).run(y, 2, checkpoint=file)
    with pytest.raises(ValueError, match=r"was written with BayesianSVC.*, not LogisticRegression"):
        ActiveLearner(LogisticRegression()).start(X, first_of_each(y)).run(y, 2, checkpoint=file)
    file.write_text("{}")
    with pytest.raises(ValueError, match="was not written by ActiveLearner"):
        ActiveLearner.load(file, X)


def test_a_data_frame_goes_through_an_encoder():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"colour": rng.choice(["red", "green", "blue"], 60), "size": rng.choice(["S", "L"], 60)}
    )
    y = (frame["colour"] == "red").to_numpy()
    encoder = OneHotEncoder(sparse_output=False)
    learner = ActiveLearner(_model(), encoder=encoder).start(frame, first_of_each(y)).run(y, 10)
    assert (learner.estimator_.predict(encoder.transform(frame)) == y).all()


def test_a_data_frame_may_go_to_a_pipeline_as_it_is(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"colour": rng.choice(["red", "green", "blue"], 60)}, index=np.arange(60)[::-1])
    y = (frame["colour"] == "red").to_numpy()
    pipeline = make_pipeline(OneHotEncoder(sparse_output=False, handle_unknown="ignore"), _model())
    learner = ActiveLearner(pipeline).start(frame, first_of_each(y)).run(y, 30)
    assert (learner.estimator_.predict(frame) == y).all()
    learner.save(tmp_path / "state.json")
    again = ActiveLearner.load(tmp_path / "state.json", frame, pipeline)
    assert again.query(3).tolist() == learner.query(3).tolist()


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda learner, y: learner.tell(0, 1), "has a label already"),
        (lambda learner, y: learner.tell(99, 1), "not in the pool"),
        (lambda learner, y: learner.tell([5, 5], [1, 1]), "twice"),
        (lambda learner, y: learner.tell([5, 6], [1]), "1 labels for 2 rows"),
        (lambda learner, y: learner.tell([], []), "no labels"),
        (lambda learner, y: learner.tell(5, None), "use skip"),
        (lambda learner, y: learner.tell(5, float("nan")), "use skip"),
        (lambda learner, y: learner.tell(5, "text"), "different kinds"),
        (lambda learner, y: learner.tell(5, [[1]]), "use text"),
        (lambda learner, y: learner.skip(99), "not in the pool"),
        (lambda learner, y: learner.query(0), "at least one"),
        (lambda learner, y: learner.run(y[:5], 2), "give one per row"),
        (lambda learner, y: learner.run(lambda rows: [], 2), "0 labels for 1 rows"),
    ],
)
def test_nonsense_changes_nothing(act, words):
    X, y = moons(30)
    learner = ActiveLearner(_model()).start(X, {0: 0, 1: 1}, classes=[0, 1])
    proba = learner.estimator_.predict_proba(X)
    with pytest.raises((TypeError, ValueError), match=words):
        act(learner, y)
    assert learner.labelled_rows_.tolist() == [0, 1]
    np.testing.assert_array_equal(learner.estimator_.predict_proba(X), proba)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="'margin'"):
        ActiveLearner(policy="best")
    with pytest.raises(ValueError, match="batch_size"):
        ActiveLearner(batch_size=0)
    with pytest.raises(RuntimeError, match="start"):
        ActiveLearner().query()
    with pytest.raises(ValueError, match="one row per thing"):
        ActiveLearner().start(np.arange(3.0))
    with pytest.raises(ValueError, match="not in the pool"):
        ActiveLearner().start(np.zeros((3, 2)), {7: 1})


# Slow; what each policy asks for is tested fast.
@pytest.mark.slow
def test_variation_ratio_needs_fewer_labels_than_chance():
    """Two classes that meet along a line: labels far from it are wasted."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 2))
    y = (X[:, 0] + 0.3 * X[:, 1] > 0.2).astype(int)
    errors = {}
    for policy in ("variation_ratio", "random"):
        error = []
        for seed in range(3):
            learner = ActiveLearner(_model(), policy, random_state=seed).start(X, first_of_each(y)).run(y, 20)
            error.append((learner.estimator_.predict(X) != y).mean())
        errors[policy] = np.mean(error)
    assert errors["variation_ratio"] < 0.7 * errors["random"]


def test_a_start_that_failed_is_no_start():
    X, y = blobs(30)
    learner = ActiveLearner(_model())
    with pytest.raises(ValueError, match="row 500 is not in the pool"):
        learner.start(X, {500: 1})
    with pytest.raises(RuntimeError, match="comes first"):
        learner.query()
    learner.start(X, first_of_each(y))
    row = learner.query()
    learner.tell(row, np.array(int(y[row[0]])))  # a label alone may be an array without axes
    assert learner.labels_[-1] == y[row[0]]


def test_files_that_cannot_be_read_say_so(tmp_path):
    X, y = blobs(30)
    (tmp_path / "half.json").write_text('{"format": 2}')
    with pytest.raises(ValueError, match="is an incomplete file"):
        ActiveLearner.load(tmp_path / "half.json", X)
    file, learner = tmp_path / "labels.csv", ActiveLearner(_model()).start(X, first_of_each(y))
    for content, message in (
        ("number,label\n1,2\n", "columns row and label"),
        ("row,label\nfirst,1\n", "'first'; give whole numbers from 0"),
    ):
        file.write_text(content)
        with pytest.raises(ValueError, match=message):
            learner.run(file, 1)
