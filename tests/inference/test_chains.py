"""How long chains run, what is kept, and what happens when they are stopped."""

import math
from dataclasses import replace

import pytest
import torch

from bayesvm._core.chains import judge
from bayesvm._core.likelihoods import BinaryHinge, MulticlassHinge, RobustMax
from bayesvm._inference import gibbs, sampling
from bayesvm._inference import slice as elliptical
from bayesvm._inference.sampling import sample
from tests.inference.posteriors import chains_of, task_of
from tests.problems import classification_rows


@pytest.fixture
def task():
    rows = classification_rows(20, 2, 6, seed=0)
    return task_of(rows, BinaryHinge(), 1, fitc=True, max_iter=3000, n_draws=300)


class Independent:
    """Draws from a normal distribution that begin far away and settle slowly."""

    def __init__(self, task, ascent):
        self.step, self.generator = 0, torch.Generator().manual_seed(0)
        self.v = self.f = torch.zeros(4, len(task.rows), 1, dtype=torch.float64)

    def advance(self):
        self.step += 1
        noise = torch.randn(self.f.shape, generator=self.generator, dtype=torch.float64)
        apart = 50.0 * math.exp(-self.step / 100.0) * torch.arange(4)[:, None, None]
        self.f = noise + apart
        self.v = self.f.mT


def _with(task, **settings):
    return task._replace(settings=replace(task.settings, **settings))


def test_chains_end_when_they_agree(task):
    chains = chains_of(gibbs.METHOD, task)
    assert chains.converged
    assert chains.steps < 3000
    assert chains.v.shape[:2] == (4, 300)
    assert chains.f.shape == (4, 300, 20, 1)
    assert chains.log_likelihood.shape == (4, 300, 20)
    torch.testing.assert_close(
        chains.log_likelihood,
        BinaryHinge().log_likelihood(task.rows.y, chains.f.flatten(0, 1)).view(4, 300, 20),
    )


def test_a_slow_beginning_is_forgotten(task):
    chains = sample(task, Independent, lambda step: False).ascent.chains
    assert chains.converged
    assert chains.thinning >= 2
    assert float(chains.f.mean().abs()) < 0.05
    assert float(chains.f.std()) == pytest.approx(1.0, abs=0.03)


def test_too_few_steps_are_reported_as_not_converged(task):
    outcome = gibbs.METHOD.run(_with(task, max_iter=40), lambda step: False)
    assert not outcome.ascent.converged
    assert outcome.ascent.n_iter == 40
    assert not outcome.ascent.chains.converged
    assert outcome.ascent.chains.v.shape[1] == 20  # half of the steps are warm-up


@pytest.mark.parametrize("method", [gibbs.METHOD, elliptical.METHOD])
def test_one_step_gives_one_draw(task, method):
    chains = chains_of(method, _with(task, max_iter=1))
    assert chains.v.shape[:2] == (4, 1)
    assert not chains.converged


def test_draws_keep_an_even_distance_after_halving():
    kept = sampling._Kept(10, torch.float64, [], [])
    kept.v = [torch.tensor(float(i)) for i in range(1, 11)]
    kept.f = list(kept.v)
    left = kept.wanted - kept.room_after_halving
    kept.halve()
    assert [int(v) for v in kept.v] == [6, 8, 10]
    assert len(kept.v) == left == len(kept.f)


def test_interrupting_keeps_what_there_is(task):
    def interrupt(step):
        if step.stage == "chains" and step.number >= 200:
            raise KeyboardInterrupt
        return False

    ascent = gibbs.METHOD.run(task, interrupt).ascent
    assert ascent.interrupted
    assert 50 < ascent.chains.v.shape[1] < 300
    assert torch.isfinite(ascent.chains.f).all()


def test_interrupting_the_variational_fit_leaves_q(task):
    def interrupt(step):
        raise KeyboardInterrupt

    ascent = gibbs.METHOD.run(task, interrupt).ascent
    assert ascent.interrupted
    assert ascent.chains is None


def test_stopping_at_a_step_returns_its_state(task):
    states = []

    def stop(step):
        if step.stage == "chains" and step.number >= 180:
            states.append(step.state())
            assert step.total == 3000
            assert math.isfinite(step.bound)
            return True
        return False

    outcome = gibbs.METHOD.run(task, stop)
    assert torch.equal(outcome.ascent.chains.v, states[0].ascent.chains.v)
    assert not outcome.ascent.interrupted


def test_many_latents_are_kept_in_single_precision_and_fewer_draws(task, monkeypatch):
    monkeypatch.setattr(sampling, "_SINGLE_FROM", 1000)
    monkeypatch.setattr(sampling, "_MOST_BYTES", 4 * 20 * 4 * 60)
    chains = chains_of(gibbs.METHOD, task)
    assert chains.f.dtype == torch.float32
    assert chains.f.shape[1] == 60
    assert chains.v.dtype == torch.float64


def test_chains_start_far_apart_and_classes_stay_centred():
    rows = classification_rows(30, 3, 30, seed=1)
    task = task_of(rows, MulticlassHinge(), 3, fitc=True, max_iter=300, n_draws=100)
    ascent = elliptical.METHOD.run(_with(task, max_iter=1), lambda step: False).ascent
    start = elliptical.SliceChains(task, ascent)
    later = chains_of(elliptical.METHOD, task)
    assert float(start.v.std(0).mean()) > 1.3 * float(later.v[:, -50:].std((0, 1)).mean())
    assert float(later.f.sum(3).abs().max()) < 1e-8


def test_the_worst_quantity_decides():
    good = torch.randn(4, 500, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert judge(good, 500).converged
    good[0, :, 7] += 3.0
    verdict = judge(good, 500)
    assert not verdict.converged
    assert verdict.r_hat > 1.1


@pytest.mark.parametrize(("n_draws", "enough"), [(60, 120), (100, 200), (200, 400), (1000, 400)])
def test_half_of_few_draws_is_enough(task, n_draws, enough):
    chains = sample(_with(task, n_draws=n_draws), Independent, lambda step: False).ascent.chains
    assert chains.verdict.enough == enough
    assert chains.converged


def test_the_first_of_the_wanted_draws_are_not_called_enough():
    few = torch.randn(4, 30, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert judge(few, 30).converged
    assert not judge(few, 500).converged


class Wandering(Independent):
    """Chains that agree only once their far beginning is out of the window."""

    def advance(self):
        super().advance()
        if self.step <= 1350:
            self.f = self.f + 5.0 * torch.arange(4)[:, None, None]
            self.v = self.f.mT


def test_transitions_that_are_too_few_for_another_doubling_are_used(task):
    """300 draws until 400, then 225 more two apart until 850; four apart would need 1750."""
    short = _with(task, max_iter=1700)
    stubborn = sample(_with(task, max_iter=1300), Wandering, lambda step: False).ascent.chains
    assert (stubborn.steps, stubborn.thinning, stubborn.converged) == (1300, 2, False)
    assert stubborn.v.shape[1] == 300
    # The window has passed all that was before 1350 by 1950; by 1700 some of it is left.
    left = sample(short, Wandering, lambda step: False).ascent.chains
    assert (left.steps, left.thinning, left.converged) == (1700, 2, False)


def test_a_window_that_rolls_ends_the_chains_when_they_agree(task):
    class Late(Independent):
        def advance(self):
            super().advance()
            if self.step <= 900:
                self.f = self.f + 5.0 * torch.arange(4)[:, None, None]
            self.v = self.f.mT
            seen.append(self.f)

    seen = []
    chains = sample(_with(task, max_iter=1740), Late, lambda step: False).ascent.chains
    assert chains.converged
    assert chains.thinning == 2
    assert 1400 < chains.steps < 1740
    # The last draws, evenly spaced: the newest in place of the oldest.
    expected = torch.stack(seen[chains.steps - 599 : chains.steps : 2], 1)
    assert torch.equal(chains.f, expected)


def test_likelihoods_that_are_not_log_concave_start_from_steps_that_bear_it(task):
    begin = task_of(task.rows, RobustMax(), 1, fitc=True, max_iter=200, n_draws=50)
    stages = []

    def listen(step):
        stages.append(step.stage)
        return False

    outcome = elliptical.METHOD.run(begin, listen)
    assert set(stages) == {"posterior", "chains"}
    assert torch.equal(outcome.rows.Z, task.rows.Z)
    assert outcome.ascent.curve[-1] > outcome.ascent.curve[0]
    assert torch.isfinite(outcome.ascent.chains.f).all()
    right = (outcome.ascent.chains.f.flatten(0, 1)[..., 0] > 0) == (task.rows.y == 1)
    assert float(right.double().mean()) > 0.8


@pytest.mark.parametrize("method", [gibbs.METHOD, elliptical.METHOD])
def test_single_precision_samples_the_same_posterior(task, method):
    rows = task.rows
    single = replace(
        rows,
        X=rows.X.float(),
        weight=rows.weight.float(),
        Z=rows.Z.float(),
        params={k: v.float() for k, v in rows.params.items()},
    )
    double = chains_of(method, task).f.flatten(0, 1)
    other = chains_of(method, task_of(single, BinaryHinge(), 1, fitc=True, max_iter=3000, n_draws=300))
    f = other.f.flatten(0, 1).double()
    assert float(((f.mean(0) - double.mean(0)) / double.std(0)).abs().max()) < 0.25
    assert float((f.std(0) / double.std(0)).log().abs().max()) < 0.2
