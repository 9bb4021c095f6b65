"""Which code ran on which machine."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import bayesvm
from bayesvm_studies.gpflow_svgp import gpflow_python, gpflow_versions
from bayesvm_studies.roster import Contestant

# Parts of the library that no fit to a table runs.
_ELSEWHERE = (
    *("__main__.py", "active", "adversarial", "cli", "datasets", "experiments", "files.py", "metrics.py"),
    *("nn", "persistence.py", "plotting", "report", "tables"),
)


@cache
def source_version() -> str:
    """Version of bayesvm with a digest of what fits and predicts, so that every change of it shows."""
    found = hashlib.sha256()
    package = Path(bayesvm.__file__).parent
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] not in _ELSEWHERE:
            found.update(path.read_bytes())
    return f"{bayesvm.__version__}+{found.hexdigest()[:8]}"


@cache
def code_version(*names: str) -> str:
    """Version of bayesvm with a digest of some of its files and folders, such as "nn" and "core"."""
    found = hashlib.sha256()
    package = Path(bayesvm.__file__).parent
    for name in names:
        path = package / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            found.update(file.read_bytes())
    return f"{bayesvm.__version__}+{found.hexdigest()[:8]}"


def versions_of(contestant: Contestant) -> dict[str, str]:
    """Versions of what a model is made of; an adapter of ours counts by its content."""
    if contestant.packages[0] == "gpflow":
        found = gpflow_versions()
    else:
        found = {
            name: source_version() if name == "bayesvm" else version(name) for name in contestant.packages
        }
    module = contestant.estimator.split(":")[0]
    if module.startswith("bayesvm_studies."):
        path = Path(__file__).with_name(module.rpartition(".")[2] + ".py")
        scripts = sorted(path.parent.glob("gpflow_script.py")) if contestant.packages[0] == "gpflow" else []
        content = b"".join(p.read_bytes() for p in (path, *scripts))
        found[module] = hashlib.sha256(content).hexdigest()[:8]
    return found


def missing(contestant: Contestant) -> str | None:
    """Why a model cannot run here, or None."""
    module, name = contestant.estimator.split(":")
    if module == "bayesvm":
        return None if name in dir(bayesvm) else f"this version of bayesvm has no {name}"
    if contestant.packages[0] == "gpflow":
        return None if gpflow_python() else "no Python with GPflow: make peers-env"
    for package in (module.split(".")[0], *contestant.packages):
        if package != "scikit-learn" and find_spec(package.replace("-", "_")) is None:
            return f"{package} is not installed: pip install {package}"
    return None


def check_device(device: str) -> None:
    """Raise ValueError for a device on which nothing can be computed here."""
    if device == "cpu":
        return  # torch takes its time to load
    import torch

    try:
        torch.zeros(1, device=torch.device(device)).cpu()
    except (RuntimeError, AssertionError) as error:
        gpu = "sees a GPU" if torch.cuda.is_available() else "sees no GPU"
        raise ValueError(
            f"device {device!r} does not work here (torch {gpu}); give a device of torch, such as cpu or cuda"
        ) from error


@cache
def commit() -> str:
    """The commit of the source, with a + if it was changed since; empty if it is in no repository."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


@cache
def machine() -> str:
    """Processor and cores."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    cores = os.cpu_count() or 1  # of the machine: what this process may use is no part of its name
    return f"{name}, {cores} {'core' if cores == 1 else 'cores'}"


@cache
def _environment() -> tuple[tuple[str, str], ...]:
    found = {"python": platform.python_version()}
    for name in ("numpy", "scipy", "scikit-learn", "torch"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return tuple(found.items())


def environment() -> dict[str, Any]:
    """Versions of what everything runs on."""
    return dict(_environment())
