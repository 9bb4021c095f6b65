"""The linear machine: LinearSVC at its mode, a distribution over weights around it."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import bayesvm
from bayesvm import LinearBayesianSVC


def _two_blobs(n: int = 300, n_features: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return make_classification(n, n_features, n_informative=3, n_redundant=0, flip_y=0.1, random_state=seed)


def _objectives(coef, intercept, X, y, C) -> np.ndarray:
    """Half the squared weights, intercept included, plus C times the hinge, of every function."""
    out = []
    classes = np.unique(y)
    for j in range(len(coef)):
        sign = np.where(y == (classes[1] if len(coef) == 1 else classes[j]), 1.0, -1.0)
        hinge = np.maximum(0.0, 1.0 - sign * (X @ coef[j] + intercept[j])).sum()
        out.append(0.5 * (coef[j] @ coef[j] + intercept[j] ** 2) + C * hinge)
    return np.array(out)


DATA = {
    "two classes": _two_blobs(),
    "three classes": load_iris(return_X_y=True),
    "more features than rows": make_classification(60, 100, random_state=1),
    "separable": make_classification(200, 10, class_sep=3.0, flip_y=0.0, random_state=2),
}


@pytest.mark.parametrize("C", [0.1, 2.0])
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("name", DATA)
def test_em_is_linear_svc(name, standardize, C):
    X, y = DATA[name]
    seen = StandardScaler().fit_transform(X) if standardize else X
    svm = LinearSVC(C=C, loss="hinge", tol=1e-8, max_iter=10**7).fit(seen, y)
    model = LinearBayesianSVC(C, inference="em", standardize=standardize).fit(X, y)
    coef, intercept = model.coef_, model.intercept_
    if standardize:
        scaler = StandardScaler().fit(X)
        coef, intercept = coef * scaler.scale_, intercept + coef @ scaler.mean_
    ours = _objectives(coef, intercept, seen, y, C)
    theirs = _objectives(svm.coef_, svm.intercept_, seen, y, C)
    np.testing.assert_allclose(ours, theirs, rtol=3e-5)
    assert 0.0 <= model.duality_gap_ <= 1e-5
    assert model.converged_
    np.testing.assert_allclose(model.C_, C)
    # the same predictions wherever two solvers can agree
    scores = np.sort(svm.decision_function(seen).reshape(len(X), -1), 1)
    margin = np.abs(scores[:, 0]) if scores.shape[1] == 1 else scores[:, -1] - scores[:, -2]
    clear = margin > 5e-3
    assert clear.mean() > 0.97
    np.testing.assert_array_equal(model.predict(X)[clear], svm.predict(seen)[clear])


@pytest.mark.parametrize("inference", ["em", "variational"])
def test_without_intercept(inference):
    X, y = _two_blobs()
    model = LinearBayesianSVC(1.0, inference=inference, fit_intercept=False, standardize=False).fit(X, y)
    assert model.intercept_ == pytest.approx(0.0)
    assert model.intercept_std_ == pytest.approx(0.0)
    if inference == "em":
        svm = LinearSVC(C=1.0, loss="hinge", fit_intercept=False, tol=1e-8, max_iter=10**7).fit(X, y)
        np.testing.assert_allclose(
            _objectives(model.coef_, [0.0], X, y, 1.0), _objectives(svm.coef_, [0.0], X, y, 1.0), rtol=3e-5
        )


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("name", DATA)
def test_weights_are_the_latent_functions(name, standardize):
    X, y = DATA[name]
    model = LinearBayesianSVC(1.0, standardize=standardize).fit(X, y)
    rows = X[:20] + 0.1
    mean, std = model.predict_latent(rows)
    f = rows @ model.coef_.T + model.intercept_
    if f.shape[1] == 1:  # the difference of two classes
        mean, std = mean[:, 1:] - mean[:, :1], np.sqrt(2.0) * std[:, 1:]
    np.testing.assert_allclose(f, mean, atol=1e-6)
    if standardize or name != "more features than rows":
        # variance of f from the covariance of the weights; the intercept is correlated with them
        centre = X.mean(0)
        at_mean = np.sqrt(2.0 if f.shape[1] == 1 else 1.0) * model.predict_latent(centre[None])[1][0, -1]
        shift = (rows - centre) @ model.coef_cov_[-1] @ (rows - centre).T
        assert (np.abs(np.sqrt(np.diag(shift)) - std[:, -1]) <= at_mean + 1e-6).all()
    assert model.coef_.shape == model.coef_std_.shape == (f.shape[1], X.shape[1])
    assert model.coef_cov_.shape == (f.shape[1], X.shape[1], X.shape[1])
    np.testing.assert_allclose(np.sqrt(np.diagonal(model.coef_cov_, axis1=1, axis2=2)), model.coef_std_)


def test_covariance_is_a_small_dense_computation():
    """S^{-1} = I / nu^2 + sum W x x^T over weights and intercept, from the sites of the rows."""
    X, y = _two_blobs(80)
    for C in (0.2, 3.0):
        model = LinearBayesianSVC(C, standardize=False, tol=1e-9, max_iter=1000).fit(X, y)
        rows = np.c_[X, np.ones(80)]
        W = model.sites_.precision[model.sites_.index, 0]
        S = np.linalg.inv(np.eye(5) / (C / 2.0) + (rows.T * W) @ rows)
        np.testing.assert_allclose(model.coef_cov_[0], S[:-1, :-1], rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(model.intercept_std_, np.sqrt(S[-1, -1]), rtol=1e-5)


def test_directions_no_row_shows_keep_their_prior():
    X, y = make_classification(20, 50, random_state=3)
    C = 0.5
    model = LinearBayesianSVC(C, standardize=False).fit(X, y)
    basis = np.linalg.svd(X)[2][20:]  # orthogonal to every row
    assert basis[0] @ model.coef_cov_[0] @ basis[0] == pytest.approx(C / 2.0, rel=1e-5)
    assert (basis @ model.coef_[0]) == pytest.approx(0.0, abs=1e-6)


def _gibbs_moments(X, y, variance: float, n_draws: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Polson and Scott's sampler, written for the weights themselves, many chains at once."""
    rng = np.random.default_rng(seed)
    rows, sign, n_chains = np.c_[X, np.ones(len(X))], np.where(y == 1, 1.0, -1.0), 20
    D = rows.shape[1]
    w, kept = np.zeros((n_chains, D)), []
    for step in range(n_draws):
        b = np.abs(1.0 - sign * (w @ rows.T)).clip(1e-10)
        inverse = rng.wald(1.0 / b, 1.0)  # 1 / lambda
        for i in range(n_chains):
            precision = np.eye(D) / variance + (rows.T * inverse[i]) @ rows
            linear = rows.T @ (sign * (inverse[i] + 1.0))
            L = np.linalg.cholesky(precision)
            w[i] = np.linalg.solve(L.T, np.linalg.solve(L, linear) + rng.standard_normal(D))
        if step >= n_draws // 10:
            kept.append(w.copy())
    draws = np.concatenate(kept)
    return draws.mean(0), draws.std(0)


@pytest.mark.parametrize(
    ("n", "n_features", "C", "exact", "augmented"),
    [
        # Few rows for every weight: the factors found for kernels, .9 and .7.
        (60, 20, 0.5, (0.91, 0.96), (0.63, 0.70)),
        # Many: the exact expectation becomes exact, the augmented bound ever more sure of itself.
        (120, 3, 2.0, (0.87, 0.93), (0.46, 0.55)),
        (1000, 4, 2.0, (0.96, 1.02), (0.40, 0.48)),
    ],
)
def test_variational_moments_against_gibbs_with_the_known_shrinkage(n, n_features, C, exact, augmented):
    """Means agree; standard deviations are too small by factors that the docstring names."""
    X, y = make_classification(
        n, n_features, n_informative=3, n_redundant=0, flip_y=0.1, random_state=4 if n == 120 else 5
    )
    mean, std = _gibbs_moments(X, y, C / 2.0, 1200, seed=0)
    for expectation, band, off in (("exact", exact, 0.1), ("augmented", augmented, 0.3)):
        model = LinearBayesianSVC(C, expectation=expectation, standardize=False, tol=1e-5, max_iter=2000).fit(
            X, y
        )
        ours = np.append(model.coef_[0], model.intercept_)
        assert float(np.abs((ours - mean) / std).mean()) < off
        ratio = np.append(model.coef_std_[0], model.intercept_std_) / std
        assert band[0] < ratio.mean() < band[1]


@pytest.mark.slow
def test_gibbs_is_the_sampler_written_by_hand():
    X, y = _two_blobs(120, 3, seed=4)
    mean, std = _gibbs_moments(X, y, 1.0, 1200, seed=0)
    model = LinearBayesianSVC(2.0, inference="gibbs", standardize=False, n_draws=1000, random_state=0).fit(
        X, y
    )
    ours = np.append(model.coef_[0], model.intercept_)
    np.testing.assert_array_less(np.abs(ours - mean), 0.1 * std)
    np.testing.assert_allclose(np.append(model.coef_std_[0], model.intercept_std_), std, rtol=0.06)
    lower, upper = model.coef_interval(0.5)
    assert (lower < model.coef_).all()
    assert (model.coef_ < upper).all()


def test_auto_learns_c_and_tells_it():
    X, y = load_breast_cancer(return_X_y=True)
    model = LinearBayesianSVC(random_state=0).fit(X, y)
    assert 1e-3 < model.C_ < 1e2
    assert model.loo_score_ > 0.96
    assert len(model.kernel_curve_) > 0
    fixed = LinearBayesianSVC(1.0, random_state=0).fit(X, y)
    assert len(fixed.kernel_curve_) == 0


@pytest.mark.filterwarnings("ignore::bayesvm.RepeatedRowsWarning")
def test_weights_equal_repetition_for_the_mode_too():
    X, y = _two_blobs(100)
    weight = np.where(np.arange(100) < 30, 3.0, 1.0)
    repeated = np.r_[np.arange(100), np.arange(30), np.arange(30)]
    for inference in ("em", "variational"):
        a = LinearBayesianSVC(1.0, inference=inference, random_state=0).fit(X, y, sample_weight=weight)
        b = LinearBayesianSVC(1.0, inference=inference, random_state=0).fit(X[repeated], y[repeated])
        np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-9)
        np.testing.assert_allclose(a.coef_std_, b.coef_std_, atol=1e-9)


def test_columns_that_do_not_vary_get_no_weight():
    X, y = _two_blobs(100)
    X = np.c_[X, np.full(100, 7.0)]
    model = LinearBayesianSVC(1.0).fit(X, y)
    assert model.coef_[0, -1] == 0.0
    assert model.coef_std_[0, -1] == 0.0
    assert np.isfinite(model.intercept_).all()


def test_intervals():
    X, y = _two_blobs()
    model = LinearBayesianSVC(1.0).fit(X, y)
    lower, upper = model.coef_interval(0.6827)
    np.testing.assert_allclose(upper - model.coef_, model.coef_std_, rtol=1e-3)
    np.testing.assert_allclose(model.coef_ - lower, model.coef_std_, rtol=1e-3)
    with pytest.raises(ValueError, match=r"level=1\.0 is not valid"):
        model.coef_interval(1.0)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"C": 0.0}, "C=0.0 is not valid"),
        ({"C": "best"}, "C='best' is not valid"),
        ({"inference": "coordinate"}, "inference='coordinate' is not valid"),
        ({"expectation": "rough"}, "expectation='rough' is not valid"),
        ({"fit_intercept": "yes"}, "fit_intercept='yes' is not valid"),
    ],
)
def test_arguments_that_cannot_work(argument, message):
    X, y = _two_blobs(30)
    with pytest.raises(ValueError, match=message):
        LinearBayesianSVC(**argument).fit(X, y)


@pytest.mark.parametrize("inference", ["em", "variational"])
def test_saving_and_loading(tmp_path, inference):
    X, y = load_iris(return_X_y=True)
    model = LinearBayesianSVC(inference=inference, random_state=0).fit(X, y)
    loaded = bayesvm.load(bayesvm.save(model, tmp_path / "model.skops"))
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    np.testing.assert_array_equal(loaded.coef_std_, model.coef_std_)
