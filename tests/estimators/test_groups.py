"""Groups of rows that leave-one-out leaves out together."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import log_loss

from bayesvm import BayesianSVC, OneVsRestBayesianSVC, RepeatedRowsWarning
from bayesvm.distributed import DaskBayesianSVC

from .data import FAST, three_blobs


def _patients(n_patients, seed, rows_each=8):
    """Rows that are near to others of their patient, and labels that all rows of a patient share."""
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=(n_patients, 4))
    label = (centre[:, 0] + rng.normal(size=n_patients) > 0).astype(int)
    patient = np.repeat(np.arange(n_patients), rows_each)
    return centre[patient] + 0.05 * rng.normal(size=(len(patient), 4)), label[patient], patient


def test_log_loss_on_new_patients_is_estimated():
    """At a fixed kernel, on average over draws of the patients."""
    estimated, held = np.empty((2, 4)), np.empty((2, 4))
    for k in range(4):
        X, y, patient = _patients(100, 1000 + k, 4)
        new, truth, _ = _patients(1000, 1500 + k, 1)
        for j, groups in enumerate((None, patient)):
            model = BayesianSVC(**FAST).fit(X, y, groups=groups)
            estimated[j, k], held[j, k] = model.loo_log_loss_, log_loss(truth, model.predict_proba(new))
    assert estimated[1].mean() == pytest.approx(held[1].mean(), abs=0.1)
    # Rows of the same patient betray the label, and probabilities calibrated to that are too sure.
    assert estimated[0].mean() < 0.1 * held[0].mean()
    assert held[1].max() < held[0].min()


def test_every_row_a_group_leaves_out_single_copies():
    """Without a warning about copies: groups say what a row is."""
    X, y = three_blobs(60)
    X, y = np.repeat(X, 3, 0), np.repeat(y, 3)
    alone = BayesianSVC(**FAST, local=False).fit(X, y, groups=np.arange(180))
    together = BayesianSVC(**FAST, local=False).fit(X, y, groups=np.repeat(np.arange(60), 3))
    with pytest.warns(RepeatedRowsWarning):
        found = BayesianSVC(**FAST, local=False).fit(X, y)
    assert_allclose(together.loo_proba_, found.loo_proba_, atol=1e-7)
    assert alone.loo_log_loss_ < together.loo_log_loss_
    for a, b in zip(alone.predict_latent(X), together.predict_latent(X), strict=True):
        assert_allclose(a, b, atol=1e-7)


@pytest.mark.filterwarnings("ignore::UserWarning")  # short chains
@pytest.mark.parametrize("inference", ["coordinate", "gibbs"])
def test_neither_order_nor_names_of_groups_matter(inference):
    settings = {"inference": inference, "max_iter": 400, "random_state": 0, "hyperparameters": "fixed"}
    X, y = three_blobs(60)
    X[30:], y[30:] = X[:30], y[:30]  # equal rows in two groups
    group, weight = np.arange(60) // 5, np.random.default_rng(0).uniform(0.5, 2.0, 60)
    weight[:3] = 0.0
    order = np.random.default_rng(1).permutation(60)
    names = np.array([f"patient {k}" for k in range(12)])
    a = OneVsRestBayesianSVC(**settings).fit(X, y, weight, groups=group)
    b = OneVsRestBayesianSVC(**settings).fit(X[order], y[order], weight[order], groups=names[group][order])
    c = OneVsRestBayesianSVC(**settings).fit(X, y, weight, groups=names[group])
    assert_array_equal(c.loo_proba_[order], b.loo_proba_)
    assert_array_equal(c.predict_proba(X), b.predict_proba(X))
    if inference == "coordinate":  # chains do not forget rounding
        assert_allclose(a.loo_proba_, c.loo_proba_, atol=1e-5)


def test_single_rows_as_groups_are_plain_leave_one_out():
    X, y = three_blobs(60)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 60)
    plain = BayesianSVC(**FAST, local=False).fit(X, y, weight)
    model = BayesianSVC(**FAST, local=False).fit(X, y, weight, groups=np.arange(60))
    assert_allclose(model.loo_proba_, plain.loo_proba_, atol=1e-9)


def test_a_stream_goes_on_from_groups():
    X, y = three_blobs(60)
    X[30:], y[30:] = X[:30], y[:30]
    model = BayesianSVC(**FAST).fit(X, y, groups=np.arange(60) // 5)
    with pytest.warns(RepeatedRowsWarning):
        model.partial_fit(X[:20], y[:20])
    assert model.memory_.count.sum() == 80


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(60), "one group"),
        (np.arange(59), r"shape \(59,\); expected one label for each of 60 rows"),
        ("patient", "one label for each"),
        (np.r_[np.nan, np.arange(59)], "row 0 of these has no label"),
    ],
)
def test_groups_that_are_none_are_refused(groups, message):
    X, y = three_blobs(60)
    with pytest.raises(ValueError, match=message):
        BayesianSVC(**FAST).fit(X, y, groups=groups)


def test_rows_in_chunks_have_no_groups():
    X, y = three_blobs(60)
    with pytest.raises(ValueError, match="groups takes an array or data frame of at most 100000 rows"):
        BayesianSVC(**FAST).fit([(X, y)], groups=np.arange(60))
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="X is a Dask collection"):
        DaskBayesianSVC(**FAST).fit(da.from_array(X), da.from_array(y), groups=np.arange(60))


def test_scikit_learn_passes_groups_on():
    from sklearn import config_context
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = three_blobs(60)
    group = np.arange(60) // 5
    plain = BayesianSVC(**FAST).fit(StandardScaler().fit_transform(X), y, groups=group)
    with config_context(enable_metadata_routing=True):
        model = BayesianSVC(**FAST).set_fit_request(groups=True)
        routed = make_pipeline(StandardScaler(), model).fit(X, y, groups=group)
    assert_array_equal(routed[-1].loo_proba_, plain.loo_proba_)
