"""Coarser copies of images, by hand, and what they say about attacks."""

import pytest
import torch
from torch import nn

from bayesvm.adversarial import ImageModel
from bayesvm.adversarial._attack import SqueezingAwareAttack, fgsm
from bayesvm.adversarial._model import Rows, log_odds_against, log_probabilities
from bayesvm.adversarial._scores import SQUEEZING, fewer_levels, smoothed


@pytest.fixture
def model():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(2 * 36, 16), nn.ReLU(), nn.Linear(16, 3))
    return ImageModel(network)


@pytest.fixture
def images():
    return torch.rand(40, 2, 6, 6, generator=torch.Generator().manual_seed(1))


def test_fewer_levels_by_hand():
    x = torch.tensor([0.0, 0.2, 0.49, 0.51, 0.8, 1.0]).reshape(1, 1, 2, 3)
    assert fewer_levels(x, 1).flatten().tolist() == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    thirds = torch.tensor([0.0, 1.0, 1.0, 2.0, 2.0, 3.0]) / 3.0
    torch.testing.assert_close(fewer_levels(x, 2).flatten(), thirds)


def test_the_gradient_goes_straight_through(images):
    x = images.requires_grad_(True)
    (slope,) = torch.autograd.grad((2.0 * fewer_levels(x, 1)).sum(), x)
    assert torch.equal(slope, torch.full_like(x, 2.0))


def test_smoothing_pixel_by_pixel(images):
    found = smoothed(images)
    weights = {-1: 0.25, 0: 0.5, 1: 0.25}
    for i, j in ((0, 0), (2, 3), (5, 1)):
        expected = torch.zeros(40, 2)
        for di, wi in weights.items():
            for dj, wj in weights.items():
                row, column = (abs(k) if k < 6 else 10 - k for k in (i + di, j + dj))
                expected += wi * wj * images[:, :, row, column]
        torch.testing.assert_close(found[:, :, i, j], expected)
    torch.testing.assert_close(smoothed(torch.full_like(images, 0.3)), torch.full_like(images, 0.3))


def test_responses_are_changes_of_the_favourites_odds(model, images):
    rows = model.rows(images)
    for name, squeeze in (("one_bit", lambda x: x.round()), ("smoothing", smoothed)):
        before, after = (log_probabilities(model.rows(x).output).double() for x in (images, squeeze(images)))
        favourite = before.argmax(1)
        expected = log_odds_against(after, favourite) - log_odds_against(before, favourite)
        torch.testing.assert_close(SQUEEZING[name](rows), expected)


def test_without_images_there_is_no_response(model, images):
    assert SQUEEZING["one_bit"](Rows(model.rows(images).output)) is None


def test_an_image_that_squeezing_leaves_alone_does_not_respond(model, images):
    rows = model.rows(images.round())
    assert SQUEEZING["one_bit"](rows).abs().max() == 0.0
    assert SQUEEZING["smoothing"](rows).abs().max() > 0.1


def test_the_aware_attack_stays_within_bounds_and_hides_better(model, images):
    y = model(images).argmax(1)
    attack = SqueezingAwareAttack(model, 0.4, n_steps=15)
    moved = attack.attack(images, y)
    assert (moved - images).abs().max() <= 0.4 + 1e-6
    assert moved.min() >= 0.0
    assert moved.max() <= 1.0
    plain = fgsm(model, images, y, 0.4)

    def distance(x):
        """Of all that it watches from what the clean images gave, in standard deviations."""
        clean, now = (
            {k: value.detach() for k, value in attack._values(model.rows(v)).items()} for v in (images, x)
        )
        assert set(SQUEEZING) <= set(now)
        return sum(float(((now[k] - clean[k]).abs() / clean[k].std()).mean()) for k in now)

    both = (model(moved).argmax(1) != y) & (model(plain).argmax(1) != y)
    assert both.sum() > 5
    images, moved, plain = images[both], moved[both], plain[both]
    assert distance(moved) < distance(plain)
