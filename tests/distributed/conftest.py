"""One cluster of real processes for all tests here; its dashboard on any free port."""

import contextlib

import pytest
from dask.distributed import Client, LocalCluster


@pytest.fixture(scope="session")
def client():
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    )
    with Client(cluster, set_as_default=False) as client:
        yield client
    # A cluster whose workers came and went may hear of one that it has forgotten already
    # (distributed 2026.8, Cluster._update_worker_status), and says so when it is closed.
    with contextlib.suppress(KeyError):
        cluster.close()


@pytest.fixture
def in_use(client):
    """The cluster, as what Dask uses by default."""
    with client.as_current():
        yield client
