"""What benchmarks share: places, environment, artificial rows, clocks, peak memory, child processes."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bayesvm_studies import versions
from bayesvm_studies.datasets import DatasetError, data_folder
from bayesvm_studies.structured.measure import memory_mb
from bayesvm_studies.versions import source_version as source_version
from bayesvm_studies.worker import thread_environment

Record = dict[str, Any]

ROOT = Path(__file__).resolve().parents[4]
RESULTS = ROOT / "results" / "benchmarks"


def environment() -> Record:
    """Versions, processor and date, for the ``config`` entry of a result."""
    return {
        "bayesvm": source_version(),
        "commit": versions.commit() or None,
        **versions.environment(),
        "cpu": versions.machine(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def write_json(path: str | Path | None, content: Record, **settings: Any) -> None:
    """Write indented JSON unless the path is None; settings and the environment are its ``config``."""
    if path is None:
        return
    if settings:
        content = {**content, "config": {**settings, **environment()}}
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")


def command_line(doc: str | None, data: str | None = None) -> argparse.ArgumentParser:
    """A parser with ``--json``, and with ``--data`` if there is a help text for it."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    if data is not None:
        parser.add_argument("--data", metavar="DIR", help=data)
    return parser


def folder_of_sets(given: str | None) -> Path:
    """The folder of PMLB sets, or an exit that says how to get one."""
    try:
        folder = data_folder(given)
    except DatasetError as error:
        sys.exit(str(error))
    if not folder.is_dir():
        sys.exit(
            f"no data in {folder}: give --data DIR or set BAYESVM_DATA to a folder with "
            "<name>/<name>.tsv.gz files, such as the datasets/ folder of "
            "https://github.com/EpistasisLab/pmlb or the local_cache_dir of the pmlb package"
        )
    return folder


def clusters(N: int, D: int, C: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows around one centre per class, close enough for classes to overlap."""
    rng = np.random.default_rng(seed)
    y = rng.integers(C, size=N)
    X = rng.standard_normal((N, D))
    X += rng.standard_normal((C, D))[y]
    return X, y


def use_threads(n: int) -> None:
    """Let torch, numpy and processes started from here use so many threads."""
    import torch

    torch.set_num_threads(n)
    threadpool_limits(n)
    os.environ |= thread_environment(n)


def timed(task: Callable[[], object], repeats: int, device: str = "cpu", warm: int = 1) -> list[float]:
    """Seconds of every repetition after some that do not count."""
    for _ in range(warm):
        task()
    seconds = []
    for _ in range(repeats):
        wait(device)
        start = time.perf_counter()
        task()
        wait(device)
        seconds.append(time.perf_counter() - start)
    return seconds


def wait(device: str) -> None:
    """Wait until an accelerator has finished its work."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.synchronize()


def from_child(*command: str, **variables: str) -> Any:
    """What another Python process, with these variables set, prints as its last line, in JSON."""
    environment = {**os.environ, **variables}
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def forget_peak() -> float:
    """Megabytes in use now; the peak is counted anew from here (Linux only)."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory_mb("VmRSS")


def peak_above(before: float) -> float:
    """Megabytes of the peak since it was forgotten, above those in use then."""
    return memory_mb("VmHWM") - before
