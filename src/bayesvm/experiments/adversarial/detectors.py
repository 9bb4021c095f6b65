"""The detectors that learn from attacks: on a model's scores, and on those of squeezed images too."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bayesvm.adversarial.combined import combination
from bayesvm.adversarial.squeezing import SQUEEZING
from bayesvm.experiments.adversarial.grid import COMBINED, SQUEEZED

__all__ = ["Arrays", "Detectors"]

Arrays = dict[str, npt.NDArray[np.float64]]


class Detectors:
    """Fitted to scores of clean and of attacked images; both kinds count alike.

    Parameters
    ----------
    clean, attacked : dict of str to ndarray of shape (n,) and (m,)
    """

    def __init__(self, clean: Arrays, attacked: Arrays) -> None:
        own = [name for name in clean if name not in SQUEEZING and name != "variation_ratio"]
        self._columns = {COMBINED: own}
        if any(name in clean for name in SQUEEZING):
            self._columns[SQUEEZED] = [*own, *(name for name in clean if name in SQUEEZING)]
        self._fitted = {
            name: _fit(_table(clean, c), _table(attacked, c)) for name, c in self._columns.items()
        }

    def suspicion(self, scores: Arrays) -> Arrays:
        """Log odds of an attack by every detector."""
        return {
            name: fitted.decision_function(_table(scores, self._columns[name]))
            for name, fitted in self._fitted.items()
        }


def _table(scores: Arrays, names: list[str]) -> npt.NDArray[np.float64]:
    return np.stack([scores[name] for name in names], 1)


def _fit(clean: npt.NDArray[np.float64], attacked: npt.NDArray[np.float64]) -> Any:
    sizes = [len(clean), len(attacked)]
    weight = np.repeat([0.5 * sum(sizes) / size for size in sizes], sizes)
    rows = np.concatenate([clean, attacked])
    return combination("boosting").fit(rows, np.repeat([0, 1], sizes), sample_weight=weight)
