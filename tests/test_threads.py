"""Fits compute on one thread of torch, deal blocks to several, and change nothing for others."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch

from bayesvm import BayesianSVC
from bayesvm._inference import rivals
from bayesvm._threads import one_thread, thread_workers
from tests.estimators.data import FAST, three_blobs


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_one_thread_for_operations_and_all_for_blocks(four_threads):
    with one_thread():
        assert torch.get_num_threads() == 1
        with thread_workers(3) as workers:
            assert workers.size == 3
            assert (
                workers.map(lambda _: (torch.get_num_threads(), torch.is_grad_enabled()), "abc")
                == [(1, False)] * 3
            )
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 4


def test_blocks_on_several_threads_add_up_to_the_same(monkeypatch):
    X, y = three_blobs(400)
    monkeypatch.setattr(rivals, "_ALL_NUMBERS", 30_000)  # several blocks
    found = []
    before = torch.get_num_threads()
    for n in (1, 3):
        torch.set_num_threads(n)
        found.append(BayesianSVC(**FAST).fit(X, y).predict_latent(X)[0])
    torch.set_num_threads(before)
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("fails", [False, True])
def test_a_fit_changes_nothing_for_others(four_threads, monkeypatch, fails):
    from bayesvm._fit import fitting

    seen = []
    original = fitting.train

    def watched(*arguments):
        seen.append(torch.get_num_threads())
        if fails:
            raise KeyError
        return original(*arguments)

    monkeypatch.setattr(fitting, "train", watched)
    with pytest.raises(KeyError) if fails else nullcontext():
        BayesianSVC(**FAST).fit(*three_blobs())
    assert seen == [1]
    assert torch.get_num_threads() == 4
