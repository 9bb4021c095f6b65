"""A softmax layer with the face of the Bayesian head."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from bayesvm_studies.images.outputs import SoftmaxOutput


class SoftmaxHead(nn.Module):
    """A linear layer and cross-entropy, so that loops need not care which head they train.

    Parameters
    ----------
    in_features, n_classes : int
    dropout : float
        Share of the features that is dropped in training; predictions that
        average over passes drop them too (Gal and Ghahramani, 2016).
    """

    temperature: Tensor

    def __init__(self, in_features: int, n_classes: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout: nn.Module = nn.Dropout(dropout) if dropout > 0.0 else nn.Identity()
        self.linear = nn.Linear(in_features, n_classes)
        self.register_buffer("temperature", torch.ones(()))

    def initialise(self, features: Tensor, y: Tensor | None = None) -> None:
        """Nothing to do: a linear layer needs no data."""

    def check(self) -> None:
        """Nothing to report."""

    def forward(self, features: Tensor) -> SoftmaxOutput:
        """The output for some rows."""
        return SoftmaxOutput(self.linear(self.dropout(features))[:, None], self.temperature)

    def loss(self, features: Tensor, y: Tensor, n_total: int, *, step: bool = True) -> Tensor:
        """Mean cross-entropy."""
        return functional.cross_entropy(self.linear(self.dropout(features)), y)

    def kl(self) -> Tensor:
        """Zero: there is no posterior."""
        return torch.zeros_like(self.temperature)
