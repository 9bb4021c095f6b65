"""What can go wrong while a head is trained."""

from __future__ import annotations

from typing import Any

__all__ = ["HeadError"]


class HeadError(RuntimeError):
    """Training cannot go on; the message says why and what to do.

    Attributes
    ----------
    trained : Trained or None
        The finished epochs, if the training loop raised it and there are any;
        network and head are in the state of the best one.
    """

    trained: Any = None
