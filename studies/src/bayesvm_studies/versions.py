"""Which code ran on which machine."""

from __future__ import annotations

import ast
import hashlib
import io
import os
import platform
import subprocess
import tokenize
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import bayesvm

_HOMES = {"bayesvm": Path(bayesvm.__file__).parent, "bayesvm_studies": Path(__file__).parent}
# Parts of the library that no fit to a table runs.
_ELSEWHERE = (
    *("__main__.py", "_cli", "_files.py", "_persistence.py", "active", "adversarial", "metrics.py", "nn"),
    *("plotting", "report", "tables"),
)


def _files(module: str) -> Iterable[Path]:
    """The file of a module, or all of a package."""
    first, *rest = module.split(".")
    path = _HOMES[first].joinpath(*rest)
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def _version(files: Iterable[Path]) -> str:
    """Version of bayesvm with a digest of the code in some files."""
    found = hashlib.sha256()
    for file in files:
        found.update("\n".join(code_lines(file.read_text(encoding="utf-8"))).encode())
    return f"{bayesvm.__version__}+{found.hexdigest()[:8]}"


def code_lines(source: str) -> list[str]:
    """The lines of a module without comments, docstrings and blank lines: what figures depend on."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                last = first.end_lineno or first.lineno
                lines[first.lineno - 1 : last] = [""] * (last - first.lineno + 1)
    return [line.rstrip() for line in lines if line.strip()]


@cache
def source_version() -> str:
    """Version of bayesvm with a digest of the code that fits and predicts: every change of it shows."""
    home = _HOMES["bayesvm"]
    return _version(f for f in _files("bayesvm") if f.relative_to(home).parts[0] not in _ELSEWHERE)


@cache
def code_version(*modules: str, without: tuple[str, ...] = ()) -> str:
    """Version of bayesvm with a digest of some modules and packages.

    Parameters
    ----------
    *modules : str
        Such as "bayesvm.nn" and "bayesvm_studies.images.heads".
    without : tuple of str
        File names of these packages that do not count.
    """
    return _version(f for module in modules for f in _files(module) if f.stem not in without)


def distribution_version(name: str) -> str:
    """Version of a distribution; of a package in a folder without metadata, what it says itself."""
    try:
        return version(name)
    except PackageNotFoundError:
        module = {"scikit-learn": "sklearn"}.get(name, name.replace("-", "_"))
        try:
            return str(import_module(module).__version__)
        except (ImportError, AttributeError):
            raise PackageNotFoundError(name) from None


def package_versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions of distributions; that of this library shows every change of it."""
    return {name: source_version() if name == "bayesvm" else distribution_version(name) for name in packages}


def module_digest(*modules: str) -> str:
    """Eight hexadecimal digits that stand for the content of modules."""
    content = b"".join(file.read_bytes() for module in modules for file in _files(module))
    return hashlib.sha256(content).hexdigest()[:8]


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


COMMIT_VARIABLE = "BAYESVM_COMMIT"


@cache
def commit() -> str:
    """The commit of the source, with a + if it was changed since; empty if it is in no repository.

    A copy without its repository is told by the variable BAYESVM_COMMIT.
    """
    if told := os.environ.get(COMMIT_VARIABLE):
        return told
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
def environment() -> dict[str, str]:
    """Versions of what everything runs on."""
    found = {"python": platform.python_version()}
    for name in ("numpy", "scipy", "scikit-learn", "torch"):
        try:
            found[name] = distribution_version(name)
        except PackageNotFoundError:
            continue
    return found
