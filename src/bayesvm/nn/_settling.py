"""After training: q from all rows, under the network as it is used."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from bayesvm.nn._head import BayesianSVMHead
from bayesvm.nn._loop import batch_order, device_of, fetch, precision_scope, seed_of
from bayesvm.nn._posterior import Gradient

# Rows to see, in rows that q remembers from training.
_PASSES = 4
_ORDER, _AUGMENT = 3, 4


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
    if not isinstance(head, BayesianSVMHead) or isinstance(head.q, Gradient):
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
