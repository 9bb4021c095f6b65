"""What both benchmarks need: which code ran on which machine, and results as JSON."""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import bayesvm

__all__ = ["ROOT", "environment", "source_version", "write_json"]

ROOT = Path(__file__).resolve().parents[2]


# Parts of the library that take no part in fits and predictions.
_ELSEWHERE = (
    *("__main__.py", "active", "adversarial", "chains_export.py", "cli", "datasets", "experiments"),
    *("files.py", "nn", "persistence.py", "plotting", "report", "tables"),
)


def source_version() -> str:
    """Version of bayesvm with a digest of what fits and predicts, so that every change of it shows."""
    digest = hashlib.sha256()
    package = Path(bayesvm.__file__).parent
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] not in _ELSEWHERE:
            digest.update(path.read_bytes())
    return f"{bayesvm.__version__}+{digest.hexdigest()[:8]}"


def _commit() -> str | None:
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def environment() -> dict[str, Any]:
    """Versions, processor and date, for the ``config`` entry of a result."""
    return {
        "bayesvm": source_version(),
        "commit": _commit(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("numpy", "scipy", "scikit-learn", "torch")},
        "cpu": f"{platform.machine()}, {os.cpu_count()} cores",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def write_json(path: str | Path, content: dict[str, Any]) -> None:
    """Write indented JSON, making the folder if need be."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")
