"""Ctrl-C in the middle of a fit leaves the last good state."""

import math

import pytest
import torch

from bayesvm._core.gaussian import Natural
from bayesvm._core.likelihoods import MulticlassHinge
from bayesvm._inference import adam, coordinate, natural
from bayesvm._inference.rivals import AllRivals, OneRival
from bayesvm._inference.task import Settings
from bayesvm._progress import silent
from tests.inference.bounds import bound, covariance
from tests.problems import classification_rows

EXACT = AllRivals(MulticlassHinge())


class InterruptAt:
    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, step):
        if step.number == self.step:
            raise KeyboardInterrupt
        return False


class StopAt(InterruptAt):
    def __call__(self, step):
        return step.number == self.step


def _run(method, rows, progress):
    base = Natural.prior(3, rows.Lz)
    if method == "coordinate":
        return coordinate.ascend(rows, EXACT, base, base, 30, 1e-12, progress)
    if method == "sampled":
        return coordinate.ascend(rows, OneRival(True, 0), base, base, 30, 1e-12, progress)
    if method == "natural":
        return natural.ascend(rows, EXACT, base, base, 20, 30, 1e-12, 0, progress)
    settings = Settings(
        rate=0.05, batch_size=20, max_iter=30, tol=-1.0, learn_kernel=True, learn_inducing=True
    )
    return adam.ascend(rows, EXACT, base, settings, progress).ascent


@pytest.mark.parametrize("method", ["coordinate", "sampled", "natural", "adam"])
def test_interrupted_ascent_returns_what_stopping_there_returns(method):
    rows = classification_rows(60, 3, 6, seed=0)
    broken, stopped = (_run(method, rows, progress) for progress in (InterruptAt(4), StopAt(4)))
    assert broken.interrupted
    assert not stopped.interrupted
    torch.testing.assert_close(broken.q.m, stopped.q.m)
    torch.testing.assert_close(broken.q.R, stopped.q.R)
    torch.testing.assert_close(broken.sites.W, stopped.sites.W)
    assert broken.curve == stopped.curve
    assert all(math.isfinite(b) for b in broken.curve)


def test_interrupted_q_is_the_one_whose_bound_is_last_on_the_curve():
    rows = classification_rows(60, 3, 6, seed=1)
    result = _run("coordinate", rows, InterruptAt(3))
    value = lambda F, s2: MulticlassHinge().row_terms(rows.y, F, s2).value  # noqa: E731
    direct = bound(rows, value, result.q.m, covariance(result.q))
    assert result.curve[-1] == pytest.approx(float(direct), abs=1e-9)


def test_without_interruption_nothing_is_reported_as_interrupted():
    rows = classification_rows(60, 3, 6, seed=2)
    assert not _run("coordinate", rows, silent).interrupted
