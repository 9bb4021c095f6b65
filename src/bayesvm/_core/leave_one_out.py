"""Leave-one-out in closed form: remove a row's own sites from q (section 5)."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

# Below this the row alone determines q along its own direction and removing
# it is not a small change: the cavity is clipped there and reported.
MIN_REMAINING = 1e-3


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


def cavity(F: Tensor, V: Tensor, W: Tensor, G: Tensor) -> Cavity:
    """Moments without each row, at fixed sites (eqs. 5.1, 5.2).

    Parameters
    ----------
    F, V, W, G : Tensor of shape (N, C)
        Moments under q, and the sites of what is left out of each row.
    """
    remaining = (1.0 - W * V).clamp_min(MIN_REMAINING)
    return Cavity((F - V * G) / remaining, V / remaining, remaining)
