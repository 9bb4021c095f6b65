"""What goes into a training run and comes out of it: settings, finished epochs, the error that ends it."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

SCHEDULES = ("constant", "one_cycle")
PRECISIONS = ("float32", "bf16")


@dataclass(frozen=True)
class Recipe:
    """Settings of a training run; checked when made.

    Attributes
    ----------
    epochs : int
    batch_size : int
        Rows per step of the optimiser, at most. All batches of a run have the same size: the last of
        an epoch is filled up with rows from its beginning.
    rate : float
        Learning rate of Adam; the highest one where a schedule changes it.
    weight_decay : float
        Decoupled (AdamW), on parameters called "weight" with two dimensions or more: not on biases,
        scales, inducing points and parameters of kernels.
    schedule : {"constant", "one_cycle"}
        "one_cycle" climbs to ``rate`` over three tenths of the steps and comes down to almost nothing.
    precision : {"float32", "bf16"}
        Of the network. The head always works in single precision.
    seed : int
        Decides the order of rows, augmentation and dropout.
    augment : callable or None
        ``augment(X, generator)`` gives the rows of a training batch to learn from instead of X. All
        its randomness should come from the generator, which is on the device of X.
    compile : bool or str
        Whether network and loss go through ``torch.compile``; a string is the mode to use.
    graph : bool
        On a GPU and in a single process: record a step as a CUDA graph and replay it, several times as
        fast for small networks. The network must not read numbers on the host, nor keep any there that
        change from step to step. No difference on a CPU.
    clip : float or None
        Longest gradient, over all parameters, that a step uses; longer ones are shortened to it.
    parts : int
        A batch is worked through in that many parts whose gradients add up: less memory, same step.
    settle : bool
        Whether q of a natural head takes in all rows once more at the end, without forgetting; see
        ``settle``. Undone where validation rows choose the epoch and are predicted less well then.
    deterministic : bool
        Ask torch for kernels that give the same result every time; slower on a GPU, no difference on
        a CPU.
    """

    epochs: int = 10
    batch_size: int = 128
    rate: float = 1e-3
    weight_decay: float = 0.0
    schedule: str = "constant"
    precision: str = "float32"
    seed: int = 0
    augment: Callable[[Tensor, torch.Generator], Tensor] | None = None
    compile: bool | str = False
    graph: bool = False
    clip: float | None = None
    parts: int = 1
    settle: bool = True
    deterministic: bool = False

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "parts"):
            self._number(name, int, 1, False)
        self._number("seed", int, 0, False)
        self._number("rate", float, 0, True)
        self._number("weight_decay", float, 0, False)
        if self.clip is not None:
            self._number("clip", float, 0, True)
        for name, choices in (("schedule", SCHEDULES), ("precision", PRECISIONS)):
            value = getattr(self, name)
            if value not in choices:
                raise ValueError(f"{name}={value!r} is not valid; it must be one of {list(choices)}")
        if self.augment is not None and not callable(self.augment):
            raise ValueError(f"augment={self.augment!r} is not valid; it must be a function or None")
        if self.graph and self.compile in ("reduce-overhead", "max-autotune"):
            raise ValueError(
                f"compile={self.compile!r} makes CUDA graphs of its own; with graph=True give compile=True"
            )
        if self.parts > self.batch_size:
            raise ValueError(
                f"parts={self.parts} is not valid; a batch of {self.batch_size} rows has no more parts"
            )

    def _number(self, name: str, kind: type, minimum: float, strict: bool) -> None:
        """Refuse what is not a number in range; make it one of Python's, which checkpoints can hold."""
        value = getattr(self, name)
        good = isinstance(value, numbers.Integral if kind is int else numbers.Real)
        good = good and not isinstance(value, bool)
        if not good or value < minimum or (strict and value <= minimum) or not value < math.inf:
            sort = "a whole number" if kind is int else "a finite number"
            raise ValueError(
                f"{name}={value!r} is not valid; it must be {sort} {'>' if strict else '>='} {minimum:g}"
            )
        object.__setattr__(self, name, kind(value))


@dataclass(frozen=True)
class Epoch:
    """The results of one epoch.

    Attributes
    ----------
    number : int
        Counted from one.
    objective : float
        Mean of the loss over the epoch: minus the bound per row, comparable to a mean
        cross-entropy.
    likelihood : float
        Mean over the epoch of the rows' own part of the bound, without the divergence.
    kl : float
        Divergence of the posterior from the prior at the end of the epoch, per row.
    seconds : float
        Spent training; validation and writing checkpoints are not in it.
    validation_accuracy, validation_log_loss : float or None
        Of the validation rows after the epoch, if there are any; at the temperature that suits them
        best, if training was asked to find it.
    """

    number: int
    objective: float
    likelihood: float
    kl: float
    seconds: float
    validation_accuracy: float | None = None
    validation_log_loss: float | None = None


class HeadError(RuntimeError):
    """Training cannot go on; the message says why and what to do.

    Attributes
    ----------
    trained : TrainingResult or None
        The finished epochs, if the training loop raised it and there are any;
        network and head are in the state of the best one.
    """

    trained: Any = None
