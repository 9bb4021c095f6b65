"""The set ``poker``: the rules that label a hand, and generated hands where only a part of it is available.

UCI's hands are five cards in the order in which they were drawn, each hand
equally likely (its training part has a few rare ones more). The label is a
function of the cards, so hands can be generated and labelled; what is lost is
only which hands UCI happened to draw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bayesvm_studies.datasets.catalogue import DatasetError

if TYPE_CHECKING:
    from bayesvm_studies.datasets.pmlb import Dataset

N_ROWS = 1_025_009
_CHOICES = (52, 51, 50, 49, 48)
_N_HANDS = 52 * 51 * 50 * 49 * 48
HAND_NAMES = (
    "nothing",
    "one pair",
    "two pairs",
    "three of a kind",
    "straight",
    "flush",
    "full house",
    "four of a kind",
    "straight flush",
    "royal flush",
)


def poker_hand(cards: Any) -> npt.NDArray[np.int64]:
    """Rank of each hand, from 0 (nothing) to 9 (royal flush).

    Parameters
    ----------
    cards : array-like of shape (n_hands, 10)
        Suit (1 to 4) and rank (1 = ace, 2 ... 10, 11 = jack, 12 = queen, 13 =
        king) of five cards in turn: S1, C1, ..., S5, C5.

    Raises
    ------
    ValueError
        If the shape is another one or there are no such cards.

    Examples
    --------
    Ten to ace of hearts; ace to five of mixed suits; three queens and two fours:

    >>> poker_hand(
    ...     [
    ...         [1, 10, 1, 11, 1, 13, 1, 12, 1, 1],
    ...         [1, 1, 2, 3, 1, 2, 1, 5, 3, 4],
    ...         [1, 12, 2, 12, 3, 12, 1, 4, 2, 4],
    ...     ]
    ... ).tolist()
    [9, 4, 6]
    """
    cards = _checked(cards)
    suits, ranks = cards[:, ::2], np.sort(cards[:, 1::2], axis=1)
    flush = (suits == suits[:, :1]).all(1)
    # Equal neighbours among sorted ranks: how many pairs of cards agree tells all groups apart.
    agreeing = sum(
        ((ranks[:, i] == ranks[:, j]).astype(np.int64) for i in range(5) for j in range(i)),
        start=np.zeros(len(ranks), dtype=np.int64),
    )
    in_a_row = (np.diff(ranks, axis=1) == 1).all(1)
    ace_high = (ranks == np.array([1, 10, 11, 12, 13])).all(1)
    straight = in_a_row | ace_high
    # Pairs of equal cards: pair 1, two pairs 2, three 3, full house 3 + 1, four 6.
    by_groups = np.array([0, 1, 2, 3, 6, 0, 7])[agreeing]
    return np.select(
        [flush & ace_high, flush & straight, flush, straight], [9, 8, 5, 4], default=by_groups
    ).astype(np.int64)


def _checked(cards: Any) -> npt.NDArray[np.int64]:
    """Cards as whole numbers, if they are cards."""
    given = np.asarray(cards, dtype=np.float64)
    if given.ndim != 2 or given.shape[1] != 10:
        raise ValueError(
            f"cards of shape {given.shape} are not valid; give 10 columns, suit and rank of five cards"
        )
    for name, columns, most in (("suit", given[:, ::2], 4), ("rank", given[:, 1::2], 13)):
        wrong = ~((columns >= 1) & (columns <= most) & (columns == np.floor(columns)))
        if wrong.any():
            first = columns[wrong][0]
            raise ValueError(f"there is no {name} {first:g}; a {name} is a whole number from 1 to {most}")
    return given.astype(np.int64)


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
