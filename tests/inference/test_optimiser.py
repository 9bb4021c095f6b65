"""Our few lines of Adam against torch's."""

import torch

from bayesvm._inference.adam import Adam
from tests.problems import normal


def _objective(x, Y):
    return -(x - 1.0).square().sum() - torch.cosh(Y).sum() + (x[:, None] * Y).sum()


def test_path_is_that_of_torch_s_adam():
    start = (normal(3, seed=0), normal(3, 2, seed=1))
    ours = [t.clone().requires_grad_() for t in start]
    theirs = [t.clone().requires_grad_() for t in start]
    adam = Adam(ours, betas=(0.9, 0.95))
    reference = torch.optim.Adam(theirs, betas=(0.9, 0.95), lr=1.0, foreach=False)
    for step in range(25):
        rate = 0.1 / (1 + 0.1 * step)
        adam.ascend(_objective(*ours), rate)
        reference.param_groups[0]["lr"] = rate
        reference.zero_grad()
        (-_objective(*theirs)).backward()
        reference.step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.detach(), b.detach(), atol=1e-6, rtol=0)
    assert float((ours[0].detach() - start[0]).abs().min()) > 0.1


def test_parameters_the_objective_does_not_use_stay_where_they_are():
    used, unused = normal(2, seed=2).requires_grad_(), normal(2, seed=3).requires_grad_()
    before = unused.detach().clone()
    Adam([used, unused]).ascend(-used.square().sum(), 0.1)
    assert torch.equal(unused.detach(), before)
