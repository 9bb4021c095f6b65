"""Our policies in scikit-activeml's loops, and our classifier in its strategies."""

import inspect
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesvm import BayesianSVC
from bayesvm.active._rules import RULES
from bayesvm.active._scores import vote_scores
from tests.active.problems import blobs, moons

pytest.importorskip("skactiveml")
from skactiveml.base import SingleAnnotatorPoolQueryStrategy
from skactiveml.classifier import SklearnClassifier
from skactiveml.pool import (
    BatchBALD,
    EpistemicUncertaintySampling,
    GreedyBALD,
    QueryByCommittee,
    RandomSampling,
    SubSamplingWrapper,
    UncertaintySampling,
)
from skactiveml.utils import MISSING_LABEL, call_func

from bayesvm.active._policies import POLICIES, Margin, PredictiveEntropy, VariationRatio

FAST = {"hyperparameters": "fixed", "local": False, "random_state": 0}


def _some_labels(y, n=20):
    seen = np.full(len(y), MISSING_LABEL)
    seen[:n] = y[:n]
    return seen


@pytest.fixture(scope="module")
def problem():
    X, y = blobs(80)
    return X, _some_labels(y), SklearnClassifier(BayesianSVC(**FAST), classes=np.unique(y))


@pytest.mark.parametrize("name", POLICIES)
class TestEveryPolicy:
    """What scikit-activeml's own test template asks of a strategy."""

    def test_has_the_signature(self, name):
        policy = POLICIES[name]
        assert issubclass(policy, SingleAnnotatorPoolQueryStrategy)
        theirs = inspect.signature(EpistemicUncertaintySampling.query)
        ours = inspect.signature(policy.query)
        assert list(ours.parameters) == list(theirs.parameters)
        for parameter, other in zip(ours.parameters.values(), theirs.parameters.values(), strict=True):
            assert parameter.default == other.default
        assert set(policy().get_params()) == {"missing_label", "random_state"}
        assert clone(policy(random_state=3)).random_state == 3

    def test_shapes_and_missing_utilities(self, name, problem):
        X, y, clf = problem
        before = clf.get_params()
        rows, utilities = POLICIES[name](random_state=0).query(X, y, clf, batch_size=4, return_utilities=True)
        assert rows.shape == (4,)
        assert len(set(rows)) == 4
        assert np.isnan(y[rows]).all()
        assert utilities.shape == (4, len(X))
        assert np.isnan(utilities[:, :20]).all()
        for b in range(4):
            assert np.isnan(utilities[b, rows[:b]]).all()
            assert np.isfinite(np.delete(utilities[b, 20:], rows[:b] - 20)).all()
            assert utilities[b, rows[b]] == np.nanmax(utilities[b])
        assert str(clf.get_params()) == str(before)
        assert not hasattr(clf, "estimator_")

    def test_the_same_rows_with_and_without_utilities(self, name, problem):
        X, y, clf = problem
        policy = POLICIES[name](random_state=1)
        with_them = policy.query(X, y, clf, batch_size=3, return_utilities=True)[0]
        np.testing.assert_array_equal(policy.query(X, y, clf, batch_size=3), with_them)
        np.testing.assert_array_equal(policy.query(X, y, clf, batch_size=3), with_them)

    def test_candidates_by_position_and_by_value(self, name, problem):
        X, y, clf = problem
        policy = POLICIES[name](random_state=0)
        positions = np.array([31, 45, 60, 70])
        rows, utilities = policy.query(X, y, clf, candidates=positions, batch_size=2, return_utilities=True)
        assert set(rows) <= set(positions)
        assert np.isnan(np.delete(utilities[0], positions)).all()
        found, worth = policy.query(X, y, clf, candidates=X[positions], batch_size=2, return_utilities=True)
        np.testing.assert_array_equal(positions[found], rows)
        assert worth.shape == (2, 4)
        np.testing.assert_allclose(worth[0], utilities[0, positions], rtol=1e-9)

    def test_a_fitted_classifier_is_taken_as_it_is(self, name, problem):
        X, y, clf = problem
        fitted = clone(clf).fit(X, y)
        policy = POLICIES[name](random_state=0)
        np.testing.assert_array_equal(
            policy.query(X, y, fitted, fit_clf=False, batch_size=2), policy.query(X, y, clf, batch_size=2)
        )

    def test_more_than_there_is_comes_with_a_warning(self, name, problem):
        X, y, clf = problem
        with pytest.warns(UserWarning, match="larger than number of"):
            rows = POLICIES[name](random_state=0).query(X, y, clf, candidates=[40, 41], batch_size=5)
        assert sorted(rows) == [40, 41]

    def test_a_pool_without_labels_is_asked_at_random(self, name, problem):
        X, _, clf = problem
        asked = set()
        for seed in range(8):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # scikit-activeml says that it cannot fit
                rows = POLICIES[name](random_state=seed).query(X, np.full(len(X), np.nan), clf)
            asked.add(int(rows[0]))
        assert len(asked) > 3

    def test_weights_reach_the_classifier(self, name, problem):
        X, y, clf = problem
        policy = POLICIES[name](random_state=0)
        weight = np.ones(len(X))
        np.testing.assert_array_equal(policy.query(X, y, clf, sample_weight=weight), policy.query(X, y, clf))

    @pytest.mark.parametrize(
        "wrong",
        [
            {"fit_clf": "yes"},
            {"batch_size": 0},
            {"batch_size": 1.5},
            {"candidates": [1000]},
            {"clf": "a string"},
            {"return_utilities": None},
        ],
        ids=lambda d: next(iter(d)),
    )
    def test_nonsense_is_refused(self, name, problem, wrong):
        X, y, clf = problem
        with pytest.raises((TypeError, ValueError)):
            POLICIES[name]().query(**{"X": X, "y": y, "clf": clf, **wrong})

    def test_it_drops_into_their_loop_and_their_wrapper(self, name, problem):
        X, _, clf = problem
        _, truth = blobs(80)
        y = _some_labels(truth, 8)
        policy = SubSamplingWrapper(POLICIES[name](random_state=0), max_candidates=30, random_state=0)
        for strategy in (POLICIES[name](random_state=0), policy):
            labels = y.copy()
            for _ in range(3):
                rows = call_func(strategy.query, X=X, y=labels, clf=clf)
                labels[rows] = truth[rows]
            assert (~np.isnan(labels)).sum() == 11


def test_names_are_those_of_the_rules():
    assert list(POLICIES) == list(RULES)


def test_variation_ratio_is_the_classifiers_own(problem):
    X, y, clf = problem
    _, utilities = VariationRatio().query(X, y, clf, return_utilities=True)
    model = BayesianSVC(**FAST).fit(X[:20], y[:20])
    np.testing.assert_allclose(utilities[0, 20:], model.variation_ratio(X[20:]), rtol=1e-9)


def test_ties_are_broken_alike_with_and_without_utilities():
    X, y = moons(60)
    X = np.concatenate([X, X])  # every row has a twin
    y = _some_labels(np.concatenate([y, y]), 10)
    clf = BayesianSVC(random_state=0)
    chosen = [VariationRatio(random_state=s).query(X, y, clf) for s in range(6)]
    told = [VariationRatio(random_state=s).query(X, y, clf, return_utilities=True)[0] for s in range(6)]
    assert chosen == told
    assert len({int(c[0]) for c in chosen}) == 2


@pytest.mark.parametrize(
    ("policy", "theirs"),
    [(Margin, "margin_sampling"), (PredictiveEntropy, "entropy")],
    ids=["margin", "entropy"],
)
def test_margin_and_entropy_are_theirs_up_to_a_constant(policy, theirs, problem):
    X, y, clf = problem
    rows, ours = policy(random_state=0).query(X, y, clf, batch_size=5, return_utilities=True)
    same, other = UncertaintySampling(method=theirs, random_state=0).query(
        X, y, clf, batch_size=5, return_utilities=True
    )
    np.testing.assert_array_equal(rows, same)
    difference = (ours - other)[0, 20:]
    np.testing.assert_allclose(difference, difference[0], atol=1e-9)


@pytest.mark.parametrize("name", ["variation_ratio", "margin", "entropy", "bald", "random"])
def test_other_classifiers_and_pipelines_are_welcome(name):
    X, y = moons(60)
    seen = _some_labels(y)
    forest = RandomForestClassifier(10, random_state=0)
    ours = make_pipeline(StandardScaler(), BayesianSVC(**FAST))
    for clf in (forest, SklearnClassifier(forest, classes=[0, 1]), ours, BayesianSVC(**FAST)):
        rows = POLICIES[name](random_state=0).query(X, seen, clf, batch_size=2)
        assert (rows >= 20).all()


def test_a_forest_disagrees_by_votes():
    X, y = moons(60)
    forest = RandomForestClassifier(10, random_state=0).fit(X[:20], y[:20])
    _, utilities = VariationRatio().query(X, _some_labels(y), forest, fit_clf=False, return_utilities=True)
    votes = vote_scores([tree.predict_proba(X[20:]) for tree in forest.estimators_])
    np.testing.assert_allclose(utilities[0, 20:], votes)


def test_labels_may_be_text():
    X, y = moons(60)
    names = np.array(["left", "right"], dtype=object)[y]
    names[20:] = None
    clf = SklearnClassifier(BayesianSVC(**FAST), classes=["left", "right"], missing_label=None)
    rows = VariationRatio(missing_label=None, random_state=0).query(X, names, clf)
    assert rows[0] >= 20


@pytest.mark.parametrize(
    ("name", "clf", "words"),
    [
        ("variation_ratio", LogisticRegression(), "'margin' or 'entropy'"),
        ("bald", LogisticRegression(), "'margin' or 'entropy'"),
        ("softmax_entropy", LogisticRegression(), "'entropy'"),
        ("batch", RandomForestClassifier(5), "posterior covariance"),
        ("margin", SVC(), "CalibratedClassifierCV"),
    ],
)
def test_what_a_policy_lacks_is_said(name, clf, words):
    X, y = moons(40)
    with pytest.raises(TypeError, match=words):
        POLICIES[name]().query(X, _some_labels(y), clf)


def test_rows_without_labels_and_a_plain_classifier_are_refused_in_words():
    X, _ = moons(40)
    with pytest.raises(ValueError, match="label some rows first"):
        Margin().query(X, np.full(40, np.nan), LogisticRegression())


def test_a_fully_labelled_pool_is_refused_in_words():
    X, y = moons(40)
    with (
        pytest.warns(UserWarning, match="larger than number of"),
        pytest.raises(ValueError, match="all have labels"),
    ):
        Margin().query(X, y.astype(float), LogisticRegression())


class TestOurClassifierInTheirStrategies:
    """Through scikit-activeml's wrapper, unchanged."""

    def test_uncertainty_sampling(self, problem):
        X, y, clf = problem
        for method in ("least_confident", "margin_sampling", "entropy"):
            rows = UncertaintySampling(method=method, random_state=0).query(X, y, clf, batch_size=3)
            assert (rows >= 20).all()

    def test_committee_of_draws_gives_the_papers_ratio(self, problem):
        """Votes of draws of the posterior: the paper's 1 - F/S. Our policy is its limit."""
        X, y, clf = problem
        committee = QueryByCommittee(
            method="variation_ratios",
            sample_predictions_method_name="sample_proba",
            sample_predictions_dict={"n_samples": 4000, "random_state": 0},
            random_state=0,
        )
        _, theirs = committee.query(X, y, clf, return_utilities=True)
        draws = BayesianSVC(**FAST).fit(X[:20], y[:20]).sample_proba(X[20:], n_samples=4000, random_state=0)
        np.testing.assert_allclose(theirs[0, 20:], vote_scores(draws), atol=1e-12)

    @pytest.mark.parametrize("strategy", [GreedyBALD, BatchBALD])
    def test_bald_through_sample_proba(self, strategy, problem):
        X, y, clf = problem
        bald = strategy(
            sample_predictions_method_name="sample_proba",
            sample_predictions_dict={"n_samples": 1000, "random_state": 0},
            random_state=0,
        )
        rows, theirs = bald.query(X, y, clf, batch_size=2, return_utilities=True)
        assert (rows >= 20).all()
        _, ours = POLICIES["bald"]().query(X, y, clf, return_utilities=True)
        # 1000 draws against nodes of a quadrature
        assert np.corrcoef(theirs[0, 20:], ours[0, 20:])[0, 1] > 0.98

    def test_a_committee_of_classifiers(self, problem):
        X, y, _ = problem
        members = [
            SklearnClassifier(BayesianSVC(**{**FAST, "kernel": kernel}), classes=np.arange(4))
            for kernel in ("rbf", "linear")
        ]
        rows = QueryByCommittee(random_state=0).query(X, y, members)
        assert rows[0] >= 20

    def test_random_sampling_loop_with_partial_fit(self, problem):
        X, y, clf = problem
        _, truth = blobs(80)
        model, labels = clone(clf), y.copy()
        model.partial_fit(X[:20], labels[:20])
        for _ in range(3):
            rows = RandomSampling(random_state=0).query(X, labels)
            labels[rows] = truth[rows]
            model.partial_fit(X[rows], labels[rows])
        assert model.is_fitted_
        assert (model.predict(X) == truth).mean() > 0.7


def test_without_scikit_activeml_the_extra_is_named():
    program = (
        "import sys; sys.modules['skactiveml'] = None\n"
        "from bayesvm.active import ActiveLearner, Labelling\n"
        "try:\n    from bayesvm.active import Margin\n"
        "except ImportError as error: print(error)"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "bayesvm[active]" in out.stdout
