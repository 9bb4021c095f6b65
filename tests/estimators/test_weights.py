"""Weight two counts twice in the posterior, weight zero removes the row, order does not matter."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from bayesvm import BayesianSVC, RepeatedRowsWarning

from .data import problem

RIVALS = ["exact", "sampled", "mean"]
SETTINGS = [
    {"rivals": "exact"},
    {"rivals": "sampled"},
    {"rivals": "mean"},
    {"inference": "natural", "batch_size": 16, "tol": 0.1},
    {"inference": "adam", "batch_size": 16, "max_iter": 15, "tol": 0.0, "learning_rate": 0.05},
    {"dtype": "float32", "hyperparameters": "fixed"},
    {"hyperparameters": "loo", "learn_inducing": True},
    {"class_weight": "balanced"},
]


def make(**settings):
    return BayesianSVC(n_inducing=12, random_state=3, **settings)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_weights_count_copies_in_any_order(n_classes, settings):
    """Of rows known to be copies leave-one-out leaves out all, as it does of a weight."""
    X, y = problem(n_classes, 60)
    rng = np.random.default_rng(0)
    times = rng.integers(0, 3, len(y))
    weighted = make(**settings).fit(X, y, sample_weight=times)
    rows = rng.permutation(np.repeat(np.arange(len(y)), times))
    with pytest.warns(RepeatedRowsWarning):
        repeated = make(**settings).fit(X[rows], y[rows])
    tolerance = 1e-4 if settings.get("dtype") == "float32" else 1e-7
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=tolerance)
    assert_allclose(weighted.loo_proba_[rows], repeated.loo_proba_, atol=tolerance)
    assert weighted.loo_score_ == pytest.approx(repeated.loo_score_)
    assert weighted.loo_log_loss_ == pytest.approx(repeated.loo_log_loss_, abs=tolerance)
    assert weighted.temperature_ == repeated.temperature_


@pytest.mark.parametrize("rivals", RIVALS)
@pytest.mark.parametrize("hyperparameters", ["fixed", "elbo"])
def test_the_posterior_does_not_tell_weights_from_repeated_rows_and_leave_one_out_does(
    rivals, hyperparameters
):
    rng = np.random.default_rng(0)
    X, times = rng.integers(0, 3, size=(60, 3)).astype(float), rng.integers(1, 4, 60)
    y = rng.permutation(60) % 3
    rows = rng.permutation(np.repeat(np.arange(60), times))
    weighted = make(rivals=rivals, hyperparameters=hyperparameters).fit(X, y, sample_weight=times)
    repeated = make(rivals=rivals, hyperparameters=hyperparameters).fit(X[rows], y[rows])
    for a, b in zip(weighted.predict_latent(X), repeated.predict_latent(X), strict=True):
        assert_allclose(a, b, atol=1e-7)
    # A row of weight three is left out whole; of three equal rows one is, and two answer for it.
    assert repeated.loo_log_loss_ < weighted.loo_log_loss_


@pytest.mark.parametrize("rivals", RIVALS)
def test_rows_of_weight_zero_get_plain_predictions(rivals):
    X, y = problem(3)
    weight = np.ones(len(y))
    weight[:7] = 0.0
    model = make(rivals=rivals, hyperparameters="fixed").fit(X, y, sample_weight=weight)
    assert_allclose(model.loo_proba_[:7], model.predict_proba(X[:7]), atol=1e-12)
    assert (model.sites_.index[:7] == -1).all()


def test_fractional_weights_add_up():
    X, y = problem(3)
    X3, y3, weight = np.repeat(X, 3, 0), np.repeat(y, 3), np.tile([0.2, 0.3, 0.5], len(y))
    with pytest.warns(RepeatedRowsWarning):
        thirds = make(hyperparameters="fixed").fit(X3, y3, sample_weight=weight)
    whole = make(hyperparameters="fixed").fit(X, y)
    assert_allclose(thirds.predict_proba(X), whole.predict_proba(X), atol=1e-8)


def test_scalar_weight_is_given_to_all():
    X, y = problem(3)
    scalar = make(hyperparameters="fixed").fit(X, y, sample_weight=2.0)
    listed = make(hyperparameters="fixed").fit(X, y, sample_weight=[2.0] * len(y))
    assert_allclose(scalar.predict_proba(X), listed.predict_proba(X))


def test_class_weight_multiplies_sample_weight():
    X, y = problem(3)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    by_class = make(hyperparameters="fixed", class_weight={0: 3.0}).fit(X, y, sample_weight=weight)
    by_row = make(hyperparameters="fixed").fit(X, y, sample_weight=np.where(y == 0, 3.0, 1.0) * weight)
    assert_allclose(by_class.predict_proba(X), by_row.predict_proba(X), atol=1e-10)


def test_balanced_gives_classes_the_same_mass():
    rng = np.random.default_rng(0)
    y = np.r_[np.zeros(90, int), np.ones(10, int)]
    X = rng.normal(size=(100, 1)) + 1.0 * y[:, None]
    plain = BayesianSVC(random_state=0, hyperparameters="fixed").fit(X, y)
    balanced = BayesianSVC(random_state=0, hyperparameters="fixed", class_weight="balanced").fit(X, y)
    by_hand = BayesianSVC(random_state=0, hyperparameters="fixed", class_weight={0: 100 / 180, 1: 100 / 20})
    assert_allclose(balanced.predict_proba(X), by_hand.fit(X, y).predict_proba(X), atol=1e-8)
    assert balanced.predict(X).mean() > plain.predict(X).mean() + 0.1


def test_class_weight_by_string_label():
    X, y = problem(2)
    names = np.array(["no", "yes"])[y]
    model = make(hyperparameters="fixed", class_weight={"yes": 20.0}).fit(X, names)
    assert (model.predict(X) == "yes").mean() >= 0.5


def test_extreme_weights_still_give_a_model():
    X, y = problem(3)
    for scale in (1e-12, 1e6):
        try:
            model = make().fit(X, y, sample_weight=np.full(len(y), scale))
        except ConvergenceWarning:  # a hard margin may not settle, and says so
            continue
        assert np.isfinite(model.predict_proba(X)).all()
