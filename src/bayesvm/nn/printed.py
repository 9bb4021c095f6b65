"""A line per epoch, for people who wait."""

from __future__ import annotations

import sys
from typing import TextIO

from bayesvm.nn.recipe import Epoch

__all__ = ["PrintedEpochs"]


class PrintedEpochs:
    """Writes finished epochs to a stream, by default standard error."""

    def __init__(self, n_epochs: int, stream: TextIO | None = None) -> None:
        self._n_epochs = n_epochs
        self._stream = stream
        self._seconds = 0.0
        self._seen = 0

    def __call__(self, epoch: Epoch) -> None:
        """Write a line."""
        self._seconds += epoch.seconds
        self._seen += 1
        left = self._seconds / self._seen * (self._n_epochs - epoch.number)
        text = f"epoch {epoch.number}/{self._n_epochs}  objective {epoch.objective:.4f}"
        if epoch.validation_log_loss is not None and epoch.validation_accuracy is not None:
            text += f"  validation: accuracy {epoch.validation_accuracy:.4f}"
            text += f", log-loss {epoch.validation_log_loss:.4f}"
        stream = sys.stderr if self._stream is None else self._stream
        stream.write(f"{text}  {epoch.seconds:.1f} s, at most {left:.0f} s left\n")
        stream.flush()
