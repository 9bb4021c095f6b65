"""Small fits take one thread and give the others back."""

from contextlib import nullcontext

import pytest
import torch

from bayesvm import BayesianSVC
from bayesvm._threads import threads_for
from tests.estimators.data import FAST, three_blobs


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_small_work_takes_one_thread_and_large_work_all(four_threads):
    with threads_for(1e3):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 4
    with threads_for(1e12):
        assert torch.get_num_threads() == 4


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
