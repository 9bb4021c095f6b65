"""Adam over a network and its head."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from bayesvm.nn.recipe import Recipe

__all__ = ["make_optimiser"]


def make_optimiser(
    network: nn.Module, head: nn.Module, recipe: Recipe, capturable: bool = False
) -> torch.optim.Optimizer:
    """AdamW over everything that wants a gradient; without weight decay that is Adam.

    Parameters
    ----------
    network, head : Module
    recipe : Recipe
    capturable : bool
        Whether its steps are recorded in a CUDA graph: the rate is then a tensor.

    Raises
    ------
    ValueError
        If nothing wants a gradient.
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
