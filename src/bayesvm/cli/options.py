"""Checks that several commands make of their options."""

from __future__ import annotations

__all__ = ["check_share"]


def check_share(option: str, value: float) -> None:
    """Refuse what is not strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise ValueError(f"{option} {value:g} is not valid; give a share between 0 and 1, such as 0.01")
