"""Printed progress, scikit-learn's callbacks, and Ctrl-C."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV

from bayesvm import BayesianSVC

from .data import FAST, assert_sound, three_blobs

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")


class Recorder:
    """Counts tasks; stops or raises in chosen stages."""

    def __init__(self, stop=(), interrupt=(), at=1):
        self.stop, self.interrupt, self.at = stop, interrupt, at
        self.begun, self.ended, self.hooks, self.final = [], [], [], None

    def setup(self, estimator, context):
        self.hooks.append("setup")

    def teardown(self, estimator, context):
        self.hooks.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.begun.append(context.task_name)

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.ended.append(context.task_name)
        if context.parent is None:
            self.final = fitted_estimator.predict(X)
        if context.task_name in self.interrupt and self.ended.count(context.task_name) == self.at:
            raise KeyboardInterrupt
        return context.task_name in self.stop


def test_callbacks_hear_every_step():
    X, y = three_blobs()
    recorder = Recorder()
    model = BayesianSVC(random_state=0).set_callbacks(recorder).fit(X, y)
    assert recorder.hooks == ["setup", "teardown"]
    assert recorder.begun[0] == recorder.ended[-1] == "fit"
    assert sorted(recorder.begun) == sorted(recorder.ended)
    assert recorder.ended.count("kernel") == len(model.kernel_curve_)
    assert "posterior" in recorder.ended
    assert np.array_equal(recorder.final, model.predict(X))


@pytest.mark.parametrize("max_iter", [3, 100])
@pytest.mark.parametrize("inference", ["coordinate", "natural", "adam"])
def test_callbacks_with_any_number_of_steps(inference, max_iter):
    X, y = three_blobs(30)
    recorder = Recorder()
    options = {"kernel": "rbf", "max_iter": max_iter, "tol": 0.0, "batch_size": 15, **FAST}
    model = BayesianSVC(inference=inference, **options)
    model.set_callbacks(recorder).fit(X, y)
    # Exact steps that would lower the bound are tried again and not reported.
    assert 0 < len(recorder.ended) - 1 <= max_iter


# Slow; callbacks of fit run fast.
@pytest.mark.slow
def test_callbacks_in_partial_fit():
    X, y = three_blobs()
    recorder = Recorder()
    model = BayesianSVC(max_iter=150, tol=0.0, **FAST).set_callbacks(recorder)
    model.partial_fit(X[:50], y[:50], classes=[0, 1, 2])
    model.partial_fit(X[50:], y[50:])
    assert recorder.hooks == ["setup", "teardown"] * 2
    assert recorder.ended.count("fit") == 2
    assert not hasattr(model, "_callback_fit_ctx")
    pickle.dumps(model.set_callbacks())


def test_callback_may_stop_the_fit():
    X, y = three_blobs()
    recorder = Recorder(stop=("kernel", "posterior"))
    model = BayesianSVC(tol=1e-9, random_state=0).set_callbacks(recorder).fit(X, y)  # asked for: no warning
    assert recorder.ended == ["kernel", "posterior", "fit"]
    assert not model.converged_
    assert_sound(model, X)


class Snapshots:
    """Keeps what the fit would be if it ended at each step, and ends it after some."""

    def __init__(self, last=None):
        self.last, self.taken = last, []

    def setup(self, estimator, context):
        pass

    teardown = on_fit_task_begin = setup

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.parent is not None:
            self.taken.append((context.task_name, fitted_estimator))
            return self.last is not None and len(self.taken) >= self.last
        return False


@pytest.mark.parametrize(
    "settings",
    [
        {"rivals": "exact"},
        {"rivals": "sampled"},
        {"inference": "natural", "batch_size": 40},
        {"inference": "adam", "kernel": "rbf", "batch_size": 40, "max_iter": 8},
        {"learn_inducing": True, "n_inducing": 9},
    ],
    ids=str,
)
@pytest.mark.parametrize("last", [3, 27])
def test_estimator_handed_to_callbacks_is_the_fit_that_ends_there(settings, last):
    X, y = three_blobs()
    snapshots = Snapshots()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # ten sweeps may not suffice
        BayesianSVC(**{"tol": 1e-9, "max_iter": 10, "random_state": 0, **settings}).set_callbacks(
            snapshots
        ).fit(X, y)
    last = min(last, len(snapshots.taken))
    stage, taken = snapshots.taken[last - 1]
    if stage == "kernel":  # such a fit still makes one sweep, without burn-in
        settings = {**settings, "max_iter": 1}
    model = BayesianSVC(**{"tol": 1e-9, "max_iter": 10, "random_state": 0, **settings})
    model.set_callbacks(Snapshots(last)).fit(X, y)
    np.testing.assert_allclose(taken.predict_proba(X), model.predict_proba(X), atol=1e-12)
    assert taken.loo_log_loss_ == pytest.approx(model.loo_log_loss_)
    assert taken.kernel_curve_.tolist() == model.kernel_curve_.tolist()


def test_scores_of_every_step():
    X, y = three_blobs()
    monitor = callback.ScoringMonitor(scoring="neg_log_loss")
    model = BayesianSVC(random_state=0).set_callbacks(monitor).fit(X, y)
    log = monitor.get_logs().data
    steps = [r["neg_log_loss"] for r in log if r["task_name"] == "kernel"]
    assert len(steps) == len(model.kernel_curve_)
    assert len(set(steps)) > 1
    (whole,) = (r["neg_log_loss"] for r in log if r["task_name"] == "fit")
    assert -whole == pytest.approx(log_loss(y, model.predict_proba(X)))


def test_progress_bar(capsys):
    pytest.importorskip("rich", reason="scikit-learn's ProgressBar draws with rich")
    X, y = three_blobs()
    BayesianSVC(random_state=0).set_callbacks(callback.ProgressBar()).fit(X, y)
    search = GridSearchCV(BayesianSVC(**FAST), {"n_inducing": [5, 10]}, cv=2)
    search.set_callbacks(callback.ProgressBar()).fit(X, y)
    assert "BayesianSVC" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("stage", "settings"),
    [
        ("kernel", {}),
        ("posterior", {"rivals": "exact"}),
        ("posterior", {"rivals": "sampled"}),
        ("posterior", {"rivals": "mean", "hyperparameters": "fixed"}),
        ("posterior", {"inference": "natural", "batch_size": 20}),
        ("adam", {"inference": "adam", "kernel": "rbf", "batch_size": 20}),
    ],
)
@pytest.mark.parametrize("at", [1, 3])
def test_ctrl_c_leaves_a_usable_model(stage, settings, at):
    X, y = three_blobs()
    model = BayesianSVC(tol=1e-9, random_state=0, **settings)
    model.set_callbacks(Recorder(interrupt=(stage,), at=at))
    with pytest.warns(ConvergenceWarning, match="interrupted.*best"):
        model.fit(X, y)
    assert_sound(model, X)
    assert model.interrupted_
    assert not model.converged_ or stage == "kernel"


def test_ctrl_c_in_partial_fit():
    X, y = three_blobs()
    model = BayesianSVC(**FAST).partial_fit(X[:50], y[:50], classes=[0, 1, 2])
    model.set_params(tol=1e-9).set_callbacks(Recorder(interrupt=("posterior",)))
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.partial_fit(X[50:], y[50:])
    assert_sound(model, X)


@pytest.mark.parametrize("settings", [{}, {"hyperparameters": "fixed", "tol": 1e-4}])
def test_verbose_prints(settings, capsys):
    X, y = three_blobs()
    BayesianSVC(verbose=1, random_state=0, **settings).fit(X, y)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "posterior" in captured.err
    assert ("kernel" in captured.err) == (not settings)
    assert captured.err.endswith("\n")
    BayesianSVC(random_state=0, **settings).fit(X, y)
    assert capsys.readouterr().err == ""
