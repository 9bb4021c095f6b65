"""How long the fits that are left will take, from those that were made."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable

from bayesvm_studies.datasets import find_set
from bayesvm_studies.result import Result
from bayesvm_studies.task import Task

# A fit of nothing still takes some time; in rows. Regressions over all sets gave
# powers of the rows from .3 (boosting) to .8 (BayesianSVC), and 1.3 for an SVC
# on sets that are searched whole: limits on points, rows and bins are at work.
_LEAST_ROWS = 300.0
_POWER = 0.7
_RECENT = 40


def _size(data: str) -> float:
    """A rough measure of the work that a set makes, the same for all models."""
    known = find_set(data)
    return (
        1.0
        if known is None
        else (known.rows + _LEAST_ROWS) ** _POWER * (known.features * known.classes) ** 0.5
    )


class TimeLeft:
    """Seconds per unit of size for every model and protocol, as seen so far.

    Parameters
    ----------
    results : iterable of Result
        Of earlier runs.
    """

    def __init__(self, results: Iterable[Result] = ()) -> None:
        self._rates: dict[tuple[str, str], list[float]] = defaultdict(list)
        for result in results:
            self.learn(result)

    def learn(self, result: Result) -> None:
        """A fit was made."""
        if result.status != "error":
            rates = self._rates[result.protocol, result.model]
            rates.append(result.total_s / _size(result.data))
            # Sets come in order of size: the last ones are most like those to come.
            del rates[:-_RECENT]

    def seconds(self, tasks: Iterable[Task], jobs: int) -> float | None:
        """Seconds for these fits; None while nothing is known."""
        if not self._rates:
            return None
        all_rates = [statistics.median(rates) for rates in self._rates.values()]
        total = 0.0
        for task in tasks:
            rates = self._rates.get((task.protocol, task.model))
            rate = statistics.median(rates) if rates else statistics.median(all_rates)
            expected = rate * _size(task.data)
            total += expected if task.timeout is None else min(expected, task.timeout)
        return total / jobs
