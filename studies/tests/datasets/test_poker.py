"""The rules of poker against every hand there is, and hands that are made up."""

from itertools import combinations

import numpy as np
import pytest

from bayesvm_studies.datasets import Dataset, DatasetError, load
from bayesvm_studies.datasets.pmlb import read_tsv
from bayesvm_studies.datasets.poker import HAND_NAMES, N_ROWS, complete_poker, generated_hands, poker_hand
from studies.tests.datasets.folders import real_poker, write_set

# Hands out of 2,598,960 without order, as in every book on probability.
COUNTS = [1302540, 1098240, 123552, 54912, 10200, 5108, 3744, 624, 36, 4]

REAL_POKER = real_poker()


def cards(numbers):
    """Suits and ranks of cards numbered 0 to 51."""
    out = np.empty((len(numbers), 10), dtype=np.int64)
    out[:, ::2], out[:, 1::2] = numbers // 13 + 1, numbers % 13 + 1
    return out


def slow_hand(hand):
    """The rules as they are told."""
    suits, ranks = hand[::2], sorted(hand[1::2])
    counts = sorted((ranks.count(r) for r in set(ranks)), reverse=True)
    flush = len(set(suits)) == 1
    royal = ranks == [1, 10, 11, 12, 13]
    straight = royal or ranks == list(range(ranks[0], ranks[0] + 5))
    if flush and straight:
        return 9 if royal else 8
    if counts[0] == 4:
        return 7
    if counts[:2] == [3, 2]:
        return 6
    if flush:
        return 5
    if straight:
        return 4
    return {(3, 1): 3, (2, 2): 2, (2, 1): 1, (1, 1): 0}[tuple(counts[:2])]


@pytest.fixture(scope="module")
def every_hand():
    return cards(np.fromiter(combinations(range(52), 5), dtype=np.dtype((np.int64, 5)), count=2598960))


def test_every_hand_there_is(every_hand):
    assert np.bincount(poker_hand(every_hand), minlength=10).tolist() == COUNTS
    assert len(HAND_NAMES) == 10


def test_agrees_with_the_rules_as_told(every_hand):
    labels = poker_hand(every_hand)
    rng = np.random.default_rng(0)
    for label in range(10):
        of_label = np.flatnonzero(labels == label)
        for i in rng.choice(of_label, min(200, len(of_label)), replace=False):
            assert slow_hand(every_hand[i].tolist()) == label


def test_the_order_of_cards_does_not_matter():
    rng = np.random.default_rng(1)
    hands = np.array([rng.choice(52, 5, replace=False) for _ in range(500)])
    shuffled = rng.permuted(hands, axis=1)
    assert (poker_hand(cards(hands)) == poker_hand(cards(shuffled))).all()


@pytest.mark.skipif(REAL_POKER is None, reason="no real poker hands here; name their folder in BAYESVM_DATA")
def test_every_real_row_has_the_label_that_the_rules_give():
    X, y, names = read_tsv(REAL_POKER)
    assert names == ("S1", "C1", "S2", "C2", "S3", "C3", "S4", "C4", "S5", "C5")
    assert len(y) >= 125_008
    assert (poker_hand(X) == y).all()


def test_generated_hands_are_distinct_possible_and_new():
    taken = generated_hands(1000, np.empty((0, 10))).astype(float)
    hands = generated_hands(50_000, taken)
    assert len(np.unique(hands, axis=0)) == len(hands)
    assert len(np.unique(np.concatenate([hands, taken.astype(int)]), axis=0)) == 51_000
    suits, ranks = hands[:, ::2], hands[:, 1::2]
    assert (suits.min(), suits.max(), ranks.min(), ranks.max()) == (1, 4, 1, 13)
    numbers = np.sort((suits - 1) * 13 + ranks - 1, axis=1)
    assert (np.diff(numbers, axis=1) > 0).all()  # no card twice
    # Every card in every place equally often, within five standard deviations.
    for place in range(5):
        counts = np.bincount((suits[:, place] - 1) * 13 + ranks[:, place] - 1, minlength=52)
        assert np.abs(counts - len(hands) / 52).max() < 5 * (len(hands) / 52) ** 0.5
    expected = np.array(COUNTS) / sum(COUNTS) * len(hands)
    found = np.bincount(poker_hand(hands), minlength=10)
    assert (np.abs(found - expected) < 5 * np.sqrt(expected) + 1).all()


def test_generated_hands_are_the_same_everywhere():
    hands = generated_hands(3, np.empty((0, 10)))
    assert hands.tolist() == generated_hands(10, np.empty((0, 10)))[:3].tolist()
    assert hands.tolist() == [
        [3, 10, 1, 12, 2, 3, 1, 11, 3, 7],
        [1, 1, 2, 1, 2, 3, 4, 8, 3, 4],
        [3, 2, 2, 4, 3, 12, 2, 13, 3, 6],
    ]


def test_completing_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("bayesvm_studies.datasets.poker.N_ROWS", 300)
    part = generated_hands(100, np.empty((0, 10)))
    write_set(tmp_path / "pmlb_partial", "poker", part, poker_hand(part))
    (tmp_path / "pmlb").mkdir()
    loaded = load("poker", data=tmp_path / "pmlb")
    assert loaded.completed
    assert loaded.X.shape == (300, 10)
    assert (loaded.X[:100] == part).all()
    assert (poker_hand(loaded.X) == loaded.y).all()
    assert len(np.unique(loaded.X, axis=0)) == 300
    assert loaded.note.startswith("poker completed: 100 of its 300 rows are real, 200 are generated")


def test_a_whole_file_is_left_alone(monkeypatch):
    monkeypatch.setattr("bayesvm_studies.datasets.poker.N_ROWS", 50)
    hands = generated_hands(50, np.empty((0, 10))).astype(float)
    whole = Dataset("poker", hands, poker_hand(hands).astype(float), ())
    assert complete_poker(whole) is whole


def test_labels_that_the_rules_do_not_give_are_refused():
    hands = generated_hands(50, np.empty((0, 10))).astype(float)
    wrong = poker_hand(hands).astype(float)
    wrong[7] += 1
    with pytest.raises(DatasetError, match="1 of the 50 rows"):
        complete_poker(Dataset("poker", hands, wrong, ()))


def test_the_size_is_that_of_the_paper():
    assert N_ROWS == 1_025_009


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda hand: hand[:9], r"shape \(1, 9\)"),
        (lambda hand: [*hand, 1, 1], r"shape \(1, 12\)"),
        (lambda hand: [0, *hand[1:]], "no suit 0; a suit is a whole number from 1 to 4"),
        (lambda hand: [5, *hand[1:]], "no suit 5"),
        (lambda hand: [*hand[:9], 14], "no rank 14; a rank is a whole number from 1 to 13"),
        (lambda hand: [*hand[:9], 0], "no rank 0"),
        (lambda hand: [*hand[:9], 2.5], "no rank 2.5"),
        (lambda hand: [*hand[:9], np.nan], "no rank nan"),
    ],
)
def test_only_cards_make_a_hand(change, message):
    hand = [1, 10, 1, 11, 1, 13, 1, 12, 1, 1]
    assert poker_hand([hand]).tolist() == [9]
    with pytest.raises(ValueError, match=message):
        poker_hand([change(hand)])
    with pytest.raises(ValueError, match="shape"):
        poker_hand(hand)
