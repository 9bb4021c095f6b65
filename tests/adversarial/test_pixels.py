"""What pixels give away, by hand."""

import numpy as np
import pytest
import torch

from bayesvm.adversarial import random_signs, roughness


def test_smooth_images_are_not_rough():
    ramp = torch.linspace(0.0, 1.0, 8).expand(2, 1, 8, 8)
    assert torch.allclose(roughness(ramp), torch.zeros(2, dtype=torch.float64), atol=1e-7)


def test_second_differences_by_brute_force():
    images = torch.rand(3, 1, 6, 7, generator=torch.Generator().manual_seed(0))
    kernel = np.outer([1.0, -2.0, 1.0], [1.0, -2.0, 1.0]) / 6.0
    for image, found in zip(images.double().numpy(), roughness(images), strict=True):
        windows = np.lib.stride_tricks.sliding_window_view(image[0], (3, 3))
        assert np.isclose(float(found), np.quantile(np.abs((windows * kernel).sum((2, 3))), 0.25))


def test_edges_in_all_colours_do_not_count():
    grey = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(roughness(grey.expand(-1, 3, -1, -1)), torch.zeros(2, dtype=torch.float64))
    noisy = random_signs(grey.expand(-1, 3, -1, -1), 0.1)
    assert (roughness(noisy) > 0).all()


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="shape"):
        roughness(torch.zeros(1, 8, 8))
    with pytest.raises(ValueError, match="3 x 3"):
        roughness(torch.zeros(1, 1, 2, 8))
