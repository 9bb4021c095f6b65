"""Crops, flips and holes against the image by image way, and their randomness."""

import pytest
import torch
import torch.nn.functional as F

from bayesvm_studies.images.networks import CropFlipCutout, Draws, Standardise, augmented


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def images(n=12, channels=3, height=32, width=32):
    return torch.randint(0, 256, (n, channels, height, width), dtype=torch.uint8, generator=generator(9))


def one_by_one(X, draws, padding, hole, fill):
    """Pad, slice, flip, fill."""
    out = []
    _, _, height, width = X.shape
    for n, image in enumerate(X):
        padded = F.pad(image[None].double(), (padding,) * 4, mode="reflect")[0]
        down, right = int(draws.down[n]), int(draws.right[n])
        crop = padded[:, down : down + height, right : right + width].clone()
        if draws.flip[n]:
            crop = crop.flip(2)
        top, left = int(draws.row[n]) - hole // 2, int(draws.column[n]) - hole // 2
        for c, value in enumerate(fill):
            crop[c, max(0, top) : max(0, top + hole), max(0, left) : max(0, left + hole)] = value
        out.append(crop)
    return torch.stack(out).to(X.dtype)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize(
    "settings", [{}, {"padding": 0}, {"padding": 2, "hole": 5}, {"hole": 0}, {"flip": False}]
)
@pytest.mark.parametrize("size", [(32, 32), (9, 14)])
def test_against_one_image_at_a_time(dtype, settings, size):
    X = images(40, 3, *size).to(dtype)
    augment = CropFlipCutout(**settings)
    draws = augment.draw(X, generator())
    found = augment(X, generator())
    assert found.dtype == dtype
    assert torch.equal(found, one_by_one(X, draws, augment.padding, augment.hole, augment.fill))


def test_draws_cover_what_they_should():
    augment = CropFlipCutout()
    draws = augment.draw(images(4000, 1, 6, 10), generator())
    assert set(draws.down.tolist()) == set(draws.right.tolist()) == set(range(9))
    assert set(draws.row.tolist()) == set(range(6))
    assert set(draws.column.tolist()) == set(range(10))
    assert abs(draws.flip.float().mean() - 0.5) < 0.03
    assert abs(torch.corrcoef(torch.stack([d.float() for d in draws])).fill_diagonal_(0)).max() < 0.06
    assert not CropFlipCutout(flip=False).draw(images(50), generator()).flip.any()


def test_a_draw_next_to_one_stays_in_range(monkeypatch):
    below = torch.nextafter(torch.tensor(1.0), torch.tensor(0.0))
    monkeypatch.setattr(torch, "rand", lambda *shape, **_: below.expand(shape))
    draws = CropFlipCutout().draw(images(1), generator())
    assert [int(d) for d in draws] == [8, 8, 1, 31, 31]


def test_the_generator_decides():
    X = images()
    augment = CropFlipCutout()
    before = X.clone()
    first = augment(X, generator(1))
    assert torch.equal(X, before)
    assert torch.equal(first, augment(X, generator(1)))
    assert not torch.equal(first, augment(X, generator(2)))
    state = torch.get_rng_state()
    augment(X, generator(3))
    assert torch.equal(state, torch.get_rng_state())  # nobody else's random numbers are used


def test_the_hole_is_zero_after_standardising():
    X = torch.full((1, 3, 32, 32), 255, dtype=torch.uint8)
    zero = torch.zeros(1, dtype=torch.long)
    out = augmented(X, Draws(zero, zero, zero.bool(), zero + 16, zero + 16), 4, 8, CropFlipCutout().fill)
    holes = Standardise("cifar10")(out)[0, :, 12:20, 12:20]
    assert holes.abs().max() < 0.01
    assert (out[0, 0] != 255).sum() == 64


def test_fill_needs_every_channel():
    with pytest.raises(ValueError, match="each of 1 channels, not 3"):
        CropFlipCutout()(images(2, 1), generator())
    assert CropFlipCutout(flip=False, fill=(33,))(images(2, 1), generator()).shape == (2, 1, 32, 32)


def test_equal_recipes_are_equal():
    """Settings are part of what identifies a fit."""
    assert CropFlipCutout() == CropFlipCutout(4, True, 12)
    assert repr(CropFlipCutout()) == "CropFlipCutout(padding=4, flip=True, hole=12, fill=(125, 123, 114))"


def test_no_value_leaves_the_device():
    """Tensors without values, which cannot be read: whatever would wait for a device fails here."""
    X = torch.empty(5, 3, 32, 32, dtype=torch.uint8, device="meta")
    zero = torch.empty(5, dtype=torch.long, device="meta")
    draws = Draws(zero, zero, zero.bool(), zero, zero)
    assert augmented(X, draws, 4, 8, (1, 2, 3)).shape == X.shape
