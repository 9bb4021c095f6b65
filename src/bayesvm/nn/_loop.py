"""Steps and epochs of training, for any head with a loss of its own, and scores of held-out rows.

Everything random about an epoch follows from the seed and the epoch's number,
so that a run can be resumed after any epoch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from bayesvm.nn._calibration import calibrate, take_over
from bayesvm.nn._devices import ReplayedStep, rank_and_size
from bayesvm.nn._output import HeadOutput
from bayesvm.nn._recipe import Epoch, HeadError, Recipe

# GPUs want batches in multiples of this; in small ones the rows that fill them up would weigh too much.
_MULTIPLE, _SMALL = 8, 64
# Rows at a time where nothing is trained; results do not depend on it.
_BLOCK_ROWS = 512
# Rows of the first pass that the head starts from.
_FIRST_ROWS = 2048
# Purposes of the seeds of an epoch.
_GLOBAL, _ORDER, _AUGMENT = range(3)
# The shape of torch's OneCycleLR: share of steps that climb, first rate and last rate over the highest.
_CLIMB = 0.3
_FIRST = 1.0 / 25.0
_LAST = _FIRST * 1e-4


class Output(Protocol):
    """What the loop asks of a head's output."""

    def probabilities(self) -> Tensor:
        """Class probabilities, shape (N, C)."""
        ...


class Head(Protocol):
    """A last layer with its own loss: ``BayesianSVMHead``, or a softmax layer with the same methods.

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


# --- Which rows make a batch, and their way to the device.


def seed_of(seed: int, *counters: int) -> int:
    """A seed for one purpose of one epoch.

    Everything random in an epoch starts from its own seed, so that an epoch
    can be repeated without those before it: that is what resuming needs.
    """
    return int(np.random.SeedSequence([seed, *counters]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def batch_shape(n_rows: int, batch_size: int) -> tuple[int, int]:
    """Number of batches in an epoch and their common size, at most ``batch_size``.

    One size for all, so that nothing is compiled or captured twice and no
    batch is too small for batch normalisation.
    """
    if n_rows <= batch_size:
        return 1, n_rows
    n_batches = -(-n_rows // batch_size)
    even = -(-n_rows // n_batches)
    return n_batches, even if even < _SMALL else min(batch_size, -(-even // _MULTIPLE) * _MULTIPLE)


def batch_order(n_rows: int, batch_size: int, generator: torch.Generator) -> Tensor:
    """Row numbers of all batches of an epoch, shape (batches, rows); every row is there.

    Shuffled on the CPU, so the order does not depend on the device. Rows
    from the beginning fill up the last batch.
    """
    n_batches, size = batch_shape(n_rows, batch_size)
    order = torch.randperm(n_rows, generator=generator)
    missing = n_batches * size - n_rows
    return torch.cat([order, order[:missing]]).reshape(n_batches, size)


def fetch(rows: Tensor, index: Tensor, device: torch.device) -> Tensor:
    """Some rows, on the device; ``index`` is where ``rows`` are."""
    return rows.index_select(0, index).to(device, non_blocking=True)


# --- Predictions in batches.


def device_of(*modules: nn.Module, default: torch.device) -> torch.device:
    """Where the modules are; ``default`` if they hold nothing."""
    for module in modules:
        for tensor in (*module.parameters(), *module.buffers()):
            return tensor.device
    return default


def precision_scope(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """In which the network runs; the head never does."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")


def feature_blocks(
    network: nn.Module, X: Tensor, device: torch.device, *, precision: str = "float32", rows: int = 0
) -> Iterator[Tensor]:
    """Features of consecutive blocks of ``rows`` rows, in single precision, without gradients.

    The network is as the caller left it: in training mode or not.
    """
    for block in X.split(rows or _BLOCK_ROWS):
        with torch.no_grad(), precision_scope(precision, device):
            features = network(block.to(device, non_blocking=True))
        yield features.float()


def evaluate(
    network: nn.Module,
    head: nn.Module,
    X: Tensor,
    y: Tensor,
    *,
    precision: str = "float32",
    rows: int = 0,
    temper: bool = False,
) -> tuple[float, float]:
    """Accuracy and log-loss; both modules are in evaluation mode afterwards.

    Parameters
    ----------
    network, head : Module
        As for ``train``.
    X, y : Tensor
        Rows and class indices.
    precision : {"float32", "bf16"}
        Of the network.
    rows : int
        Rows at a time; 0: a fixed number.
    temper : bool
        Whether the head first takes over the temperature and spread that suit these rows best.

    Returns
    -------
    accuracy, log_loss : float
    """
    network.eval()
    head.eval()
    device = device_of(network, head, default=X.device)
    right = torch.zeros((), device=device, dtype=torch.float64)
    loss = torch.zeros((), device=device, dtype=torch.float64)
    with torch.no_grad():
        blocks = feature_blocks(network, X, device, precision=precision, rows=rows)
        labels = (block.to(device) for block in y.split(rows or _BLOCK_ROWS))
        outputs = zip(labels, map(head, blocks), strict=True)
        for label, output in _tempered(head, list(outputs)) if temper else outputs:
            p = output.probabilities()
            right += (p.argmax(1) == label).sum()
            own = p.gather(1, label[:, None])[:, 0].double()
            # A probability that underflows costs much, not everything; a NaN stays one.
            loss -= own.clamp_min(torch.finfo(torch.float32).tiny).log().sum()
    return float(right) / len(y), float(loss) / len(y)


def _tempered(head: nn.Module, outputs: list[tuple[Tensor, Any]]) -> list[tuple[Tensor, Any]]:
    """The same outputs at the temperature and spread that suit them best, which the head takes over."""
    labels, mean, variance = (
        torch.cat(parts)
        for parts in zip(*((label, out.mean, out.variance) for label, out in outputs), strict=True)
    )
    temperature, spread = (head.get_buffer(name) for name in ("temperature", "spread"))
    take_over(head, calibrate(HeadOutput(mean, variance, temperature), None, labels))
    return [(label, replace(out, temperature=temperature, spread=spread)) for label, out in outputs]


# --- Training.


def make_optimiser(
    network: nn.Module, head: nn.Module, recipe: Recipe, capturable: bool = False
) -> torch.optim.Optimizer:
    """AdamW over everything that requires a gradient; without weight decay that is Adam.

    Parameters
    ----------
    network, head : Module
    recipe : Recipe
    capturable : bool
        Whether its steps are recorded in a CUDA graph: the rate is then a tensor.

    Raises
    ------
    ValueError
        If nothing requires a gradient.
    """
    groups: dict[float, list[Tensor]] = {}
    seen = set()
    for module in (network, head):
        for name, parameter in module.named_parameters():
            if not parameter.requires_grad or parameter in seen:
                continue
            seen.add(parameter)
            decays = name.endswith("weight") and parameter.ndim >= 2
            groups.setdefault(recipe.weight_decay if decays else 0.0, []).append(parameter)
    if not groups:
        raise ValueError("neither the network nor the head has a parameter to train")
    # One kernel for all parameters instead of a dozen launches per step.
    fused: dict[str, Any] = {"fused": True} if all(p.is_cuda for p in seen) else {}
    rate: float | Tensor = recipe.rate
    if capturable:
        rate = torch.tensor(rate, dtype=torch.float32, device=next(iter(seen)).device)
    return torch.optim.AdamW(
        [{"params": params, "weight_decay": decay} for decay, params in groups.items()],
        lr=rate,
        capturable=capturable,
        **fused,
    )


def rate_at(schedule: str, rate: float, step: int, n_steps: int) -> float:
    """Learning rate of a step, counted from zero, out of ``n_steps``.

    A function of the step alone: nothing to remember, nothing to restore.
    """
    if schedule == "constant" or n_steps == 1:
        return rate
    top = max(_CLIMB * n_steps - 1.0, 0.0)
    if step < top:
        return _between(_FIRST * rate, rate, step / top)
    return _between(rate, _LAST * rate, (step - top) / (n_steps - 1.0 - top))


def _between(start: float, end: float, share: float) -> float:
    """On half a cosine from start to end."""
    return end + 0.5 * (start - end) * (1.0 + math.cos(math.pi * share))


def start_head(
    network: nn.Module, head: nn.Module, X: Tensor, y: Tensor, recipe: Recipe, device: torch.device
) -> None:
    """Let the head start from features as training will see them, unless it has been started."""
    if bool(getattr(head, "initialised", False)):
        return
    network.train()
    head.train()
    draws = EpochDraws(recipe, 0, device)
    order = draws.order(X)
    n_batches = max(1, min(order.shape[0], _FIRST_ROWS // order.shape[1]))
    features, labels = [], []
    with torch.no_grad():
        for index in order[:n_batches]:
            rows = draws.augmented(fetch(X, index, device))
            with precision_scope(recipe.precision, device):
                features.append(network(rows))
            labels.append(fetch(y, index, device))
    cast(Head, head).initialise(torch.cat(features).float(), torch.cat(labels))


class EpochDraws:
    """Everything random about an epoch, from seeds of its own."""

    def __init__(self, recipe: Recipe, number: int, device: torch.device) -> None:
        self._recipe = recipe
        self._order = torch.Generator().manual_seed(seed_of(recipe.seed, number, _ORDER))
        self._augment = torch.Generator(device).manual_seed(seed_of(recipe.seed, number, _AUGMENT))
        # Dropout and whatever else draws without a generator.
        torch.default_generator.manual_seed(seed_of(recipe.seed, number, _GLOBAL))
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed_of(recipe.seed, number, _GLOBAL))

    def order(self, X: Tensor) -> Tensor:
        """Row numbers of all batches, where the rows are."""
        return batch_order(X.shape[0], self._recipe.batch_size, self._order).to(X.device)

    def augmented(self, rows: Tensor) -> Tensor:
        """What to learn from instead of these rows."""
        augment = self._recipe.augment
        return rows if augment is None else augment(rows, self._augment)


class Loop:
    """Steps and epochs. Between the ends of an epoch nothing waits for the device."""

    def __init__(
        self, network: nn.Module, head: nn.Module, X: Tensor, y: Tensor, recipe: Recipe, device: torch.device
    ) -> None:
        self._network, self._head, self._layer = network, head, cast(Head, head)
        self._X, self._y, self._recipe, self._device = X, y, recipe, device
        self._parameters = [p for m in (network, head) for p in m.parameters() if p.requires_grad]
        self._replays = recipe.graph and device.type == "cuda"
        if self._replays and rank_and_size()[1] > 1:
            raise ValueError("graph=True is for a single process; train with graph=False")
        self.optimiser = make_optimiser(network, head, recipe, self._replays)
        self._objective = self._plain_objective
        if recipe.compile:
            mode = recipe.compile if isinstance(recipe.compile, str) else None
            self._objective = torch.compile(self._plain_objective, mode=mode)
        self._step: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = self._plain_step
        if self._replays:
            self._step = ReplayedStep(self._plain_step, getattr(head, "beside", None), device)

    def load(self, state: dict[str, Any]) -> None:
        """Go on with an optimiser's state, which may come from another kind of device."""
        groups = zip(state["param_groups"], self.optimiser.param_groups, strict=True)
        # They decide where loading puts the counters of steps; the rate is set before every step.
        own = [{**theirs, **{k: ours[k] for k in ("lr", "capturable", "fused")}} for theirs, ours in groups]
        self.optimiser.load_state_dict({**state, "param_groups": own})

    def close(self) -> None:
        """Give the memory of a recorded step back."""
        if isinstance(self._step, ReplayedStep):
            self._step.close()
            self.optimiser.zero_grad(set_to_none=True)

    def _plain_objective(self, rows: Tensor, label: Tensor, last: bool) -> Tensor:
        with precision_scope(self._recipe.precision, self._device):
            features = self._network(rows)
        return self._layer.loss(features.float(), label, self._X.shape[0], step=last)

    def epoch(self, number: int, validation: tuple[Tensor, Tensor] | None, temper: bool = False) -> Epoch:
        """Train for an epoch, then check the result and score the validation rows."""
        recipe, n_rows = self._recipe, self._X.shape[0]
        started = time.perf_counter()
        self._network.train()
        self._head.train()
        draws = EpochDraws(recipe, number, self._device)
        order = draws.order(self._X)
        total = torch.zeros((), device=self._device)
        likelihood = torch.zeros((), device=self._device)
        n_batches = order.shape[0]
        for i, index in enumerate(order):
            step = (number - 1) * n_batches + i
            rate = rate_at(recipe.schedule, recipe.rate, step, recipe.epochs * n_batches)
            self._set_rate(rate)
            rows = draws.augmented(fetch(self._X, index, self._device))
            loss, contributed = self._step(rows, fetch(self._y, index, self._device))
            total += loss
            likelihood += contributed
        objective = float(total) / n_batches
        seconds = time.perf_counter() - started
        self._layer.check()
        with torch.no_grad():
            kl = float(self._layer.kl()) / n_rows
        accuracy = log_loss = None
        if validation is not None:
            accuracy, log_loss = evaluate(
                self._network, self._head, *validation, precision=recipe.precision, temper=temper
            )
        if not all(math.isfinite(v) for v in (objective, kl, log_loss or 0.0)):
            raise HeadError(
                f"non-finite numbers in epoch {number} (objective {objective:g}, divergence per row "
                f"{kl:g}, validation log-loss {log_loss}); lower the rate ({recipe.rate:g}), set clip=1.0, "
                "use precision='float32', or look for rows that are not finite"
            )
        # A head without a ``last_likelihood``: its loss less its divergence, but for how q moved meanwhile.
        known = hasattr(self._head, "last_likelihood")
        row_term = float(likelihood) / n_batches if known else kl - objective
        return Epoch(number, objective, row_term, kl, seconds, accuracy, log_loss)

    def _set_rate(self, rate: float) -> None:
        for group in self.optimiser.param_groups:
            if self._replays:  # a recorded step reads it from where it was when it was recorded
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def _plain_step(self, rows: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """One step of the optimiser; gives loss and likelihood of the batch."""
        recipe = self._recipe
        self.optimiser.zero_grad(set_to_none=True)
        total, likelihood = torch.zeros(2, device=self._device).unbind()
        n_parts = min(recipe.parts, len(label))
        parts = list(zip(rows.tensor_split(n_parts), label.tensor_split(n_parts), strict=True))
        for k, (x, t) in enumerate(parts):
            if recipe.compile and not self._replays:
                torch.compiler.cudagraph_mark_step_begin()
            share = len(t) / len(label)
            loss = self._objective(x, t, k == len(parts) - 1) * share
            loss.backward()
            total += loss.detach()
            if (row_term := getattr(self._head, "last_likelihood", None)) is not None:
                likelihood += share * row_term
        if recipe.clip is not None:
            nn.utils.clip_grad_norm_(self._parameters, recipe.clip)
        self.optimiser.step()
        return total, likelihood
