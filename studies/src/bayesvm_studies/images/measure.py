"""What a worker does for a task of the experiment on images."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def is_final(error: RuntimeError) -> bool:
    """Whether a process can do nothing on its GPU after this error; running out of memory is none."""
    return str(error).startswith("CUDA error")


def warm_up(config: dict[str, Any]) -> None:
    """Import what is needed and wake the GPU; epochs are timed one by one, so nothing else matters."""
    import torch

    import bayesvm.nn  # noqa: F401

    if str(config["arguments"]["device"]).startswith("cuda"):
        torch.zeros(1, device=config["arguments"]["device"])


def measure(task: dict[str, Any], folder: Path, begin: Callable[[], None]) -> dict[str, Any]:
    """Fields of a :class:`Result`.

    Parameters
    ----------
    task : dict
        A :class:`Task`; ``config["arguments"]["kind"]`` is "train",
        "derive" or "time".
    folder : Path
        Of the set, as :class:`ImageSpool` made it.
    begin : callable
        Called when the clock starts.
    """
    import torch

    from bayesvm_studies.images.derived import derive_one
    from bayesvm_studies.images.timing import time_one
    from bayesvm_studies.images.trained import train_one
    from bayesvm_studies.task import Task

    # The key is a property of the task, which comes as plain JSON.
    names = ("data", "data_digest", "protocol", "split", "model", "config", "versions")
    task = {**task, "place": Task(**{name: task[name] for name in names}).place}
    arguments = task["config"]["arguments"]
    on_gpu = str(arguments["device"]).startswith("cuda")
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    begin()
    try:
        known = {"train": train_one, "derive": derive_one, "time": time_one}[arguments["kind"]](task, folder)
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
