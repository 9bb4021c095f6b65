"""Every corruption: deterministic, in range, growing with severity, and what its formula says."""

import colorsys

import numpy as np
import pytest
from scipy import ndimage, stats

from bayesvm_studies.datasets import CORRUPTIONS, DatasetError, corrupt
from bayesvm_studies.datasets.corruptions import (
    AMOUNTS,
    BLOCK,
    BRIGHTER,
    CONTRASTS,
    DEVIATIONS,
    GRIDS,
    PHOTONS,
    RADII,
    SHARES,
    WIDTHS,
    disk,
)

RANDOM = {"gaussian_noise", "shot_noise", "impulse_noise", "fog"}
SEVERITIES = range(1, 6)


def pictures(n=40, side=32):
    """Edges, slopes and texture, as photographs have them."""
    rng = np.random.default_rng(0)
    smooth = ndimage.gaussian_filter(rng.standard_normal((n, 3, side, side)), (0, 0.7, 3, 3), mode="wrap")
    fine = ndimage.gaussian_filter(rng.standard_normal((n, 3, side, side)), (0, 0.5, 0.7, 0.7))
    x = 128 + 260 * smooth + 25 * fine + 40 * np.sign(smooth[:, :1])
    return np.clip(x, 5, 250).astype(np.uint8)


X = pictures()


def distance(Y, X=X):
    """Root of the mean squared change, in bytes."""
    return float(np.sqrt(np.mean((Y.astype(float) - X) ** 2)))


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_changes_grow_with_severity(kind):
    changes = [distance(corrupt(X, kind, severity)) for severity in SEVERITIES]
    assert changes[0] > 0.5
    assert (np.diff(changes) > 0).all(), changes
    assert changes[-1] > 1.2 * changes[0]


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_images_stay_images(kind):
    before = X.copy()
    for severity in SEVERITIES:
        found = corrupt(X, kind, severity)
        assert found.dtype == np.uint8
        assert found.shape == X.shape
    np.testing.assert_array_equal(X, before)
    extremes = np.stack([np.zeros((3, 32, 32), np.uint8), np.full((3, 32, 32), 255, np.uint8)])
    with np.errstate(all="raise", under="ignore"):
        corrupt(extremes, kind, 5)  # a byte that went round would be a division by zero or a cast of NaN
        assert corrupt(X[:0], kind, 3).shape == (0, 3, 32, 32)


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_the_same_seed_gives_the_same_images(kind):
    first = corrupt(X, kind, 3, seed=5)
    np.testing.assert_array_equal(first, corrupt(X, kind, 3, seed=5))
    assert (first != corrupt(X, kind, 3, seed=6)).any() == (kind in RANDOM)


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_fewer_images_are_corrupted_alike(kind):
    some = np.tile(X, (BLOCK // len(X) + 2, 1, 1, 1))[: BLOCK + 30]
    whole = corrupt(some, kind, 2)
    np.testing.assert_array_equal(corrupt(some[:7], kind, 2), whole[:7])
    np.testing.assert_array_equal(corrupt(some[: BLOCK + 3], kind, 2), whole[: BLOCK + 3])
    if kind in RANDOM:  # blocks have draws of their own
        assert (corrupt(some[BLOCK:], kind, 2) != whole[BLOCK:]).any()


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_other_sizes_and_one_channel(kind):
    grey = np.ascontiguousarray(X[:5, :1, :28, :20])
    assert corrupt(grey, kind, 5).shape == grey.shape


def test_kinds_have_draws_of_their_own():
    flat = np.full((1, 3, 32, 32), 128, np.uint8)
    noise = [corrupt(flat, kind, 3).astype(float).ravel() for kind in ("gaussian_noise", "shot_noise")]
    assert abs(np.corrcoef(noise)[0, 1]) < 0.1


def test_wrong_arguments():
    with pytest.raises(DatasetError, match="no corruption 'rain', only gaussian_noise"):
        corrupt(X, "rain", 1)
    for severity in (0, 6, 2.5):
        with pytest.raises(DatasetError, match="severity is 1 to 5"):
            corrupt(X, "fog", severity)
    with pytest.raises(DatasetError, match="float64"):
        corrupt(X / 255, "fog", 1)
    with pytest.raises(DatasetError, match="shape"):
        corrupt(X[0], "fog", 1)


# Against second ways to compute them


@pytest.mark.parametrize("severity", SEVERITIES)
def test_gaussian_noise_has_its_deviation(severity):
    flat = np.full((30, 3, 32, 32), 128, np.uint8)
    noise = corrupt(flat, "gaussian_noise", severity) / 255 - 128 / 255
    assert noise.std() == pytest.approx(DEVIATIONS[severity - 1], rel=0.02)
    assert abs(noise.mean()) < 4 * noise.std() / np.sqrt(noise.size)


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("value", [51, 128])
def test_shot_noise_has_the_moments_of_counts(severity, value):
    """Of photons, rounded to bytes as everything is: that alone adds 5 % to the smallest variance."""
    flat = np.full((30, 3, 32, 32), value, np.uint8)
    found = corrupt(flat, "shot_noise", severity).astype(float)
    photons = PHOTONS[severity - 1]
    counts = np.arange(4 * photons)
    shares = stats.poisson.pmf(counts, photons * value / 255)
    seen = np.rint(np.minimum(1, np.float32(counts) / np.float32(photons)) * np.float32(255))
    mean = shares @ seen
    variance = shares @ (seen - mean) ** 2
    assert found.mean() == pytest.approx(mean, abs=4 * np.sqrt(variance / found.size))
    assert found.var() == pytest.approx(variance, rel=4 * np.sqrt(3 / found.size))


@pytest.mark.parametrize("severity", SEVERITIES)
def test_impulse_noise_sets_its_share(severity):
    flat = np.full((30, 3, 32, 32), 128, np.uint8)
    found = corrupt(flat, "impulse_noise", severity)
    share = SHARES[severity - 1]
    for extreme in (0, 255):
        assert (found == extreme).mean() == pytest.approx(share / 2, abs=4 * np.sqrt(share / found.size))
    assert set(np.unique(found)) == {0, 128, 255}


@pytest.mark.parametrize("severity", SEVERITIES)
def test_gaussian_blur_is_scipys(severity):
    width = WIDTHS[severity - 1]
    expected = ndimage.gaussian_filter(X.astype(float), (0, 0, width, width), mode="mirror", truncate=5)
    assert np.abs(corrupt(X, "gaussian_blur", severity) - expected).max() < 0.55


@pytest.mark.parametrize("severity", SEVERITIES)
def test_defocus_blur_is_scipys(severity):
    kernel = disk(RADII[severity - 1])[None, None]
    expected = ndimage.correlate(X.astype(float), kernel, mode="mirror")
    assert np.abs(corrupt(X, "defocus_blur", severity) - expected).max() < 0.51


@pytest.mark.parametrize("radius", [0.5, *RADII, 4.0])
def test_the_disk(radius):
    kernel = disk(radius)
    middle = len(kernel) // 2
    assert kernel.sum() == pytest.approx(1)
    np.testing.assert_allclose(kernel, kernel.T)
    np.testing.assert_allclose(kernel, kernel[::-1, ::-1])
    # A pixel wholly inside has one part in the area of the disk.
    if radius > 1:
        assert kernel[middle, middle] == pytest.approx(1 / (np.pi * radius**2), rel=0.01)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_brightness_keeps_hue_and_saturation(severity):
    found = corrupt(X[:2], "brightness", severity)
    for image, pixel in ((0, (3, 4)), (1, (20, 9)), (0, (31, 31))):
        h, s, v = colorsys.rgb_to_hsv(*(X[(image, slice(None), *pixel)] / 255))
        expected = colorsys.hsv_to_rgb(h, s, min(1, v + BRIGHTER[severity - 1]))
        np.testing.assert_allclose(found[(image, slice(None), *pixel)] / 255, expected, atol=0.51 / 255)
    black = np.zeros((1, 3, 2, 2), np.uint8)
    assert np.abs(corrupt(black, "brightness", severity) - 255 * BRIGHTER[severity - 1]).max() < 0.51


@pytest.mark.parametrize("severity", SEVERITIES)
def test_contrast_draws_to_the_mean(severity):
    mean = np.array([[np.full((32, 32), channel.mean()) for channel in image] for image in X])
    expected = mean + CONTRASTS[severity - 1] * (X - mean)
    assert np.abs(corrupt(X, "contrast", severity) - expected).max() < 0.51


@pytest.mark.parametrize("severity", SEVERITIES)
def test_pixelate_against_a_fine_grid(severity):
    """Every pixel cut into k x k, so that cells are whole numbers of parts; then plain means."""
    cells = int(32 * GRIDS[severity - 1])
    fine = np.repeat(np.repeat(X[:3].astype(float), cells, 2), cells, 3)
    means = fine.reshape(3, 3, cells, 32, cells, 32).mean((3, 5))
    nearest = ((np.arange(32) + 0.5) * cells / 32).astype(int)
    expected = means[:, :, nearest][..., nearest]
    assert np.abs(corrupt(X[:3], "pixelate", severity) - expected).max() < 0.51


@pytest.mark.parametrize("severity", SEVERITIES)
def test_fog_is_a_field_over_the_image(severity):
    """Solved for, the field is one for all channels, runs from 0 to 1 and is smooth."""
    amount = AMOUNTS[severity - 1]
    x = X[:6] / 255
    largest = x.max((1, 2, 3), keepdims=True)
    field = (corrupt(X[:6], "fog", severity) / 255 * (largest + amount) / largest - x) / amount
    rounding = 0.51 / 255 * (1 + amount / largest.min()) / amount
    assert field.std(1).max() < 2 * rounding
    assert field.min((1, 2, 3)) == pytest.approx(0, abs=2 * rounding)
    assert field.max((1, 2, 3)) == pytest.approx(1, abs=2 * rounding)
    steps = np.abs(np.diff(field.mean(1), axis=2)).mean()
    assert steps < 0.12
