"""How well a score tells attacked images from others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def roc_auc(negative: npt.ArrayLike, positive: npt.ArrayLike) -> float:
    """Probability that a positive scores higher than a negative, ties counted half.

    Parameters
    ----------
    negative, positive : array-like of shape (n,) and (m,)
        Scores of clean and of attacked images.

    Examples
    --------
    >>> from bayesvm.adversarial import roc_auc
    >>> roc_auc([0.0, 1.0], [1.0, 2.0])
    0.875
    """
    low, high = _checked(negative, "negative"), _checked(positive, "positive")
    low = np.sort(low)
    below = np.searchsorted(low, high, "left").sum() + np.searchsorted(low, high, "right").sum()
    return float(below / (2.0 * len(low) * len(high)))


def tpr_at_fpr(negative: npt.ArrayLike, positive: npt.ArrayLike, fpr: float = 0.05) -> float:
    """Share of positives above a threshold that at most a share ``fpr`` of the negatives exceeds.

    Examples
    --------
    >>> from bayesvm.adversarial import tpr_at_fpr
    >>> tpr_at_fpr(range(100), [93.5, 95.5, 200.0], fpr=0.05)
    0.6666666666666666
    """
    _check_rate(fpr)
    low, high = np.sort(_checked(negative, "negative")), _checked(positive, "positive")
    # So many negatives may lie above, in whole rows; the nudge undoes rounding of a product such as .05 * 60.
    allowed = int(np.floor(fpr * len(low) + 1e-9))
    return float((high > low[len(low) - allowed - 1]).mean())


def conformal_threshold(clean: npt.ArrayLike, false_positive_rate: float) -> float:
    """Threshold that a new clean row exceeds with at most this probability, whatever the distribution.

    The k-th smallest of n scores with k = ceil((n + 1)(1 - rate)): rows that
    come in any order are equally likely to have each rank.

    Raises
    ------
    ValueError
        If there are fewer than 1 / rate - 1 rows: no threshold can promise the rate then.
    """
    _check_rate(false_positive_rate)
    scores = np.sort(_checked(clean, "clean"))
    n = len(scores)
    k = int(np.ceil((n + 1) * (1.0 - false_positive_rate) - 1e-9))
    if k > n:
        least = int(np.ceil(1.0 / false_positive_rate - 1e-9)) - 1
        raise ValueError(
            f"{n} clean images cannot promise a false-positive rate of {false_positive_rate:g}; "
            f"give at least {least}, or allow a larger rate"
        )
    return float(scores[k - 1])


def random_signs(images: Tensor, epsilon: float, seed: int = 0) -> Tensor:
    """Images whose every pixel moved by epsilon up or down at random, clipped to [0, 1].

    Noise of the same largest norm as an attack of that strength: a detector
    that takes it for an attack has found noise, not intent.

    Parameters
    ----------
    images : Tensor of shape (N, channels, height, width)
    epsilon : float
    seed : int
        The same draws on every device.
    """
    generator = torch.Generator().manual_seed(seed)
    up = torch.randint(0, 2, images.shape, generator=generator, dtype=torch.int8).to(images.device)
    return (images + epsilon * (2.0 * up - 1.0)).clamp(0.0, 1.0)


def _checked(values: npt.ArrayLike, name: str) -> npt.NDArray[np.float64]:
    found = np.asarray(values, np.float64)
    if found.ndim != 1 or len(found) == 0 or np.isnan(found).any():
        raise ValueError(f"{name} must be numbers of shape (n,), n at least 1, got shape {found.shape}")
    return found


def _check_rate(rate: float) -> None:
    if not 0.0 < rate < 1.0:
        raise ValueError(f"the false-positive rate must be between 0 and 1, got {rate}")
