"""Names of kernels, likelihoods, methods and rules: the library's own, and those that users register."""

from __future__ import annotations

from typing import TypeVar

_Value = TypeVar("_Value")


class Registry(dict[str, _Value]):
    """What a name stands for; a built-in name keeps its meaning.

    Parameters
    ----------
    kind : str
        What is registered, for error messages.
    built_in : dict
    """

    def __init__(self, kind: str, built_in: dict[str, _Value]) -> None:
        super().__init__(built_in)
        self._kind = kind
        self._built_in = frozenset(built_in)

    def register(self, name: str, value: _Value) -> None:
        """Add a name, or replace one that was added before: a notebook cell may run twice.

        Raises
        ------
        ValueError
            If the name is built in and stands for something else.
        """
        if name in self._built_in and self[name] is not value:
            raise ValueError(f"{name!r} is a built-in {self._kind}; register yours under another name")
        self[name] = value
