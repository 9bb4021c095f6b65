"""Packages whose public names are imported when they are first used.

``import bayesvm`` and ``bayesvm --help`` then do not wait for torch. A package lists its
names twice: type checkers read the imports of its ``TYPE_CHECKING`` block; at run time
``__all__``, ``dir()`` and the imports follow from a list by module.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_package(
    package: str, exports: Mapping[str, Sequence[str]], extra: str | None = None
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """``__all__``, ``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    exports : mapping of str to sequence of str
        Public names by the module of the package that defines them.
    extra : str or None
        Extra of the distribution to name where another package is missing.
    """
    home = {name: f"{package}.{module}" for module, names in exports.items() for name in names}

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(home[name]), name)
        except ModuleNotFoundError as error:
            missing = (error.name or "").split(".")[0]
            if extra is None or missing == "bayesvm":
                raise
            raise ImportError(f"{package}.{name} needs {missing}: pip install 'bayesvm[{extra}]'") from error
        setattr(sys.modules[package], name, value)  # the next access does not come here
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home})

    return sorted(home), get, names
