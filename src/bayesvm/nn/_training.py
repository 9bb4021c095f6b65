"""The training loop of a network with a Bayesian SVM, or a softmax layer, as its head."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bayesvm.nn._checkpoint import Checkpoint, Record, identity_of, restore_state, state_of
from bayesvm.nn._loop import Loop, device_of, evaluate, start_head
from bayesvm.nn._recipe import Epoch, HeadError, Recipe
from bayesvm.nn._settling import settle

# --- Settings of torch that hold while a network is trained, and no longer.


@contextmanager
def training_scope(device: torch.device, deterministic: bool) -> Iterator[None]:
    """The user's random numbers and settings are afterwards what they were before."""
    gpu = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpu):
        if not deterministic or not gpu:  # on a CPU all is deterministic anyway
            yield
            return
        # Read when the first product is computed; without it torch warns.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        cudnn = torch.backends.cudnn
        before = cudnn.deterministic, cudnn.benchmark
        algorithms = torch.are_deterministic_algorithms_enabled()
        only_warned = torch.is_deterministic_algorithms_warn_only_enabled()
        cudnn.deterministic, cudnn.benchmark = True, False
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            cudnn.deterministic, cudnn.benchmark = before
            torch.use_deterministic_algorithms(algorithms, warn_only=only_warned)


@dataclass(frozen=True)
class Trained:
    """How a training run went.

    Attributes
    ----------
    epochs : list of Epoch
    kept : int
        Number of the epoch whose state network and head hold, but for a q that has settled.
    ended : {"finished", "patience", "asked", "interrupted", "failed"}
        Why it ended: all epochs done, no better validation log-loss for
        long enough, ``on_epoch`` said so, Ctrl-C, a ``HeadError``.
    """

    epochs: list[Epoch]
    kept: int
    ended: str


def train(
    network: nn.Module,
    head: nn.Module,
    X: Tensor,
    y: Tensor,
    recipe: Recipe | None = None,
    *,
    validation: tuple[Tensor, Tensor] | None = None,
    on_epoch: Callable[[Epoch], bool | None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = True,
    patience: int | None = None,
    keep: str = "best",
    temper: bool = False,
) -> list[Epoch]:
    """Train a network and its head jointly by Adam on minibatches.

    Both are changed in place and left in evaluation mode, on the device they
    came on. Rows may be there too, which is fastest, or on the CPU.

    Parameters
    ----------
    network : Module
        ``network(rows)`` gives features of shape (rows, features).
    head : Module
        ``BayesianSVMHead`` or a layer with its face. Features of a first
        pass start it, unless it says that it was started.
    X : Tensor of shape (N, ...)
    y : Tensor of shape (N,)
        Class indices.
    recipe : Recipe or None
        None: the defaults.
    validation : pair of Tensors or None
        Rows and class indices that are scored after every epoch.
    on_epoch : callable or None
        Called with every finished ``Epoch``; a true answer ends training.
    checkpoint : path-like or None
        A folder that is written after every epoch. The same call goes on
        from there after a crash and gives what it would have given.
    resume : bool
        False: forget what the folder holds.
    patience : int or None
        Epochs without a better validation log-loss after which to stop.
    keep : {"best", "last"}
        Which epoch's state to end with: the best by validation log-loss,
        where there are validation rows, or the last.
    temper : bool
        Whether the head takes over, after every epoch, the temperature that
        suits the validation rows best, before they are scored. Not for rows
        that shall say how good the model is in the end.

    Returns
    -------
    list of Epoch
        All epochs, those before a resumption included.

    Raises
    ------
    HeadError
        If numbers left the finite or the head is stuck. Network and head
        are put back into the best state so far, if an epoch was finished.
    KeyboardInterrupt
        Ctrl-C ends training with a warning and the best state so far; it is
        raised only if no epoch was finished.
    """
    trained = run(
        network,
        head,
        X,
        y,
        recipe,
        validation=validation,
        on_epoch=on_epoch,
        checkpoint=checkpoint,
        resume=resume,
        patience=patience,
        keep=keep,
        temper=temper,
    )
    if trained.ended == "interrupted":
        warnings.warn(interruption(trained), UserWarning, stacklevel=2)
    return trained.epochs


def run(
    network: nn.Module,
    head: nn.Module,
    X: Tensor,
    y: Tensor,
    recipe: Recipe | None = None,
    *,
    validation: tuple[Tensor, Tensor] | None = None,
    on_epoch: Callable[[Epoch], bool | None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = True,
    patience: int | None = None,
    keep: str = "best",
    temper: bool = False,
) -> Trained:
    """Do what ``train`` does, and say how the run ended."""
    recipe = Recipe() if recipe is None else recipe
    _check(X, y, validation, patience, keep, temper)
    y = y.to(X.device)  # batches are cut out of both by the same numbers
    device = device_of(network, head, default=X.device)
    by_validation = validation is not None and keep == "best"
    folder = None
    if checkpoint is not None:
        folder = Checkpoint(checkpoint, identity_of(network, head, X, y, recipe, validation, temper))
    record, ended = Record(), "finished"
    loop: Loop | None = None
    with training_scope(device, recipe.deterministic):
        found = folder.read(network, head) if folder is not None and resume else None
        try:
            if found is None:
                if folder is not None:
                    folder.clear()
                start_head(network, head, X, y, recipe, device)
            loop = Loop(network, head, X, y, recipe, device)
            if found is not None:
                record = found[0]
                loop.load(found[1])
            while len(record.epochs) < recipe.epochs:
                if _waited(record.epochs) >= (patience or math.inf):
                    ended = "patience"
                    break
                epoch = loop.epoch(len(record.epochs) + 1, validation, temper)
                last = state_of(network, head)
                record.add(epoch, last, by_validation)
                if folder is not None:
                    folder.write(record, last, loop.optimiser.state_dict())
                if on_epoch is not None and on_epoch(epoch):
                    ended = "asked"
                    break
            assert record.best is not None
            restore_state(network, head, record.best)
            before = record.epochs[record.best_number - 1].validation_log_loss if by_validation else None
            if recipe.settle and not _settled(network, head, X, y, recipe, validation, temper, before):
                restore_state(network, head, record.best)
        except KeyboardInterrupt:
            if record.best is None:
                raise
            ended = "interrupted"
            restore_state(network, head, record.best)
        except HeadError as error:
            if record.best is not None:
                restore_state(network, head, record.best)
                error.trained = Trained(record.epochs, record.best_number, "failed")
                error.add_note(f"Network and head are back in the state of epoch {record.best_number}.")
            raise
        finally:
            network.eval()
            head.eval()
            if loop is not None:
                loop.close()
    return Trained(record.epochs, record.best_number, ended)


def _settled(
    network: nn.Module,
    head: nn.Module,
    X: Tensor,
    y: Tensor,
    recipe: Recipe,
    validation: tuple[Tensor, Tensor] | None,
    temper: bool,
    before: float | None,
) -> bool:
    """Whether q has settled and validation rows, if they have a say, are not worse off than before."""
    done = settle(
        network,
        head,
        X,
        y,
        batch_size=recipe.batch_size,
        precision=recipe.precision,
        augment=recipe.augment,
        seed=recipe.seed,
    )
    if not done or validation is None or not (temper or before is not None):
        return done
    _, after = evaluate(network, head, *validation, precision=recipe.precision, temper=temper)
    return before is None or after <= before


def interruption(trained: Trained) -> str:
    """What to tell someone who pressed Ctrl-C."""
    return (
        f"training was interrupted after {len(trained.epochs)} epochs; network and head hold the state of "
        f"epoch {trained.kept}, the best so far"
    )


def _waited(epochs: list[Epoch]) -> int:
    """Epochs since the best validation log-loss."""
    losses = [e.validation_log_loss for e in epochs if e.validation_log_loss is not None]
    return len(losses) - 1 - losses.index(min(losses)) if losses else 0


def _check(
    X: Tensor,
    y: Tensor,
    validation: tuple[Tensor, Tensor] | None,
    patience: int | None,
    keep: str,
    temper: bool,
) -> None:
    for rows, labels, what in ((X, y, ""), *(((*validation, "validation "),) if validation else ())):
        if rows.shape[0] == 0:
            raise ValueError(f"there are no {what}rows")
        if labels.ndim != 1 or labels.shape[0] != rows.shape[0] or labels.dtype != torch.int64:
            raise ValueError(
                f"{what}y must hold one class index (int64) for each of the {rows.shape[0]} rows; got shape "
                f"{tuple(labels.shape)} of {labels.dtype}"
            )
    if temper and validation is None:
        raise ValueError("temper=True needs validation rows, to which the temperature is fitted")
    if keep not in ("best", "last"):
        raise ValueError(f"keep={keep!r} is not valid; it must be one of ['best', 'last']")
    if patience is not None and (patience < 1 or validation is None):
        raise ValueError(
            f"patience={patience!r} is not valid here; it must be a positive number of epochs, and needs "
            "validation rows"
        )
