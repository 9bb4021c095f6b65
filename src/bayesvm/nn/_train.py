"""``train`` a network with a Bayesian SVM, or a softmax layer, as its head; and ``settle`` its posterior."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bayesvm.nn._checkpoint import Checkpoint, TrainingRecord, fingerprint, restore_state, state_of
from bayesvm.nn._head import BayesianSVMHead
from bayesvm.nn._loop import (
    Loop,
    batch_order,
    device_of,
    evaluate,
    fetch,
    precision_scope,
    seed_of,
    start_head,
)
from bayesvm.nn._posterior import GradientPosterior
from bayesvm.nn._recipe import Epoch, HeadError, Recipe

# Rows that settling sees, in rows that q remembers from training.
_PASSES = 4
# Purposes of the seeds of settling, beside those of an epoch.
_ORDER, _AUGMENT = 3, 4


@dataclass(frozen=True)
class TrainingResult:
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
        ``BayesianSVMHead`` or a layer with its methods. Features of a first
        pass start it, unless it is ``initialised``.
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
        on which the final model is to be evaluated.

    Returns
    -------
    list of Epoch
        All epochs, those before a resumption included.

    Raises
    ------
    HeadError
        If values became non-finite or the head is stuck. Network and head
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
) -> TrainingResult:
    """Do what ``train`` does, and say how the run ended."""
    recipe = Recipe() if recipe is None else recipe
    _check(X, y, validation, patience, keep, temper)
    y = y.to(X.device)  # batches are cut out of both by the same numbers
    device = device_of(network, head, default=X.device)
    by_validation = validation is not None and keep == "best"
    folder = None
    if checkpoint is not None:
        folder = Checkpoint(checkpoint, fingerprint(network, head, X, y, recipe, validation, temper))
    record, ended = TrainingRecord(), "finished"
    loop: Loop | None = None
    with _training_scope(device, recipe.deterministic):
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
                error.trained = TrainingResult(record.epochs, record.best_number, "failed")
                error.add_note(f"Network and head are back in the state of epoch {record.best_number}.")
            raise
        finally:
            network.eval()
            head.eval()
            if loop is not None:
                loop.close()
    return TrainingResult(record.epochs, record.best_number, ended)


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
    """Settle q; whether that was done and did not make the validation log-loss worse."""
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


def interruption(trained: TrainingResult) -> str:
    """The warning after Ctrl-C."""
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


def settle(
    network: nn.Module,
    head: nn.Module,
    X: Tensor,
    y: Tensor,
    *,
    batch_size: int = 128,
    precision: str = "float32",
    augment: Callable[[Tensor, torch.Generator], Tensor] | None = None,
    seed: int = 0,
) -> bool:
    r"""Let q of a natural head take in all rows with equal weight, with the network at rest.

    While a network trains, q forgets: features change, so only the last
    :math:`1/\rho` batches count. Afterwards they no longer change. Steps of
    length :math:`1/k` over the rows then average instead of forgetting, under
    the features that predictions will see: one pass over the rows, up to four
    where they are few, without gradients. A head whose q is trained by gradients stays as it is,
    and so does any other layer.

    Parameters
    ----------
    network, head : Module
        As for ``train``; in evaluation mode afterwards.
    X : Tensor of shape (N, ...)
    y : Tensor of shape (N,)
        Class indices.
    batch_size : int
        That of training.
    precision : {"float32", "bf16"}
        Of the network.
    augment : callable or None
        As in ``Recipe``.
    seed : int
        Of the order of rows.

    Returns
    -------
    bool
        Whether there was a q to settle.

    Examples
    --------
    >>> import torch
    >>> from bayesvm.nn import BayesianSVMHead, settle
    >>> _ = torch.manual_seed(0)
    >>> y = torch.arange(60) % 3
    >>> X = torch.randn(3, 8)[y] + 0.1 * torch.randn(60, 8)
    >>> head = BayesianSVMHead(8, 3, n_inducing=6)
    >>> head.initialise(X, y)
    >>> settle(torch.nn.Identity(), head, X, y)
    True
    >>> bool((head(X).predict() == y).all())
    True
    """
    network.eval()
    head.eval()
    if not isinstance(head, BayesianSVMHead) or isinstance(head.q, GradientPosterior):
        return False
    device = device_of(network, head, default=X.device)
    n_rows = X.shape[0]
    known = min(n_rows, math.ceil(batch_size / head.damping))
    seen = 0
    order = torch.Generator().manual_seed(seed_of(seed, _ORDER))
    draws = torch.Generator(device).manual_seed(seed_of(seed, _AUGMENT))
    y = y.to(X.device)
    for _ in range(math.ceil(_PASSES * known / n_rows)):
        for index in batch_order(n_rows, batch_size, order).to(X.device):
            rows = fetch(X, index, device)
            rows = rows if augment is None else augment(rows, draws)
            with torch.no_grad(), precision_scope(precision, device):
                features = network(rows)
            seen += len(index)
            length = len(index) / (known + seen)
            head.settle(features.float(), fetch(y, index, device), n_rows, length)
    head.check()
    return True


@contextmanager
def _training_scope(device: torch.device, deterministic: bool) -> Iterator[None]:
    """Put the user's random numbers and settings of torch back to what they were before training."""
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
