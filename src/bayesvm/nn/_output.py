"""The output of a head for rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bayesvm._core.predictive import expected_softmax, predictive_moments
from bayesvm._core.variation_ratio import log_variation_ratio, variation_ratio

# Numbers that a method may have in memory at once.
_BLOCK_NUMBERS = 2**25
_NODES = 128


@dataclass(frozen=True)
class HeadOutput:
    """Latent moments of rows; what follows from them is computed when asked for, without gradient.

    Attributes
    ----------
    mean, variance : Tensor of shape (N, C)
        Of the latent function of each class, with gradient.
    temperature : Tensor of shape ()
        Of the class probabilities.
    spread : Tensor of shape ()
        Factor on the variances in class probabilities.

    Examples
    --------
    >>> import torch
    >>> from bayesvm.nn import HeadOutput
    >>> mean = torch.tensor([[2.0, 0.0, 0.0], [0.1, 0.0, 0.0]])
    >>> output = HeadOutput(mean, torch.full((2, 3), 0.1), torch.tensor(2.0))
    >>> output.predict()
    tensor([0, 0])
    >>> output.probabilities()[0, 0] > output.probabilities()[1, 0]
    tensor(True)
    """

    mean: Tensor
    variance: Tensor
    temperature: Tensor
    spread: Tensor = field(default_factory=lambda: torch.ones(()))

    def probabilities(self) -> Tensor:
        """Class probabilities: the expected softmax of the latents, shape (N, C) (eq. 6.4)."""
        T, kappa = float(self.temperature), float(self.spread)
        return self._in_blocks(lambda F, s2: expected_softmax(F, kappa * s2, T))

    def predict(self) -> Tensor:
        """The most probable class, shape (N,)."""
        return self.probabilities().argmax(1)

    def variation_ratio(self) -> Tensor:
        """Probability that another latent function than the favourite is the largest (eq. 6.2)."""
        return self._in_blocks(variation_ratio, torch.float64)

    def log_variation_ratio(self) -> Tensor:
        """Its logarithm, which orders rows where the ratio itself is zero (eq. 6.3)."""
        return self._in_blocks(log_variation_ratio, torch.float64)

    def entropy(self) -> Tensor:
        """Entropy of the class probabilities in nats (eq. 6.6)."""
        T, kappa = float(self.temperature), float(self.spread)
        return self._in_blocks(lambda F, s2: predictive_moments(F, kappa * s2, T).total)

    def mutual_information(self) -> Tensor:
        """The part of the entropy that is due to not knowing the functions, in nats (eq. 6.6)."""
        T, kappa = float(self.temperature), float(self.spread)

        def gain(F: Tensor, s2: Tensor) -> Tensor:
            moments = predictive_moments(F, kappa * s2, T)
            return (moments.total - moments.aleatoric).clamp_min_(0.0)

        return self._in_blocks(gain)

    def margin(self) -> Tensor:
        """Lead of the largest mean over the next one, in standard deviations of their difference."""
        top = self.mean.detach().topk(2, dim=1)
        s2 = self.variance.detach().gather(1, top.indices).sum(1)
        return (top.values[:, 0] - top.values[:, 1]) * s2.rsqrt()

    def _in_blocks(
        self, function: Callable[[Tensor, Tensor], Tensor], dtype: torch.dtype | None = None
    ) -> Tensor:
        """A function of the moments of rows, a block at a time, computed in some precision."""
        F, s2 = self.mean.detach(), self.variance.detach()
        size = max(1, _BLOCK_NUMBERS // (_NODES * F.shape[1]))
        blocks = zip(F.to(dtype).split(size), s2.to(dtype).split(size), strict=True)
        parts = [function(*block) for block in blocks]
        return torch.cat(parts).to(F.dtype)
