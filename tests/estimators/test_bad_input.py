"""Bad input gets an error that says what was given and what was expected."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from bayesvm import BayesianSVC

from .data import FAST, three_blobs

X, Y = three_blobs(30)


def spoiled(value: float) -> np.ndarray:
    bad = X.copy()
    bad[3, 1] = value
    return bad


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_inducing": 0}, r"n_inducing=0 .*whole number >= 1 or 'auto'"),
        ({"n_inducing": 2.5}, r"n_inducing=2.5 "),
        ({"n_inducing": "many"}, r"n_inducing='many' .*'auto'"),
        ({"inference": "em"}, r"inference='em' .*'auto', 'coordinate', 'natural', 'adam'"),
        ({"inference": None}, r"inference=None .*'coordinate'"),
        ({"rivals": "all"}, r"rivals='all' .*'exact', 'sampled', 'mean'"),
        ({"hyperparameters": "mcmc"}, r"hyperparameters='mcmc' .*'blend', 'elbo', 'loo', 'fixed'"),
        ({"dtype": "float16"}, r"dtype='float16' .*'float64', 'float32'"),
        ({"kernel": "rfb"}, r"unknown kernel 'rfb'.*'anova'.*'rbf'"),
        ({"kernel": "rbf + "}, r"unknown kernel ''.*'rbf'"),
        ({"learning_rate": 0.0}, r"learning_rate=0.0 .*> 0"),
        ({"learning_rate": float("inf")}, r"learning_rate=inf .*finite"),
        ({"batch_size": 0}, r"batch_size=0 .*>= 1 or None"),
        ({"max_iter": 0}, r"max_iter=0 .*>= 1"),
        ({"max_iter": True}, r"max_iter=True "),
        ({"tol": -1.0}, r"tol=-1.0 .*>= 0"),
        ({"tol": float("nan")}, r"tol=nan "),
        ({"class_weight": "heavy"}, r"class_weight='heavy' .*'balanced' or a dict"),
        ({"class_weight": np.ones(3)}, r"class_weight=.*'balanced' or a dict"),
        ({"class_weight": {5: 1.0}}, r"class_weight names \[5\].*classes are \[0, 1, 2\]"),
        ({"class_weight": {0: -1.0}}, r"non-negative"),
        ({"class_weight": {0: 0, 1: 0, 2: 0}}, r"positive weight.*left: \[\]"),
        ({"class_weight": {0: 0, 1: 0}}, r"2 classes.*left: \[2\]"),
        ({"device": "gpu"}, r"device='gpu' .*'cpu' or 'cuda'"),
        ({"device": "meta"}, r"device='meta' .*'cpu'"),
        ({"device": 3.5}, r"device=3.5 "),
        ({"learn_inducing": "yes"}, r"learn_inducing='yes' .*True or False"),
        ({"random_state": "seed"}, r"'seed' cannot be used to seed"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        BayesianSVC(**arguments).fit(X, Y)


@pytest.mark.parametrize("kernel", [None, 3, object(), dict])
def test_objects_that_are_no_kernels(kernel):
    with pytest.raises(TypeError, match="init, cross and diag"):
        BayesianSVC(kernel=kernel).fit(X, Y)


def test_a_gpu_that_is_not_there():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(ValueError, match=r"device='cuda'.*sees no GPU"):
        BayesianSVC(device="cuda").fit(X, Y)


@pytest.mark.parametrize(
    ("data", "labels", "message"),
    [
        (spoiled(np.inf), Y, "infinity"),
        (X, np.zeros(len(Y)), "one class"),
        (X[:1], Y[:1], "at least two classes"),
        (X, Y + 0.5, "Unknown label type: continuous"),
        (X, Y[:-1], "inconsistent numbers of samples"),
        (X[0], Y[:3], "Expected 2D array"),
        (X[:, :0], Y, "0 feature"),
        (X[:0], Y[:0], "0 sample"),
        (X.astype(complex), Y, "Complex data not supported"),
        (X, np.stack([Y, Y], 1), "1d array"),
        (X, None, "requires y to be passed"),
        (np.array([["a", "b"]] * len(Y)), Y, r"column 0 does not hold numbers .*'a'.*; declare it"),
    ],
)
def test_bad_data(data, labels, message):
    with pytest.raises(ValueError, match=message):
        BayesianSVC().fit(data, labels)


@pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.csc_array])
def test_sparse_matrices_are_refused(make):
    with pytest.raises(TypeError, match="dense data is required"):
        BayesianSVC().fit(make(X), Y)
    with pytest.raises(TypeError, match="dense data is required"):
        BayesianSVC(**FAST).fit(X, Y).predict(make(X))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.r_[-0.5, np.ones(29)], "finite and not negative; one given is -0.5"),
        (np.zeros(30), "all sample weights are zero"),
        (np.ones(29), r"shape \(29,\) for 30 rows"),
        (np.ones((30, 2)), r"shape \(30, 2\) for 30 rows"),
        (np.r_[np.nan, np.ones(29)], "sample_weight: weights must be finite.*nan"),
        (np.r_[np.inf, np.ones(29)], "sample_weight: weights must be finite.*inf"),
        ((Y == 1).astype(float), r"2 classes.*left: \[1\]"),
        (["a"] * 30, "could not convert"),
    ],
)
def test_bad_weights(weight, message):
    with pytest.raises(ValueError, match=message):
        BayesianSVC().fit(X, Y, sample_weight=weight)


def test_bad_rows_to_predict():
    model = BayesianSVC(**FAST).fit(X, Y)
    for method in ("predict", "predict_proba", "variation_ratio", "uncertainty", "abstain", "sample_latent"):
        with pytest.raises(ValueError, match="2 features, but BayesianSVC is expecting 3"):
            getattr(model, method)(X[:, :2])
        with pytest.raises(ValueError, match="infinity"):
            getattr(model, method)(spoiled(np.inf))
        for given in ("rows.parquet", Path("rows.parquet"), iter([X]), lambda: [X]):
            with pytest.raises(TypeError, match=rf"got {type(given).__name__}\. Files .*predict_blocks"):
                getattr(model, method)(given)


def test_a_failed_fit_leaves_an_unfitted_model_unfitted():
    model = BayesianSVC()
    with pytest.raises(ValueError, match="infinity"):
        model.fit(spoiled(np.inf), Y)
    assert not model.__sklearn_is_fitted__()
