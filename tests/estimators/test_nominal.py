"""Nominal columns and missing numbers, from data frames and arrays of users."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bayesvm
from bayesvm import BayesianSVC
from bayesvm._fit.columns import level_sums, prior_rows, shrunken_means
from bayesvm._fit.fitting import defaults

FAST = {"hyperparameters": "fixed", "random_state": 0}


def frame_and_labels(n=200, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "city": pd.Categorical(rng.choice(["Bern", "Oslo", "Rome", "Lima"], n)),
            "gaps": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "size": pd.Categorical(rng.choice(["big", "small", None], n)),
        }
    )
    y = np.where((frame["x"] > 0) ^ frame["city"].isin(["Bern", "Oslo"]), "yes", "no")
    return frame, y


FRAME, Y = frame_and_labels()
NOMINAL = ["city", "size"]


@pytest.fixture(scope="module")
def model():
    return BayesianSVC(random_state=0).fit(FRAME, Y)


def test_levels_are_learned(model):
    new, y = frame_and_labels(500, 1)
    assert model.loo_score_ > 0.95
    assert model.score(new, y) > 0.95
    assert model.n_features_in_ == 4
    assert list(model.feature_names_in_) == list(FRAME.columns)
    assert set(np.argsort(model.feature_relevance_)[2:]) == {0, 1}
    assert model.feature_relevance_.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("declared", "made"),
    [
        (NOMINAL, lambda f: f.astype(dict.fromkeys(NOMINAL, object))),
        ([1, -1], lambda f: f),
        ([False, True, False, True], lambda f: f.astype(object)),
        ([False, True, False, True], lambda f: f.astype(object).to_numpy()),
        ([1, 3], lambda f: f.astype(object).to_numpy().tolist()),
    ],
    ids=["names", "positions", "mask", "array", "list"],
)
def test_ways_to_declare_a_column(model, declared, made):
    other = BayesianSVC(categorical_features=declared, random_state=0).fit(made(FRAME), Y)
    assert_array_equal(other.predict_proba(made(FRAME)), model.predict_proba(FRAME))


def test_polars():
    pl = pytest.importorskip("polars")
    columns = {name: FRAME[name].astype(object).where(FRAME[name].notna(), None).tolist() for name in FRAME}
    frame = pl.DataFrame(columns).with_columns(
        pl.col("city").cast(pl.Categorical), pl.col("size").cast(pl.Enum(["big", "small"]))
    )
    expected = BayesianSVC(**FAST).fit(FRAME, Y).predict_proba(FRAME)
    assert_array_equal(BayesianSVC(**FAST).fit(frame, Y).predict_proba(frame), expected)


def test_what_levels_are_called_does_not_matter(model):
    renamed = FRAME.assign(
        city=FRAME["city"].map({"Bern": "z", "Oslo": "b", "Rome": "a", "Lima": "q"}).astype("category"),
        size=FRAME["size"].map({"big": 7, "small": 1}).astype(float),
    )
    other = BayesianSVC(categorical_features=NOMINAL, random_state=0).fit(renamed, Y)
    assert_array_equal(other.predict_proba(renamed), model.predict_proba(FRAME))
    whole = renamed.assign(size=renamed["size"].astype("Int64"))  # 7 and 7.0 are one level
    assert_array_equal(other.predict_proba(whole), model.predict_proba(FRAME))


def test_the_order_of_the_rows_does_not_matter(model):
    order = np.random.default_rng(1).permutation(len(Y))
    other = BayesianSVC(random_state=0).fit(FRAME.iloc[order], Y[order])
    assert_allclose(other.predict_proba(FRAME), model.predict_proba(FRAME), atol=1e-9)


def test_weights_are_copies():
    weight = np.where(np.arange(len(Y)) < 60, 2.0, 1.0)
    options = {**FAST, "local": False}
    weighted = BayesianSVC(**options).fit(FRAME, Y, sample_weight=weight)
    copies = BayesianSVC(**options)
    with pytest.warns(bayesvm.RepeatedRowsWarning):
        copies.fit(pd.concat([FRAME, FRAME[:60]]), np.append(Y, Y[:60]))
    assert_allclose(copies.predict_latent(FRAME)[0], weighted.predict_latent(FRAME)[0], atol=1e-9)
    none = np.where(FRAME["city"] == "Lima", 0.0, 1.0)
    without = BayesianSVC(**options).fit(FRAME, Y, sample_weight=none)
    expected = BayesianSVC(**options).fit(FRAME[none > 0], Y[none > 0])
    assert_allclose(without.predict_proba(FRAME), expected.predict_proba(FRAME), atol=1e-9)


def test_an_unknown_level_equals_none_and_missing_equals_missing(model):
    rows = FRAME.iloc[[0] * 6].astype({"city": object, "size": object})
    rows["city"] = ["Bern", "Oslo", "Rome", "Lima", "Kyiv", None]
    deviation = model.predict_latent(rows)[1][:, 0]
    assert (deviation[4:] > deviation[:4].max()).all()  # no row of training is in Kyiv, or nowhere
    assert_allclose(deviation[4], deviation[5])
    variance = model.kernel_(rows.iloc[[4]])[0, 0]
    covariances = model.kernel_(rows)[4, :4]
    assert (covariances < 0.9 * variance).all()
    assert_allclose(covariances, covariances[0])
    rows["size"] = [None, np.nan, pd.NA, "big", "big", "big"]
    rows["city"] = "Bern"
    proba = model.predict_proba(rows)
    assert_array_equal(proba[:3], proba[[0] * 3])
    assert not np.allclose(proba[0], proba[3])


def test_that_a_number_is_missing_is_a_fact():
    rng = np.random.default_rng(0)
    X, gone = rng.normal(size=(300, 3)), rng.random(300) < 0.4
    X[gone, 1] = np.nan
    model = BayesianSVC(random_state=0).fit(X, gone.astype(int))
    assert model.loo_score_ > 0.98
    assert model.feature_relevance_.argmax() == 1
    assert model.feature_relevance_.shape == (3,)
    assert np.isnan(model.inducing_points_.astype(float)[:, 1]).any()


def test_numbers_without_gaps_are_fitted_as_they_were():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 3)), rng.integers(0, 2, 100)
    model = BayesianSVC(**FAST).fit(X, y)
    assert model._columns is None
    one = X[:2].copy()
    one[0, 1] = np.nan  # no row lacked it: as at the mean
    assert_allclose(model.predict_proba(one)[0], model.predict_proba([[X[0, 0], X[:, 1].mean(), X[0, 2]]])[0])
    nothing = np.column_stack([X, np.full(100, np.nan)])
    assert_allclose(BayesianSVC(**FAST).fit(nothing, y).predict_proba(nothing), model.predict_proba(X))


@pytest.mark.parametrize("how", ["saved", "pickled", "compiled", "compiled and saved"])
def test_models_elsewhere_predict_the_same(model, how, tmp_path):
    rows = FRAME.iloc[:20].astype({"city": object})
    rows.iloc[:3, 1] = ["Kyiv", None, "Rome"]
    rows.iloc[3, 2] = rows.iloc[4, 0] = np.nan
    if how == "saved":
        other = bayesvm.load(bayesvm.save(model, tmp_path / "model.skops"))
    elif how == "pickled":
        other = pickle.loads(pickle.dumps(model))
    else:
        other = model.compile_predictor("float64")
        assert other.predict_one(dict(FRAME.iloc[0])) == model.predict(FRAME[:1])[0]
        if how == "compiled and saved":
            other = bayesvm.CompiledPredictor.load(other.save(tmp_path / "model.npz"))
    assert_allclose(other.predict_proba(rows), model.predict_proba(rows), rtol=0, atol=1e-8)


def test_everything_that_predicts_takes_such_rows(model):
    rows = FRAME[:7]
    assert model.uncertainty(rows).total.shape == (7,)
    assert model.variation_ratio(rows).shape == (7,)
    assert model.abstain(rows).shape == (7,)
    assert model.sample_latent(rows, 3).shape == (3, 7, 2)
    assert model.inducing_points_.shape == (len(model.model_.Z), 4)
    assert set(model.inducing_points_[:, 1]) <= set(FRAME["city"])
    assert model.predict_top_k(rows, 1).classes.shape == (7, 1)


def test_files_of_tables_are_predicted(model, tmp_path):
    from bayesvm.tables import predict_table, read_table

    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    table = read_table(tmp_path / "rows.csv", model=model)
    assert_array_equal(predict_table(model, table)["prediction"], model.predict(FRAME))


def test_folds_learn_with_the_same_columns():
    few = BayesianSVC(20, **{**FAST, "local": False}).fit(FRAME[:60], Y[:60])
    left = few.left_out("folds")
    assert left.n_rows == 60
    assert few.predict_set(FRAME[:5], calibration="folds").shape == (5, 2)


def test_partial_fit():
    first, then = FRAME[:100], FRAME[100:].astype({"city": object})
    then.iloc[:5, 1] = "Kyiv"
    model = BayesianSVC(random_state=0).partial_fit(first, Y[:100], classes=["no", "yes"])
    model.partial_fit(then, Y[100:])
    assert model.score(FRAME, Y) > 0.95
    with pytest.raises(ValueError, match=r"labels \['maybe'\]"):
        BayesianSVC(**FAST).partial_fit(first, np.full(100, "maybe"), classes=["no", "yes"])


def test_a_warm_start_keeps_levels():
    model = BayesianSVC(warm_start=True, **FAST).fit(FRAME, Y)
    before = model.predict_proba(FRAME)
    assert_allclose(model.fit(FRAME, Y).predict_proba(FRAME), before, atol=0.02)


def test_many_rows_in_memory(monkeypatch):
    for module in ("fitting", "engine", "validation"):
        if hasattr(__import__(f"bayesvm._fit.{module}", fromlist=["x"]), "_CHUNK_ROWS"):
            monkeypatch.setattr(f"bayesvm._fit.{module}._CHUNK_ROWS", 64)
    expected = BayesianSVC(30, local=False, random_state=0).fit(FRAME, Y).predict_proba(FRAME)
    monkeypatch.setattr(defaults, "IN_MEMORY_ROWS", 50)
    streamed = BayesianSVC(30, local=False, random_state=0).fit(FRAME, Y)
    assert streamed._columns is not None
    assert_allclose(streamed.predict_proba(FRAME), expected, atol=0.1)


# --- Columns with many levels.


def many_levels(seed, n=300, n_levels=100):
    rng = np.random.default_rng(seed)
    level, x = rng.integers(0, n_levels, n), rng.normal(size=n)
    return pd.DataFrame({"level": pd.Categorical([f"l{i}" for i in level]), "x": x}), level, rng


def test_noise_in_many_levels_is_not_believed():
    found = []
    for seed in range(5):
        frame, _, rng = many_levels(seed)
        y = rng.integers(0, 2, 300)
        model = BayesianSVC(random_state=0).fit(frame, y)
        found.append([model.loo_score_, model.loo_log_loss_])
    accuracy, log_loss = np.mean(found, 0)
    assert abs(accuracy - 0.5) < 0.05
    assert abs(log_loss - np.log(2)) < 0.02


def test_target_means_tell_what_levels_do():
    frame, level, rng = many_levels(0, 1200, 100)
    effect = 2.0 * rng.normal(size=100)
    y = np.where(rng.random(1200) < 1 / (1 + np.exp(-effect[level] - frame["x"])), "up", "down")
    model = BayesianSVC(random_state=0).fit(frame[:800], y[:800])
    codes = np.column_stack([level, frame["x"]])
    coded = BayesianSVC(random_state=0).fit(codes[:800], y[:800])
    assert model.score(frame[800:], y[800:]) > coded.score(codes[800:], y[800:]) + 0.02
    assert model.feature_relevance_.shape == (2,)
    order = rng.permutation(800)
    again = BayesianSVC(random_state=0).fit(frame.iloc[order], y[order])
    assert_allclose(again.predict_proba(frame), model.predict_proba(frame), atol=1e-9)
    unknown = frame[:1].assign(level="never seen")
    assert 0.1 < model.predict_proba(unknown)[0, 0] < 0.9
    assert model.inducing_points_[0, 0] in set(frame["level"])


def test_target_means_are_shrunken_and_count_weights():
    code, y = np.array([0, 0, 0, 1]), np.array([0, 1, 1, 2])
    weight = np.array([1.0, 2.0, 1.0, 4.0])
    sums = level_sums(code, y, weight, 3, 3)
    prior = np.array([1.0, 3.0, 4.0]) / 8.0
    expected = np.array([([1, 3, 0] + 5 * prior) / 9, ([0, 0, 4] + 5 * prior) / 9, prior])
    assert_allclose(shrunken_means(sums, sums.sum(0), 5.0), expected)
    assert_allclose(shrunken_means(sums, sums.sum(0), np.inf), np.tile(prior, (3, 1)))


def test_the_prior_is_worth_what_levels_differ_by():
    rng = np.random.default_rng(0)
    noise = rng.binomial(20, 0.5, 60)
    assert prior_rows(np.stack([noise, 20 - noise], 1).astype(float)) == np.inf
    assert prior_rows(np.eye(2)[rng.integers(0, 2, 500)]) == np.inf  # levels of one row each
    share = rng.beta(2.0, 2.0, 400)
    counts = rng.binomial(20, share)
    assert prior_rows(np.stack([counts, 20 - counts], 1).astype(float)) == 4.0


# --- Refusals.


@pytest.mark.parametrize(
    ("declared", "frame", "message"),
    [
        ("from_dtype", FRAME.astype({"city": object}), r"column 'city' does not hold numbers.*declare it"),
        ("dtype", FRAME, "categorical_features='dtype' is not valid"),
        ([True, False], FRAME, "a mask of 2 columns, and X has 4"),
        ([4], FRAME, "names column 4, and X has 4"),
        (["town"], FRAME, r"names \['town'\]; X has the columns \['x', 'city'"),
        (["city"], FRAME.astype(object).to_numpy(), "X is not a data frame"),
        (["city"], FRAME.replace({"x": {FRAME["x"][0]: np.inf}}), "infinity.*column 'x'"),
        (["city"], FRAME, "column 'size' does not hold numbers"),
    ],
)
def test_refusals(declared, frame, message):
    with pytest.raises(ValueError, match=message):
        BayesianSVC(categorical_features=declared, **FAST).fit(frame, Y)


def test_rows_in_chunks_are_numbers():
    batches = [(np.zeros((10, 2)), np.arange(10) % 2)]
    with pytest.raises(ValueError, match="categorical_features needs the rows in memory"):
        BayesianSVC(categorical_features=[0]).fit(batches)


def test_columns_of_predictions(model):
    with pytest.raises(ValueError, match="feature names"):
        model.predict(FRAME[["city", "x", "gaps", "size"]])
    with pytest.raises(ValueError, match="3 features"):
        model.compile_predictor().predict(FRAME.iloc[:, :3].to_numpy())
    with pytest.raises(ValueError, match="column 'x' does not hold numbers"):
        model.predict(FRAME.assign(x="a"))


def test_a_dask_model_of_categories_predicts_in_memory():
    dd = pytest.importorskip("dask.dataframe")
    from bayesvm.distributed import DaskBayesianSVC

    model = DaskBayesianSVC(**FAST).fit(FRAME, Y)
    assert_array_equal(model.predict_proba(FRAME), BayesianSVC(**FAST).fit(FRAME, Y).predict_proba(FRAME))
    with pytest.raises(ValueError, match="give it rows in memory"):
        model.predict(dd.from_pandas(FRAME, npartitions=2))


def test_rows_that_are_no_table():
    model = BayesianSVC(categorical_features=[0])
    with pytest.raises(ValueError, match="2D array"):
        model.fit(Y, Y)
    with pytest.raises(ValueError, match="all sample weights are zero"):
        BayesianSVC().fit(FRAME, Y, sample_weight=np.zeros(len(Y)))
    with pytest.raises(ValueError, match="no row to learn from"):
        BayesianSVC().fit(FRAME[:0], Y[:0])


def test_labels_are_checked_as_before():
    with pytest.raises(ValueError, match="NaN"):
        BayesianSVC().fit(FRAME, np.where(np.arange(len(Y)) == 3, np.nan, 1.0))
    with pytest.raises(ValueError, match="rows, and y has"):
        BayesianSVC().fit(FRAME, Y[:-1])
