"""What a hand of poker is called: the label of the UCI set ``poker`` as a function of the cards."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

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
