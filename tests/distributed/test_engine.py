"""Sums over chunks are the same whoever computes them, and survive a killed worker."""

import os
import subprocess
import sys

import dask
import dask.array as da
import numpy as np
import pytest

from bayesvm._fit.engine import LocalEngine
from bayesvm.distributed._engine import DaskEngine, held
from bayesvm.distributed._inputs import as_groups
from tests.distributed.passes import Doubled, KilledOnce, Refusing, SumOfX

N = 100_000
X = np.random.default_rng(0).integers(-1000, 1000, (N, 3)) / 8.0  # sums of these are exact
y = np.arange(N)


def engine(chunks=4096):
    groups = as_groups(da.from_array(X, chunks=(chunks, 3)), da.from_array(y, chunks=chunks), None)
    return DaskEngine(held(groups.tasks), groups.n_features, groups.feature_names)


def check(total, factor=1.0):
    np.testing.assert_array_equal(total.X, factor * X.sum(0))
    assert total.labels == y.tolist()


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
@pytest.mark.parametrize("chunks", [1000, 4096, 70_001, N])
def test_total_is_the_sum_in_order(scheduler, chunks):
    with dask.config.set(scheduler=scheduler):
        check(engine(chunks).total(SumOfX()))


def test_total_on_a_cluster(in_use):
    whole = engine()
    check(whole.total(SumOfX()))
    check(whole.total(SumOfX()))  # parts of the first pass were not changed


def test_many_chunks_are_merged_as_a_tree():
    root = engine()._merged(dask.delayed(SumOfX()))
    tasks = [key for key in root.dask.to_dict() if str(key).startswith("_plus")]
    assert len(tasks) == 4 + 1  # 25 chunks, eight at a time


def test_a_pass_is_in_the_graph_once():
    root = engine()._merged(dask.delayed(SumOfX()))
    nodes = root.dask.to_dict().values()
    assert sum(isinstance(getattr(node, "value", None), SumOfX) for node in nodes) == 1


def test_rows_are_prepared_once_and_kept(in_use):
    kept = engine().kept(Doubled())
    check(kept.total(SumOfX()), 2.0)
    check(kept.kept(Doubled()).total(SumOfX()), 4.0)


def test_rows_are_prepared_without_a_cluster():
    with dask.config.set(scheduler="threads"):
        check(engine().kept(Doubled()).total(SumOfX()), 2.0)


def test_errors_of_a_pass_come_back_as_they_are(in_use):
    with pytest.raises(ValueError, match="column 3 holds infinity"):
        engine().total(Refusing())


def test_empty_blocks_do_not_matter():
    rows = da.concatenate([da.from_array(X[:0], chunks=(1, 3)), da.from_array(X, chunks=(30_000, 3))])
    groups = as_groups(rows, y, None)
    check(DaskEngine(groups.tasks, 3, None).total(SumOfX()))
    none = as_groups(da.from_array(X[:0], chunks=(1, 3)), y[:0], None)
    with pytest.raises(ValueError, match="no row"):
        DaskEngine(none.tasks, 3, None).total(SumOfX())


def test_a_killed_worker_changes_nothing(in_use, tmp_path):
    before = set(in_use.run(os.getpid).values())
    check(engine().total(KilledOnce(SumOfX(), str(tmp_path), 12)))
    assert len(list(tmp_path.iterdir())) > 25  # some chunks were computed again
    in_use.wait_for_workers(len(before))
    assert set(in_use.run(os.getpid).values()) != before


def test_cluster_knows_what_it_may_keep(in_use):
    limits = [w["memory_limit"] for w in in_use.scheduler_info()["workers"].values()]
    assert 0 < engine().may_keep < sum(limits)
    with dask.config.set(scheduler="threads"):
        assert engine().may_keep == LocalEngine.may_keep


REUSE = """
import resource, sys
import numpy as np
from bayesvm.distributed._engine import reuse_freed_memory
told = reuse_freed_memory()
for _ in range(50):
    np.ones(1_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    np.ones(1_000_000)
print(told, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _reuse(**environment):
    done = subprocess.run(
        [sys.executable, "-c", REUSE], env=environment, capture_output=True, text=True, check=True
    )
    told, faults = done.stdout.split()
    return told == "True", int(faults)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc")
def test_temporaries_are_reused_in_a_worker_alone():
    """Workers keep them for the next pass; the user's own process is left alone."""
    told, faults = _reuse(MALLOC_TRIM_THRESHOLD_="65536")
    assert told
    assert faults < 1000  # 50 times 2000 pages otherwise
    told, _ = _reuse()
    assert not told
