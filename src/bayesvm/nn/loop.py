"""Steps and epochs of training."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from bayesvm.nn.batches import batch_order, fetch, seed_of
from bayesvm.nn.distributed import rank_and_size
from bayesvm.nn.errors import HeadError
from bayesvm.nn.evaluating import evaluate, precision_scope
from bayesvm.nn.face import Head
from bayesvm.nn.optimiser import make_optimiser
from bayesvm.nn.recipe import Epoch, Recipe
from bayesvm.nn.replay import ReplayedStep
from bayesvm.nn.schedule import rate_at

__all__ = ["Loop", "start_head"]

# Rows of the first pass that the head starts from.
_FIRST_ROWS = 2048
# Purposes of the seeds of an epoch.
_GLOBAL, _ORDER, _AUGMENT = range(3)


def start_head(
    network: nn.Module, head: nn.Module, X: Tensor, y: Tensor, recipe: Recipe, device: torch.device
) -> None:
    """Let the head start from features as training will see them, unless it has been started."""
    if bool(getattr(head, "initialised", False)):
        return
    network.train()
    head.train()
    draws = Draws(recipe, 0, device)
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


class Draws:
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
        self._network, self._head, self._face = network, head, cast(Head, head)
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
            self._step = ReplayedStep(self._plain_step, head, device)

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
        return self._face.loss(features.float(), label, self._X.shape[0], step=last)

    def epoch(self, number: int, validation: tuple[Tensor, Tensor] | None, temper: bool = False) -> Epoch:
        """Train for an epoch, then look at what came of it."""
        recipe, n_rows = self._recipe, self._X.shape[0]
        started = time.perf_counter()
        self._network.train()
        self._head.train()
        draws = Draws(recipe, number, self._device)
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
        self._face.check()
        with torch.no_grad():
            kl = float(self._face.kl()) / n_rows
        accuracy = log_loss = None
        if validation is not None:
            accuracy, log_loss = evaluate(
                self._network, self._head, *validation, precision=recipe.precision, temper=temper
            )
        if not all(math.isfinite(v) for v in (objective, kl, log_loss or 0.0)):
            raise HeadError(
                f"numbers left the finite in epoch {number} (objective {objective:g}, divergence per row "
                f"{kl:g}, validation log-loss {log_loss}); lower the rate ({recipe.rate:g}), set clip=1.0, "
                "use precision='float32', or look for rows that are not finite"
            )
        # A head that does not say what its rows contributed has told it but for how q moved meanwhile.
        says = hasattr(self._head, "last_likelihood")
        row_term = float(likelihood) / n_batches if says else kl - objective
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
