"""The inference methods by name: one line here makes a method available to every estimator."""

from __future__ import annotations

from bayesvm.inference import adam, coordinate, natural
from bayesvm.inference.task import Method

__all__ = ["METHODS", "register_inference"]

METHODS: dict[str, Method] = {
    "coordinate": coordinate.METHOD,
    "natural": natural.METHOD,
    "adam": adam.METHOD,
}


def register_inference(name: str, method: Method) -> None:
    """Make a method available as ``inference=name``."""
    METHODS[name] = method
