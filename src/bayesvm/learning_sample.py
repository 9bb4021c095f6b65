"""The rows that the kernel is learned from: few enough to be fast, chosen by content."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bayesvm import defaults

__all__ = ["LearningSample", "learning_sample"]


class LearningSample(NamedTuple):
    """Rows that stand for all rows.

    Attributes
    ----------
    X, y, weight : Tensor
        Rows, class indices among the sample's classes, and their own weights.
    scale : float
        How many rows each one stands for.
    n_classes : int
    """

    X: Tensor
    y: Tensor
    weight: Tensor
    scale: float
    n_classes: int


def learning_sample(
    X: Tensor,
    y: Tensor,
    weight: Tensor,
    n_classes: int,
    n_rows: int | None = None,
    total_weight: float | None = None,
) -> LearningSample:
    """The first canonical rows: a random sample, since their order is a hash of their content.

    With many classes, rows of some of them only: the kernel is shared by
    all, and exact rivals cost in proportion to their number.

    Parameters
    ----------
    X, y, weight, n_classes : canonical rows
    n_rows, total_weight : int and float, or None
        Of all rows, where these are the first of them; None: they are all.
    """
    dtype = defaults.LEARNING_DTYPE
    n, most = defaults.sizes(n_rows or X.shape[0]).learning_rows, defaults.LEARNING_CLASSES
    if n_classes > most:
        chosen = torch.unique(y[:n])[:most]
        index = torch.isin(y, chosen).nonzero()[:n, 0]
        labels = torch.searchsorted(chosen, y[index])
        return LearningSample(X[index].to(dtype), labels, weight[index].to(dtype), 1.0, int(chosen.numel()))
    w = weight[:n]
    total = weight.sum() if total_weight is None else total_weight
    return LearningSample(X[:n].to(dtype), y[:n], w.to(dtype), float(total / w.sum()), n_classes)
