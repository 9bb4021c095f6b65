"""Two policies against each other, set by set."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesvm_studies.active.curves import Curves

# Areas under the curve that differ by less than half a percent of accuracy count as equal.
_EQUAL = 0.005


class Duel(NamedTuple):
    """Areas under the budget curve by set, and who won where.

    Attributes
    ----------
    first, second : str
        Entrants.
    areas : dict of str to (float, float)
        By set, mean over the seeds that both have.
    p_value : float
        Wilcoxon's signed-rank test over the sets; NaN with fewer than two that differ.
    """

    first: str
    second: str
    areas: dict[str, tuple[float, float]]
    p_value: float

    def won(self) -> list[str]:
        """Sets on which the first is better, by the largest lead first."""
        return self._beyond(1.0)

    def lost(self) -> list[str]:
        """Sets on which the second is better, by the largest lead first."""
        return self._beyond(-1.0)

    @property
    def mean_lead(self) -> float:
        """By how much the first is better, mean over the sets."""
        return float(np.mean([a - b for a, b in self.areas.values()]))

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        won, lost = self.won(), self.lost()
        return {
            "wins": len(won),
            "losses": len(lost),
            "equal": len(self.areas) - len(won) - len(lost),
            "equal_within": _EQUAL,
            "mean_lead": self.mean_lead,
            "wilcoxon_p": self.p_value,
            "wins_on": won,
            "losses_on": lost,
        }

    def _beyond(self, sign: float) -> list[str]:
        leads = {name: sign * (a - b) for name, (a, b) in self.areas.items()}
        return sorted((name for name, lead in leads.items() if lead > _EQUAL), key=lambda name: -leads[name])


def duel(curves: Curves, first: str, second: str) -> Duel | None:
    """Compare two entrants on the sets and seeds that both have; None if there are none."""
    from scipy.stats import wilcoxon

    places = curves.places([first, second])
    if not places:
        return None
    both = Curves({e: {p: curves.errors[e][p] for p in places} for e in (first, second)}, curves.n_queries)
    of_first, of_second = both.areas(first), both.areas(second)
    areas = {name: (of_first[name], of_second[name]) for name in of_first}
    leads = np.array([a - b for a, b in areas.values()])
    leads = leads[leads != 0.0]
    p_value = float(wilcoxon(leads).pvalue) if len(leads) > 1 else float("nan")
    return Duel(first, second, areas, p_value)
