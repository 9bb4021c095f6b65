"""What a worker does for a task of the experiment: attack a model, and try to tell."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bayesvm_studies.images.measure import is_final, warm_up

__all__ = ["measure", "warm_up"]


def measure(task: dict[str, Any], folder: Path, begin: Callable[[], None]) -> dict[str, Any]:
    """Fields of a :class:`Result`.

    Parameters
    ----------
    task : dict
        A :class:`Task`.
    folder : Path
        Of the set, as :class:`ImageSpool` made it.
    begin : callable
        Called when the clock starts.
    """
    import torch

    on_gpu = str(task["config"]["arguments"]["device"]).startswith("cuda")
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    begin()
    try:
        from bayesvm_studies.adversarial.attacked import attack_one

        known = attack_one(task, folder)
    except RuntimeError as error:
        if not is_final(error):
            raise
        # Whatever this process does next on the device would fail too: a new one takes its place.
        sys.stderr.write(f"{type(error).__name__}: {str(error).splitlines()[0]}\n")
        sys.stderr.flush()
        os._exit(1)
    if on_gpu:
        known["extra"]["gpu"] = torch.cuda.get_device_name()
        known["extra"]["gpu_peak_mb"] = round(torch.cuda.max_memory_allocated() / 1e6, 1)
    return known
