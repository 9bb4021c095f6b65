"""The posterior is that of one machine, whatever the blocks, the workers, and what happens to them."""

import os
import signal
import time
from dataclasses import dataclass, field

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

import bayesvm
from bayesvm import BayesianSVC
from bayesvm._fit import defaults
from bayesvm._fit.fitting import fit_chunks
from bayesvm.distributed import DaskBayesianSVC
from bayesvm.distributed._engine import DaskEngine, held
from bayesvm.distributed._inputs import as_groups
from tests.distributed.passes import KilledOnce

N = 12_000
ARGUMENTS = {"n_inducing": 15, "kernel": "rbf", "hyperparameters": "fixed", "random_state": 0}


def problem(n=N):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    f = np.stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 1] * X[:, 2], np.cos(X[:, 1]) - X[:, 0]], 1)
    return X, (f + 0.3 * rng.normal(size=f.shape)).argmax(1)


@dask.delayed
def never():
    raise AssertionError("rows were read")


X, y = problem()
WEIGHT = np.random.default_rng(1).integers(0, 3, N).astype(float)


def _stream_early(patch):
    patch.setattr(defaults, "IN_MEMORY_ROWS", 1000)
    patch.setattr("bayesvm._fit.fitting._FEWEST_SAMPLED", 800)
    patch.setattr("bayesvm._fit.fitting._ROWS_PER_POINT", 8)


@pytest.fixture
def streaming(monkeypatch):
    """Rows are gone through in passes although there are few."""
    _stream_early(monkeypatch)


@pytest.fixture(scope="module")
def local():
    """The model of one process that streams."""
    with pytest.MonkeyPatch.context() as patch:
        _stream_early(patch)
        return BayesianSVC(**ARGUMENTS).fit(X, y)


@pytest.fixture(scope="module")
def learned():
    """The same with a kernel that was learned."""
    with pytest.MonkeyPatch.context() as patch:
        _stream_early(patch)
        return BayesianSVC(n_inducing=15, random_state=0).fit(X, y)


def blocks(chunks, rows=X, labels=y):
    return da.from_array(rows, chunks=(chunks, -1)), da.from_array(labels, chunks=chunks)


def same_posterior(found, expected, atol=1e-9):
    assert found.n_iter_ == expected.n_iter_
    for name in ("Z", "m", "R"):
        np.testing.assert_allclose(getattr(found.model_, name), getattr(expected.model_, name), atol=atol)
    assert found.temperature_ == pytest.approx(expected.temperature_, abs=atol)
    np.testing.assert_allclose(found.elbo_curve_, expected.elbo_curve_, rtol=atol)
    np.testing.assert_allclose(found.predict_proba(X[:500]), expected.predict_proba(X[:500]), atol=atol)
    assert found.loo_score_ == pytest.approx(expected.loo_score_, abs=atol)


@pytest.mark.parametrize(("chunks", "scheduler"), [(5000, "threads"), (1001, "synchronous"), (N, "threads")])
def test_blocks_cannot_be_seen_in_the_posterior(streaming, learned, chunks, scheduler):
    with dask.config.set(scheduler=scheduler):
        found = DaskBayesianSVC(n_inducing=15, random_state=0).fit(*blocks(chunks))
    same_posterior(found, learned, atol=1e-8)


@pytest.mark.parametrize("changes", [True, False])
def test_blocks_that_change_between_passes_are_refused(streaming, changes):
    calls = iter(range(1, 1000))

    def impure(block):
        return block + 1e-6 * next(calls) if changes else block

    rows, labels = blocks(500, X[:2000], y[:2000])
    groups = as_groups(rows.map_blocks(impure, dtype=float, meta=np.empty((0, 0))), labels, None)
    estimator = BayesianSVC(**ARGUMENTS)
    with dask.config.set(scheduler="synchronous"):
        engine = DaskEngine(groups.tasks, groups.n_features, groups.feature_names)
        if changes:
            with pytest.raises(ValueError, match="rows changed between two passes: values or labels"):
                fit_chunks(estimator, engine)
        else:
            fit_chunks(estimator, engine)
            assert estimator.score(X, y) > 0.7


@pytest.mark.parametrize("more", [{"rivals": "sampled"}, {"warm_start": True}])
def test_arguments_mean_the_same(streaming, more):
    expected, found = BayesianSVC(**ARGUMENTS, **more), DaskBayesianSVC(**ARGUMENTS, **more)
    for _ in range(2 if "warm_start" in more else 1):
        expected.fit(X, y)
        found.fit(*blocks(5000))
    same_posterior(found, expected)


def test_order_of_rows_cannot_be_seen_in_the_posterior(streaming, local):
    shuffled = np.random.default_rng(5).permutation(N)
    with dask.config.set(scheduler="synchronous"):
        same_posterior(DaskBayesianSVC(**ARGUMENTS).fit(*blocks(4096, X[shuffled], y[shuffled])), local)


def test_weights_and_names(streaming):
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=np.array(["u", "v", "w"])[y], n=WEIGHT)
    found = DaskBayesianSVC(**ARGUMENTS).fit(dd.from_pandas(frame, npartitions=5), "label", "n")
    expected = BayesianSVC(**ARGUMENTS).fit(X, np.array(["u", "v", "w"])[y], WEIGHT)
    same = frame[["a", "b", "c"]][:500]
    np.testing.assert_allclose(found.predict_proba(same), expected.predict_proba(X[:500]), atol=1e-9)
    assert found.feature_names_in_.tolist() == ["a", "b", "c"]
    assert found.classes_.tolist() == ["u", "v", "w"]


@dataclass(frozen=True)
class Struck(DaskEngine):
    """An engine of which a worker is killed (SIGKILL), in the middle of a pass or before it.

    Attributes
    ----------
    client : Client
    folder : str
    at : int
        In which pass.
    amid : bool
    passes : list
        One entry for each pass so far.
    """

    client: object = None
    folder: str = ""
    at: int = 0
    amid: bool = True
    passes: list = field(default_factory=list)

    def total(self, work):
        self.passes.append(type(work).__name__)
        if len(self.passes) == self.at + 1:
            if self.amid:
                work = KilledOnce(work, self.folder, 1)
            else:
                os.kill(next(iter(self.client.run(os.getpid).values())), signal.SIGKILL)
        return super().total(work)


@pytest.mark.parametrize(
    ("at", "amid"), [(2, True), pytest.param(1, True, marks=pytest.mark.slow), (3, False)]
)
def test_a_killed_worker_changes_nothing(streaming, local, in_use, tmp_path, at, amid):
    before = set(in_use.run(os.getpid).values())
    groups = as_groups(*blocks(4096), None)
    model = DaskBayesianSVC(**ARGUMENTS)
    engine = Struck(held(groups.tasks), 3, None, client=in_use, folder=str(tmp_path), at=at, amid=amid)
    fit_chunks(model, engine)
    assert len(engine.passes) > at + 1
    same_posterior(model, local)
    in_use.wait_for_workers(len(before))
    assert set(in_use.run(os.getpid).values()) != before


def test_few_rows_are_fitted_as_ever():
    rows, labels = load_iris(return_X_y=True, as_frame=True)
    expected = BayesianSVC(random_state=0).fit(rows, labels)
    frame = dd.from_pandas(rows, npartitions=4)
    found = DaskBayesianSVC(random_state=0).fit(frame, dd.from_pandas(labels, npartitions=4))
    np.testing.assert_array_equal(found.loo_proba_, expected.loo_proba_)
    np.testing.assert_array_equal(found.predict_proba(rows), expected.predict_proba(rows))
    np.testing.assert_array_equal(found.feature_names_in_, rows.columns)
    array = DaskBayesianSVC(random_state=0).fit(
        da.from_array(rows.to_numpy(), chunks=(40, 2)), labels.to_numpy()
    )
    np.testing.assert_array_equal(array.model_.m, expected.model_.m)


def test_score_and_way_back(streaming, local, tmp_path):
    rows, labels = blocks(4096)
    model = DaskBayesianSVC(**ARGUMENTS).fit(rows, labels)
    assert model.score(rows, labels) == pytest.approx(local.score(X, y), abs=1e-12)
    assert model.score(rows, labels, WEIGHT) == pytest.approx(local.score(X, y, WEIGHT), abs=1e-12)
    assert model.score(X, y) == pytest.approx(local.score(X, y), abs=1e-12)
    bayesvm.save(model, tmp_path / "model.skops")
    loaded = bayesvm.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict_proba(rows[:50]), model.predict_proba(X[:50]))
    back = model.to_local()
    assert type(back) is BayesianSVC
    assert back.get_params() == model.get_params()
    np.testing.assert_array_equal(back.predict_proba(X[:50]), model.predict_proba(X[:50]))
    np.testing.assert_array_equal(back.loo_confidence_, model.loo_confidence_)


def test_is_an_estimator_with_the_same_arguments():
    assert DaskBayesianSVC().get_params() == BayesianSVC().get_params()
    copy = clone(DaskBayesianSVC(n_inducing=7, verbose=1))
    assert type(copy) is DaskBayesianSVC
    assert (copy.n_inducing, copy.verbose) == (7, 1)
    assert repr(copy) == "DaskBayesianSVC(n_inducing=7, verbose=1)"


def test_progress_is_printed_here(streaming, capfd):
    DaskBayesianSVC(**ARGUMENTS, verbose=1).fit(*blocks(4096))
    assert "bound" in capfd.readouterr().err


def test_refusals(streaming):
    rows, labels = blocks(4096)
    with pytest.raises(ValueError, match="n_inducing=0"):
        DaskBayesianSVC(n_inducing=0).fit(rows, labels)
    with pytest.raises(ValueError, match=r"NaN.* in row 7000 "):
        DaskBayesianSVC().fit(da.where(da.arange(N, chunks=4096)[:, None] == 7000, np.nan, rows), labels)
    with pytest.raises(ValueError, match="at least two classes"):
        DaskBayesianSVC().fit(rows, da.zeros(N, chunks=4096))
    with pytest.raises(ValueError, match="inference='ecm' holds all rows in memory"):
        DaskBayesianSVC(inference="ecm").fit(rows, labels)
    with pytest.raises(ValueError, match=r"more than \d+; use inference='coordinate'$"):
        DaskBayesianSVC(inference="ecm").fit(rows, labels)
    for given in ({"inference": "natural"}, {"batch_size": 500}):
        with pytest.raises(ValueError, match=r"minibatches.* use inference='coordinate'"):
            DaskBayesianSVC(**ARGUMENTS, **given).fit(da.from_delayed(never(), (N, 3), float), labels)
    with pytest.raises(ValueError, match="y is missing"):
        DaskBayesianSVC().fit(rows)
    with pytest.raises(AttributeError, match="not fitted"):
        DaskBayesianSVC().predict(rows)


# Slow; blocks and schedulers that cannot be seen run fast.
@pytest.mark.slow
def test_workers_cannot_be_seen_in_the_posterior(streaming, local, in_use):
    for workers in (3, 2, 1):  # to start processes takes longer than to end them
        in_use.cluster.scale(workers)
        in_use.wait_for_workers(workers)
        while len(in_use.scheduler_info()["workers"]) > workers:
            time.sleep(0.05)
        same_posterior(DaskBayesianSVC(**ARGUMENTS).fit(*blocks(4096)), local)
