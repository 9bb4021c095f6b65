"""Which fits a run consists of."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.datasets import load_iris

from bayesvm import BayesianSVC, BinaryBayesianSVC
from bayesvm_studies.structured import StructuredSettings
from bayesvm_studies.structured.contestants import contestants, missing, split_rows, splits_of, versions_of
from bayesvm_studies.structured.measure import build
from bayesvm_studies.structured.one_vs_rest import PROCESSES, IndependentOneVsRest
from bayesvm_studies.structured.plan import chosen_sets, make_plan


def test_sets_by_word_and_by_name():
    assert len(chosen_sets("all", "paper")) == 68
    assert len(chosen_sets("all", "olson")) == 67  # without poker
    small = chosen_sets("small", "olson")
    assert max(s.rows for s in small) <= 1500
    assert len(small) == 32
    assert [s.name for s in chosen_sets("vowel, iris,iris", "olson")] == ["iris", "vowel"]
    assert [s.name for s in chosen_sets("poker", "olson")] == ["poker"]
    with pytest.raises(ValueError, match="no set 'irs'; did you mean 'iris'"):
        chosen_sets("irs", "olson")
    for nothing in ("", " , "):
        with pytest.raises(ValueError, match="names no set"):
            chosen_sets(nothing, "olson")


def test_splits_of_the_protocols():
    assert splits_of("olson") == list(range(10))
    assert splits_of("olson", 3) == [0, 1, 2]
    assert splits_of("paper", 3) == [2018]
    with pytest.raises(ValueError, match="folds 11"):
        splits_of("olson", 11)
    with pytest.raises(ValueError, match="'other' is not known"):
        splits_of("other")


def test_ten_folds_cover_every_row_once():
    y = np.repeat([0.0, 1.0, 2.0], [97, 40, 3])
    tests = [split_rows("olson", y, k)[1] for k in range(10)]
    assert sorted(np.concatenate(tests).tolist()) == list(range(140))
    for k in range(10):
        train, test = split_rows("olson", y, k)
        assert set(train) | set(test) == set(range(140))
        assert not set(train) & set(test)


def test_the_papers_split_is_stratified_and_leaves_single_rows_out():
    y = np.repeat([0.0, 1.0, 2.0], [80, 40, 1])
    train, test = split_rows("paper", y, 2018)
    assert set(train) | set(test) == set(range(120))
    assert np.bincount(y[test].astype(int)).tolist() == [20, 10]
    again = split_rows("paper", y, 2018)
    assert (train == again[0]).all()


def made(data, **settings):
    return make_plan(StructuredSettings(**{"protocol": "olson", "subset": "iris", **settings}), data)


def test_a_plan(sets):
    plan = made(sets, models="bayesvm,random_forest", folds=2)
    assert [(t.split, t.model) for t in plan.tasks] == [
        *[(0, "bayesvm"), (0, "random_forest")],
        *[(1, "bayesvm"), (1, "random_forest")],
    ]
    ours, theirs = plan.tasks[:2]
    assert (ours.timeout, theirs.timeout) == (None, 600.0)
    assert {"bayesvm", "torch"} <= set(ours.versions)
    assert set(theirs.versions) == {"numpy", "scikit-learn"}
    for given, meant in ((5.0, 5.0), (0.0, None)):
        plan = made(sets, models="bayesvm", timeout=given)
        assert plan.tasks[0].timeout == meant


def test_device_and_epochs_are_part_of_the_key(sets, monkeypatch):
    monkeypatch.setattr("bayesvm_studies.structured.plan.check_device", lambda device: None)
    plain, gpu, short = (
        made(sets, protocol="paper", models="multi_class,default", **more).tasks
        for more in ({}, {"device": "cuda"}, {"shorten": ("iris=20",)})
    )
    assert len({t[0].key for t in (plain, gpu, short)}) == 3
    assert gpu[0].config["arguments"]["device"] == "cuda"
    assert short[0].config["arguments"]["max_iter"] == 20
    assert short[0].config["shortened"] is True
    assert short[1] == plain[1]  # the default has no epochs to shorten
    assert "shortened" not in plain[0].config


def test_the_recipe_is_that_of_the_estimator():
    model = build(contestants("paper")["multi_class"].config())
    expected = BayesianSVC.paper(random_state=0).set_params(committee=True)  # Adam fits the hinge alone
    assert model.get_params() == expected.get_params()


def test_what_is_not_installed_is_told(monkeypatch):
    contestant = contestants("olson")["lightgbm"]
    monkeypatch.setattr(
        "bayesvm_studies.structured.contestants.find_spec", lambda name: name != "lightgbm" or None
    )
    assert missing(contestant) == "lightgbm is not installed: pip install lightgbm"


def test_adapters_count_by_their_content():
    versions = versions_of(contestants("olson")["svc_grid"])
    assert len(versions["bayesvm.experiments.tuned_svc"]) == 8


@pytest.mark.parametrize(
    ("protocol", "name"),
    [("olson", n) for n in ("svc_grid", "random_forest", "hist_gradient_boosting", "lightgbm")]
    + [("olson", "logistic_regression"), ("olson", "gpytorch_svgp"), ("paper", "one_vs_rest")],
)
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # gpytorch's
def test_every_model_classifies(protocol, name):
    contestant = contestants(protocol)[name]
    if missing(contestant):
        pytest.skip(missing(contestant))
    short = {key: 60 for key in ("max_iter", "steps") if key in contestant.arguments}
    rate = {"learning_rate": 0.1} if name == "one_vs_rest" else {}
    X, y = load_iris(return_X_y=True)
    labels = np.array([3.0, 5.0, 8.0])[y]
    model = build(contestant.config(), **short, **rate).fit(X[::2], labels[::2])
    proba = model.predict_proba(X[1::2])
    assert model.classes_.tolist() == [3.0, 5.0, 8.0]
    np.testing.assert_allclose(proba.sum(1), 1.0, atol=1e-5)
    assert (model.classes_[proba.argmax(1)] == labels[1::2]).mean() > 0.9


def test_one_vs_rest_is_timed_class_by_class():
    X, y = load_iris(return_X_y=True)
    model = build(contestants("paper")["one_vs_rest"].config(), max_iter=3).fit(X, y)
    assert len(model.details_["class_s"]) == 3
    assert model.fit_seconds_ == pytest.approx(sum(model.details_["class_s"]), abs=1e-3)
    two = build(contestants("paper")["one_vs_rest"].config(), max_iter=3).fit(X[:100], y[:100])
    assert len(two.models_) == 1
    assert two.predict_proba(X[:5]).shape == (5, 2)


def test_the_search_keeps_rare_classes():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [400, 300, 3])
    X = rng.standard_normal((703, 3)) + y[:, None]
    model = build(contestants("olson")["svc_grid"].config(), search_rows=100)
    chosen = model._sample(y)
    assert np.bincount(y[chosen])[2] == 3
    assert len(chosen) == 100
    assert model.fit(X, y).predict_proba(X[:4]).shape == (4, 3)
    assert set(model.details_["chosen"]) == {"C", "gamma"}


ARGUMENTS = {"kernel": "rbf", "n_inducing": 8, "max_iter": 5, "random_state": 0}


def test_every_class_has_the_binary_model_it_would_have_alone():
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    model = IndependentOneVsRest(**ARGUMENTS).fit(X, y)
    alone = [BinaryBayesianSVC(**ARGUMENTS).fit(X, y == c).predict_proba(X)[:, 1] for c in range(3)]
    expected = np.stack(alone, 1)
    np.testing.assert_allclose(model.predict_proba(X), expected / expected.sum(1, keepdims=True))


# Threads in their place take the same way; the slow run starts them.
@pytest.mark.parametrize("started", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_processes_change_the_clock_only(monkeypatch, started):
    if not started:
        threads = lambda n, _, *prepare: ThreadPoolExecutor(n, "", *prepare)  # noqa: E731
        monkeypatch.setattr("bayesvm_studies.structured.one_vs_rest.ProcessPoolExecutor", threads)
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    one = IndependentOneVsRest(**ARGUMENTS).fit(X, y)
    monkeypatch.setenv(PROCESSES, "2")
    two = IndependentOneVsRest(**ARGUMENTS).fit(X, y)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=1e-9)
    assert len(two.details_["class_s"]) == 3
    assert two.fit_seconds_ > 0
