"""From lines of results to arrays: errors by policy, set, seed and number of queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayesvm_studies.choose import newest
from bayesvm_studies.ranks import rank_rows
from bayesvm_studies.result import Result

FloatArray = npt.NDArray[np.floating]
Place = tuple[str, int]


class Curves(NamedTuple):
    """Test error before the first query and after each.

    Attributes
    ----------
    errors : dict of str to dict
        By entrant, then by (set, seed): arrays of n_queries + 1 shares.
    n_queries : int
        Most queries of any run; where the pool was empty before, its last error stays.
    """

    errors: dict[str, dict[Place, FloatArray]]
    n_queries: int

    def places(self, entrants: Sequence[str]) -> list[Place]:
        """Sets and seeds that all of these finished, in order."""
        if not entrants:
            return []
        common = set.intersection(*(set(self.errors.get(e, {})) for e in entrants))
        return sorted(common, key=lambda place: (place[1], place[0]))

    def stacked(self, entrants: Sequence[str], places: Sequence[Place]) -> FloatArray:
        """Errors, shape (n_places, n_entrants, n_queries + 1)."""
        shape = (len(places), len(entrants), self.n_queries + 1)
        return np.array([[self.errors[e][p] for e in entrants] for p in places]).reshape(shape)

    def mean_ranks(self, entrants: Sequence[str]) -> dict[int, FloatArray]:
        """By seed, mean ranks over the sets, shape (n_entrants, n_queries + 1); 1 is the lowest error."""
        places = self.places(entrants)
        found = {}
        for seed in sorted({seed for _, seed in places}):
            errors = self.stacked(entrants, [p for p in places if p[1] == seed])
            n_sets, n_entrants, n = errors.shape
            ranks = rank_rows(errors.transpose(0, 2, 1).reshape(-1, n_entrants))
            found[seed] = ranks.reshape(n_sets, n, n_entrants).mean(0).T
        return found

    def mean_accuracy(self, entrants: Sequence[str]) -> dict[int, FloatArray]:
        """By seed, mean accuracies over the sets, shape (n_entrants, n_queries + 1)."""
        places = self.places(entrants)
        return {
            seed: 1.0 - self.stacked(entrants, [p for p in places if p[1] == seed]).mean(0)
            for seed in sorted({seed for _, seed in places})
        }

    def areas(self, entrant: str, places: Iterable[Place] | None = None) -> dict[str, float]:
        """By set, the area under the curve of accuracy, mean over its seeds, or over these sets and seeds."""
        wanted = None if places is None else set(places)
        found: dict[str, list[float]] = {}
        for place, errors in sorted(self.errors.get(entrant, {}).items()):
            if wanted is None or place in wanted:
                found.setdefault(place[0], []).append(area(1.0 - errors))
        return {name: float(np.mean(values)) for name, values in found.items()}


def area(accuracy: FloatArray) -> float:
    """Area under a budget curve over its length: the mean height, by the trapezoidal rule.

    Examples
    --------
    >>> area(np.array([0.0, 1.0, 1.0]))
    0.75
    """
    if len(accuracy) == 1:
        return float(accuracy[0])
    return float((accuracy[:-1] + accuracy[1:]).mean() / 2.0)


def gather(results: Iterable[Result]) -> Curves:
    """Curves of runs that have one; of several results of a run the newest counts.

    A failure or a shorter trial does not hide a whole run that was made before it.
    """
    runs = [r for r in results if r.ok and "wrong" in r.extra]
    n_queries = max((_asked_for(r) for r in runs), default=0)
    errors: dict[str, dict[Place, FloatArray]] = {}
    for run in newest(r for r in runs if _asked_for(r) == n_queries).values():
        share = np.asarray(run.extra["wrong"], dtype=np.float64) / run.n_test
        padded = np.pad(share, (0, n_queries + 1 - len(share)), mode="edge")
        errors.setdefault(run.model, {})[run.data, run.split] = padded
    return Curves(errors, n_queries)


def _asked_for(run: Result) -> int:
    return int(run.config["arguments"]["n_queries"])
