"""Settings of torch that hold while a network is trained, and no longer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["training_scope"]


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
