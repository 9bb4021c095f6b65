"""Leave-one-out in closed form: remove a row's own sites from q (section 5)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# Below this the row alone determines q along its own direction and removing
# it is not a small change: the cavity is clipped there and reported.
MIN_REMAINING = 1e-3
# A weight is a whole number if rounding, of a sum of copies too, explains the
# difference; where rounding could hide any fraction, no weight is one.
_ROUNDING = 8.0
_LARGEST_ROUNDING = 0.1
_FEWEST_ALIKE = 16


class Cavity(NamedTuple):
    """Moments of the latents of each row without that row.

    Attributes
    ----------
    F, V : Tensor of shape (N, C)
        Mean and explained variance; add the residual for the latent variance.
    remaining : Tensor of shape (N, C)
        d = 1 - W V: the share of precision along the row that others provide.
    """

    F: Tensor
    V: Tensor
    remaining: Tensor


def part_left_out(weight: Tensor, y: Tensor | None = None, n_classes: int = 0) -> Tensor:
    """Weight that is removed when a row is left out (eq. 5.2).

    A whole number counts copies, of which one is left out. Any other number
    says how much a row matters: all of it goes, or the rest would answer for
    what is left out.

    Parameters
    ----------
    weight : Tensor of shape (N,)
        Not negative.
    y, n_classes : Tensor of shape (N,) and int
        Class indices, where these are all rows or a sample of them; None: they
        are some part, in which weights may be alike by chance.
    """
    rounding = _ROUNDING * torch.finfo(weight.dtype).eps * weight
    whole = ((weight - weight.round()).abs() <= rounding) & (rounding < _LARGEST_ROUNDING)
    copy = torch.ones_like(weight) if y is None else _copy_of_class(weight, whole, y, n_classes)[y]
    return torch.where(whole, torch.minimum(weight, copy), weight)


def _copy_of_class(weight: Tensor, whole: Tensor, y: Tensor, n_classes: int) -> Tensor:
    """Weight of one copy of the rows of each class, shape (C,).

    It is one, unless all whole weights of a class are multiples of a larger
    one of them. Rows that come back do not all come back equally often: this
    is the weight of a class, or all rows were given twice, which says nothing
    about whether new rows will be copies of old ones. With a copy of every row
    left in, leave-one-out would find any memory of rows perfect, and a local
    part would always be chosen. Few rows may be alike by chance or by design.
    """
    y, weight = y[whole], weight[whole].round()
    least = weight.new_full((n_classes,), torch.inf).scatter_reduce_(0, y, weight, "amin")
    odd = (weight.remainder(least[y]) != 0).to(weight.dtype)
    odd = torch.zeros_like(least).index_add_(0, y, odd)
    enough = torch.bincount(y, minlength=n_classes) >= _FEWEST_ALIKE
    return torch.where(enough & (odd == 0), least, 1.0)


def cavity(F: Tensor, V: Tensor, W: Tensor, G: Tensor) -> Cavity:
    """Moments without each row, or without one of its copies, at fixed sites (eqs. 5.1, 5.2).

    Parameters
    ----------
    F, V, W, G : Tensor of shape (N, C)
        Moments under q, and the sites of the part of each row that is left
        out (`part_left_out`).
    """
    remaining = (1.0 - W * V).clamp_min(MIN_REMAINING)
    return Cavity((F - V * G) / remaining, V / remaining, remaining)
