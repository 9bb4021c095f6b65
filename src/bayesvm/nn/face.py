"""What a training loop asks of a last layer and of what it returns."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

__all__ = ["Head", "Output"]


class Output(Protocol):
    """What a head says about rows; more is up to the head."""

    def probabilities(self) -> Tensor:
        """Class probabilities, shape (N, C)."""
        ...


class Head(Protocol):
    """A last layer with its own loss: ours, or a softmax layer with the same face.

    After ``loss`` it may have a tensor ``last_likelihood``, the mean of the
    rows' own part without gradient, and ``initialised``, whether it has been
    started.
    """

    def __call__(self, features: Tensor) -> Output: ...

    def initialise(self, features: Tensor, y: Tensor | None = None) -> None:
        """Start from features of a first pass."""
        ...

    def loss(self, features: Tensor, y: Tensor, n_total: int, *, step: bool = True) -> Tensor:
        """The minibatch objective per row, to be minimised; without ``step`` a part of a batch."""
        ...

    def kl(self) -> Tensor:
        """Divergence of the posterior from the prior, for all rows together; zero if there is none."""
        ...

    def check(self) -> None:
        """Raise ``HeadError`` if something went wrong since the last call."""
        ...
