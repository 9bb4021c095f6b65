"""The paper's recipe: its bound is the same bound, and minibatches estimate it without bias."""

import pytest
import torch

from bayesvm._core import gaussian
from bayesvm._core.gaussian import Natural
from bayesvm._core.likelihoods import MulticlassHinge
from bayesvm._inference import adam, coordinate
from bayesvm._inference.rivals import AllRivals, OneRival
from bayesvm._inference.task import Member, Settings, Task, evaluate
from bayesvm._progress import silent
from tests.inference.bounds import settle
from tests.problems import classification_rows, generator, uniform

RULES = [AllRivals(MulticlassHinge()), OneRival(sampled=False), OneRival(sampled=True, seed=2)]


def _free(q):
    """Means and unconstrained covariance factors of q."""
    L = torch.linalg.cholesky(torch.cholesky_inverse(q.R))
    return q.m, L.tril(-1) + torch.diag_embed(L.diagonal(dim1=1, dim2=2).log())


def _estimate(rows, rule, q, index, step=0, p=None):
    m, raw = _free(q)
    weight = rows.weight[index]
    scale = rows.weight.sum() / weight.sum()
    bound = adam._minibatch_bound(rows, rule, rows.params, rows.Z, m, raw, p, index, weight, scale, step)
    return float(bound), float(1.0 / scale)


@pytest.mark.parametrize("rule", RULES[:2])
def test_bound_of_all_rows_is_the_bound_of_coordinate_ascent(rule):
    rows = classification_rows(40, 3, 6, seed=0)
    q = settle(rows, RULES[0], 3, steps=3)
    base = Natural.prior(3, rows.Lz)
    direct = evaluate(rows, rule, q, base, 0).value - gaussian.kl(q, gaussian.prior(3, 6, q.m)).sum()
    assert _estimate(rows, rule, q, torch.arange(40))[0] == pytest.approx(float(direct), abs=1e-7)


@pytest.mark.parametrize("rule", RULES)
def test_minibatch_bounds_average_to_the_full_one(rule):
    rows = classification_rows(50, 4, 6, seed=1, weight=uniform(50, seed=2, low=0.5, high=2.0))
    q = settle(rows, RULES[0], 4, steps=3)
    full, _ = _estimate(rows, rule, q, torch.arange(50))
    parts = [
        _estimate(rows, rule, q, index) for index in torch.randperm(50, generator=generator(3)).split(16)
    ]
    assert sum(share for _, share in parts) == pytest.approx(1.0)
    assert sum(value * share for value, share in parts) == pytest.approx(full, abs=1e-8)
    assert max(abs(value - full) for value, _ in parts) > 0.1  # each alone is another number


def test_full_batch_adam_reaches_the_coordinate_optimum():
    rows = classification_rows(40, 3, 5, seed=4)
    base = Natural.prior(3, rows.Lz)
    best = coordinate.ascend(rows, RULES[0], base, base, 200, 1e-6, silent)
    options = Settings(
        rate=0.05, batch_size=40, max_iter=400, tol=-1.0, learn_kernel=False, learn_inducing=False
    )
    result = adam.ascend(rows, RULES[0], base, options, silent)
    assert result.ascent.curve[-1] == pytest.approx(best.curve[-1], abs=0.02)
    assert result.ascent.curve[-1] <= best.curve[-1] + 1e-3
    A = rows.features(rows.X).A
    torch.testing.assert_close(gaussian.mean(result.ascent.q, A), gaussian.mean(best.q, A), atol=0.05, rtol=0)


def _forgotten(rows):
    """A base that is not the prior."""
    prior = Natural.prior(3, rows.Lz)
    P = rows.n_inducing
    return prior.plus(2.0 * prior.precision + 0.3, 0.5 * torch.arange(3.0 * P).reshape(3, P).double() / P)


def test_divergence_is_that_from_the_base():
    rows = classification_rows(40, 3, 6, seed=6)
    q = settle(rows, RULES[0], 3, steps=3)
    p = gaussian.from_natural(*_forgotten(rows))
    (ours, _), (prior, _) = (_estimate(rows, RULES[0], q, torch.arange(40), p=x) for x in (p, None))
    difference = gaussian.kl(q, p) - gaussian.kl(q, gaussian.prior(3, 6, q.m))
    assert ours - prior == pytest.approx(-float(difference.sum()), abs=1e-9)
    assert abs(prior - ours) > 1.0


def test_what_earlier_rows_taught_takes_the_place_of_the_prior():
    rows = classification_rows(40, 3, 5, seed=7)
    forgotten = _forgotten(rows)
    best = coordinate.ascend(rows, RULES[0], forgotten, forgotten, 200, 1e-7, silent)
    settings = Settings(rate=0.05, batch_size=40, max_iter=500, tol=-1.0)
    task = Task(rows, Member(RULES[0].likelihood, RULES[0]), forgotten, forgotten, settings)
    found = adam.METHOD.run(task, silent).ascent
    assert found.curve[-1] == pytest.approx(best.curve[-1], abs=0.02)
    torch.testing.assert_close(found.q.m, best.q.m, atol=0.05, rtol=0)


def test_method_names_what_is_missing():
    class Other:
        shift_invariant = True

    likelihood = MulticlassHinge()
    assert "exact expectations" in adam.METHOD.missing(Member(likelihood, Other()))
    assert all(adam.METHOD.missing(Member(likelihood, rule)) is None for rule in RULES)


def test_training_kernel_and_inducing_points_raises_the_bound_further():
    rows = classification_rows(60, 3, 4, seed=5)
    base = Natural.prior(3, rows.Lz)
    fixed, free = (
        adam.ascend(
            rows,
            RULES[0],
            base,
            Settings(
                rate=0.05, batch_size=60, max_iter=150, tol=-1.0, learn_kernel=move, learn_inducing=move
            ),
            silent,
        )
        for move in (False, True)
    )
    assert free.ascent.curve[-1] > fixed.ascent.curve[-1] + 0.5
    assert not torch.equal(free.rows.Z, rows.Z)
    assert torch.equal(fixed.rows.Z, rows.Z)
    assert all(torch.equal(v, rows.params[k]) for k, v in fixed.rows.params.items())
