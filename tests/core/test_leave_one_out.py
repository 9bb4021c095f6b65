"""Removing a row's own sites in closed form (eqs. 5.1, 5.2)."""

import pytest
import torch

from bayesvm._core.leave_one_out import MIN_REMAINING, cavity, part_left_out
from tests.problems import normal, uniform
from tests.reference import gaussian_from_sites

N, C, P = 10, 3, 4


def _problem(seed: int, weight: torch.Tensor):
    A, W, G = normal(N, P, seed=seed), uniform(N, C, seed=seed + 1), normal(N, C, seed=seed + 2)
    m, S = gaussian_from_sites(A, weight[:, None] * W, weight[:, None] * G)
    F, V = A @ m.mT, torch.einsum("np,cpq,nq->nc", A, S, A)
    return A, W, G, F, V


@pytest.mark.parametrize("kind", ["ones", "whole numbers", "fractions", "below one"])
def test_cavity_is_a_refit_without_the_row_or_one_of_its_copies(kind):
    weight = {
        "ones": torch.ones(N).double(),
        "whole numbers": 1.0 + (torch.arange(N) % 4).double(),
        "fractions": uniform(N, seed=9, low=1.1, high=3.7),
        "below one": uniform(N, seed=9, low=0.1, high=0.9),
    }[kind]
    A, W, G, F, V = _problem(0, weight)
    unit = part_left_out(weight)[:, None]
    left = cavity(F, V, unit * W, unit * G)
    for n in range(N):
        less = weight.clone()
        less[n] = float(weight[n]) - 1.0 if kind == "whole numbers" else 0.0
        m, S = gaussian_from_sites(A, less[:, None] * W, less[:, None] * G)
        torch.testing.assert_close(left.F[n], m @ A[n], rtol=0, atol=1e-10)
        torch.testing.assert_close(left.V[n], torch.einsum("p,cpq,q->c", A[n], S, A[n]), rtol=0, atol=1e-10)


def test_one_copy_of_whole_weights_and_all_of_others_is_left_out():
    tenths = sum([torch.tensor(0.1, dtype=torch.float64)] * 30)  # 3 but for rounding
    weight = torch.tensor([1.0, 2.0, 7.0, 0.5, 1.5, 2.001, 24.6, 0.0, tenths], dtype=torch.float64)
    expected = torch.tensor([1.0, 1.0, 1.0, 0.5, 1.5, 2.001, 24.6, 0.0, 1.0], dtype=torch.float64)
    assert float(tenths) != 3.0
    assert torch.equal(part_left_out(weight), expected)
    assert torch.equal(part_left_out(weight, torch.zeros(9).long(), 1), expected)
    single = torch.tensor([3.0, 2.5, 1e5, 1e5 + 0.5, 1e7], dtype=torch.float32)
    # What single precision cannot tell from a whole number is none.
    assert part_left_out(single).tolist() == [1.0, 2.5, 1.0, 1e5 + 0.5, 1e7]


def test_weights_that_all_rows_of_a_class_share_are_no_copies():
    n = 20
    y = torch.arange(4).repeat_interleave(n)
    copies = 1.0 + torch.arange(n).double() % 3
    weight = torch.cat([torch.full((n,), 2.0).double(), 5 * copies, copies, 2 + copies])
    expected = torch.cat([torch.full((n,), 2.0), torch.full((n,), 5.0), torch.ones(2 * n)]).double()
    assert torch.equal(part_left_out(weight, y, 5), expected)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    assert torch.equal(part_left_out(weight[order], y[order], 5), expected[order])
    # A part of the rows cannot tell, nor can a class of few rows.
    assert torch.equal(part_left_out(weight), torch.ones(4 * n).double())
    assert torch.equal(part_left_out(weight[:10], y[:10], 5), torch.ones(10).double())


def test_remaining_share_is_the_ratio_of_variances_with_and_without_the_row():
    _, W, G, F, V = _problem(20, torch.ones(N).double())
    left = cavity(F, V, W, G)
    torch.testing.assert_close(left.remaining, V / left.V)
    assert bool((left.remaining < 1).all())


def test_a_row_without_sites_is_not_needed():
    _, W, G, F, V = _problem(30, torch.ones(N).double())
    left = cavity(F, V, torch.zeros_like(W), torch.zeros_like(G))
    torch.testing.assert_close(left.F, F)
    torch.testing.assert_close(left.V, V)


def test_a_row_that_alone_determines_q_is_clipped_and_reported():
    one = torch.ones(1, 1, dtype=torch.float64)
    left = cavity(one, 0.9999999 * one, one, one)
    assert float(left.remaining) == MIN_REMAINING
    assert bool(torch.isfinite(left.F).all())
    assert bool(torch.isfinite(left.V).all())
