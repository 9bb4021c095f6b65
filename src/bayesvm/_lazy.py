"""Names of a package that are imported when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    namespace: dict[str, Any], home: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    namespace : dict
        The package's ``globals()``, with ``__all__``.
    home : mapping of str to str
        By name the module that has it: its last part, or all of them.
    """
    package = namespace["__name__"]

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = home[name]
        whole = module if module.startswith("bayesvm") else f"{package}.{module}"
        value = namespace[name] = getattr(import_module(whole), name)
        return value

    def names() -> list[str]:
        return sorted({*namespace, *namespace["__all__"]})

    return get, names
