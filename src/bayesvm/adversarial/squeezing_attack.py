"""The attack that knows of squeezing."""

from __future__ import annotations

from torch import Tensor

from bayesvm.adversarial.attack import AdaptiveAttack
from bayesvm.adversarial.model import Rows
from bayesvm.adversarial.squeezing import SQUEEZING

__all__ = ["SqueezingAwareAttack"]

_BATCH = 1000


class SqueezingAwareAttack(AdaptiveAttack):
    """The attack that imitates all scores of the clean image, those of squeezed copies too.

    Parameters
    ----------
    model, eps, n_steps, step, batch_size : as for ``AdaptiveAttack``
    """

    def __init__(
        self,
        model: object,
        eps: float,
        *,
        n_steps: int = 40,
        step: float | None = None,
        batch_size: int = _BATCH,
    ) -> None:
        super().__init__(model, eps, score="mimic", n_steps=n_steps, step=step, batch_size=batch_size)

    def _values(self, rows: Rows) -> dict[str, Tensor]:
        found = {name: function(rows) for name, function in SQUEEZING.items()}
        return {**super()._values(rows), **{name: v for name, v in found.items() if v is not None}}
