"""The set ``poker``, completed by generated hands where only a part of it is at hand.

UCI's hands are five cards in the order in which they were drawn, each hand
equally likely (its training part has a few rare ones more). The label is a
function of the cards, so hands can be generated and labelled; what is lost is
only which hands UCI happened to draw.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesvm_studies.datasets.dataset import Dataset
from bayesvm_studies.datasets.errors import DatasetError
from bayesvm_studies.datasets.poker_rules import poker_hand

N_ROWS = 1_025_009
_CHOICES = (52, 51, 50, 49, 48)
_N_HANDS = 52 * 51 * 50 * 49 * 48


def complete_poker(part: Dataset) -> Dataset:
    """The rows of the part, then generated hands up to the size of the whole set.

    Every label of the part is compared with the rules first.
    """
    given = len(part.y)
    if given > N_ROWS:
        raise DatasetError(f"poker has {N_ROWS} rows, the file has {given}")
    try:
        labels = poker_hand(part.X)
    except ValueError as error:
        raise DatasetError(f"these are no hands of poker: {error}") from error
    wrong = int((labels != part.y).sum())
    if wrong:
        raise DatasetError(f"{wrong} of the {given} rows of poker have labels that the rules do not give")
    if given == N_ROWS:
        return part
    cards = generated_hands(N_ROWS - given, part.X)
    return part._replace(
        X=np.concatenate([part.X, cards.astype(np.float64)]),
        y=np.concatenate([part.y, poker_hand(cards).astype(np.float64)]),
        completed=True,
        note=f"poker completed: {given} of its {N_ROWS} rows are real, {N_ROWS - given} are generated "
        "hands labelled by the rules of poker",
    )


def generated_hands(n_hands: int, taken: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Distinct hands in the order of their cards, none of them among those taken.

    The k-th candidate is a hash of k, so the hands are the same everywhere and
    with every version of numpy.
    """
    known = np.unique(_number_of(taken.astype(np.int64)))
    found = np.empty(0, dtype=np.int64)
    start = 0
    while len(found) < n_hands:
        more = n_hands - len(found) + 1000
        counters = np.arange(start, start + more, dtype=np.uint64)
        start += more
        candidates = (_mixed(counters) % np.uint64(_N_HANDS)).astype(np.int64)
        candidates = candidates[~np.isin(candidates, known)]
        found = np.concatenate([found, candidates])
        _, first = np.unique(found, return_index=True)
        found = found[np.sort(first)]
    return _cards_of(found[:n_hands])


def _mixed(counters: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The output function of SplitMix64, which wraps around on purpose."""
    z = (counters + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _cards_of(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Suits and ranks of the hands with these numbers, five cards without putting any back."""
    drawn = np.empty((len(numbers), 5), dtype=np.int64)
    rest = numbers
    for i, choices in enumerate(_CHOICES):
        rest, position = np.divmod(rest, choices)
        # The position counts only cards not drawn yet: step over those that are, the lowest first.
        for earlier in np.sort(drawn[:, :i], axis=1).T:
            position = position + (position >= earlier)
        drawn[:, i] = position
    cards = np.empty((len(numbers), 10), dtype=np.int64)
    cards[:, ::2], cards[:, 1::2] = drawn // 13 + 1, drawn % 13 + 1
    return cards


def _number_of(cards: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Inverse of ``_cards_of``."""
    drawn = (cards[:, ::2] - 1) * 13 + cards[:, 1::2] - 1
    number = np.zeros(len(cards), dtype=np.int64)
    for i in reversed(range(5)):
        position = drawn[:, i] - (drawn[:, :i] < drawn[:, i : i + 1]).sum(1)
        number = number * _CHOICES[i] + position
    return number
