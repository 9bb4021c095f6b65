"""One fit to be made, and the key that says whether it has been made already."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any


def digest(content: Any) -> str:
    """Sixteen hexadecimal digits that stand for anything JSON can hold."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Task:
    """A model on one split of one set.

    Attributes
    ----------
    data : str
        Name of the set.
    data_digest : str
        Of its rows and labels, so that other rows are another task.
    protocol : str
        "paper" or "olson"; says how the set is split.
    split : int
        Number of the fold, or the seed of the only split.
    model : str
        Name of the contestant.
    config : dict
        What is built: ``estimator`` ("module:name") and ``arguments``.
    versions : dict
        Versions of what the model is made of.
    timeout : float or None
        Seconds that fitting and predicting may take; not part of the key.
    """

    data: str
    data_digest: str
    protocol: str
    split: int
    model: str
    config: dict[str, Any]
    versions: dict[str, str]
    timeout: float | None = None

    @property
    def place(self) -> str:
        """Key without the versions: what is measured, whatever with."""
        return digest([self.data, self.data_digest, self.protocol, self.split, self.model, self.config])

    @property
    def key(self) -> str:
        """Key of the result."""
        return digest([self.place, self.versions])
