"""The inference methods by name: one line here makes a method available to every kernel estimator."""

from __future__ import annotations

from bayesvm._inference import adam, coordinate, ecm, gibbs, natural, natural_adam, slice
from bayesvm._inference.task import Method
from bayesvm._registry import Registry

METHODS: Registry[Method] = Registry(
    "inference method",
    {
        "coordinate": coordinate.METHOD,
        "natural": natural.METHOD,
        "adam": adam.METHOD,
        "natural_adam": natural_adam.METHOD,
        "ecm": ecm.METHOD,
        "gibbs": gibbs.METHOD,
        "slice": slice.METHOD,
    },
)


def register_inference(name: str, method: Method) -> None:
    """Make a method available as ``inference=name`` in every kernel estimator."""
    METHODS.register(name, method)
