"""A network of the classifier's own, and where it works."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["chosen_device", "dtype_of", "first_features", "made_network", "near_device"]

# A GPU must hold more than the rows.
_SHARE_OF_MEMORY = 0.4
# What modules raise for inputs of a wrong shape or type.
_REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, AssertionError)


def chosen_device(device: Any, strict: bool = True) -> torch.device:
    """The device meant; "auto" is a GPU if there is one. Not strict: the CPU where a GPU is missing."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.zeros(1, device=found).cpu()
    except (RuntimeError, TypeError, AssertionError) as error:
        if not strict and str(device).startswith("cuda"):
            return torch.device("cpu")
        raise ValueError(
            f"device={device!r} is not valid here; it must be 'auto' or name a torch device that works, such "
            "as 'cpu' or 'cuda'"
        ) from error
    return found


def near_device(rows: Tensor, device: torch.device) -> Tensor:
    """Rows on the device, or where they are if they would fill it: then batches travel one by one."""
    if device.type == "cuda" and rows.device != device:
        free, _ = torch.cuda.mem_get_info(device)
        if rows.numel() * rows.element_size() > _SHARE_OF_MEMORY * free:
            return rows
    return rows.to(device)


def made_network(network: Any, seed: int) -> nn.Module:
    """A network of one's own: a copy of a module, or what a callable makes with this seed."""
    if isinstance(network, nn.Module):
        return copy.deepcopy(network)
    if not callable(network):
        raise ValueError(
            f"network={network!r} is not valid; it must be a torch Module that gives features, or a function "
            "that makes one"
        )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        made = network()
    if isinstance(made, tuple) and made:  # a module and its number of features
        made = made[0]
    if not isinstance(made, nn.Module):
        raise ValueError(f"network() must make a torch Module; it gave {type(made).__name__}")
    return made


def dtype_of(network: nn.Module) -> torch.dtype:
    """The type of the network's floats."""
    for parameter in network.parameters():
        if parameter.is_floating_point():
            return parameter.dtype
    return torch.float32


def first_features(network: nn.Module, rows: Tensor, seed: int) -> tuple[Tensor, torch.dtype]:
    """Features of some rows, to see that the network takes them; lazy layers get their shape.

    Whole numbers are tried as they are, then as floats.

    Returns
    -------
    features : Tensor of shape (N, D)
    dtype : torch.dtype
        In which the network takes the rows.

    Raises
    ------
    ValueError
        If it cannot take them, or gives no features.
    """
    network.eval()
    try:
        features = _tried(network, rows, seed)
    except _REFUSALS as error:
        floats = rows.to(dtype_of(network))
        if floats.dtype == rows.dtype:
            raise ValueError(
                f"the network cannot take rows of shape {tuple(rows.shape[1:])}, type {rows.dtype}: {error}"
            ) from error
        return first_features(network, floats, seed)
    if not isinstance(features, Tensor) or features.ndim != 2 or features.shape[0] != rows.shape[0]:
        got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise ValueError(
            f"the network must give features of shape (rows, features); for {rows.shape[0]} rows it gave "
            f"{got}. Leave out its last layer and softmax, and end it with nn.Flatten() if need be"
        )
    if not bool(torch.isfinite(features).all()):
        raise ValueError("the network gives features that are not finite; scale its inputs or its weights")
    return features, rows.dtype


def _tried(network: nn.Module, rows: Tensor, seed: int) -> Any:
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return network(rows)
