"""The detectors that learn from attacks: on a model's scores, and on those of squeezed images too."""

from __future__ import annotations

from bayesvm.adversarial._detector import Combination, Scores
from bayesvm.adversarial._scores import SQUEEZING
from bayesvm_studies.adversarial.grid import COMBINED, SQUEEZED


class Detectors:
    """Fitted to scores of clean and of attacked images.

    Parameters
    ----------
    clean, attacked : dict of str to ndarray of shape (n,) and (m,)
    """

    def __init__(self, clean: Scores, attacked: Scores) -> None:
        own = [name for name in clean if name not in SQUEEZING and name != "variation_ratio"]
        self._fitted = {COMBINED: Combination().fit(clean, attacked, own)}
        if any(name in clean for name in SQUEEZING):
            self._fitted[SQUEEZED] = Combination().fit(clean, attacked)

    def suspicion(self, scores: Scores) -> Scores:
        """Log odds of an attack by every detector."""
        return {name: fitted.log_odds(scores) for name, fitted in self._fitted.items()}
