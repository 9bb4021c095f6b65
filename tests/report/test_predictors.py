import numpy as np
import pandas as pd
import pytest

from bayesvm.report._leakage import best_accuracy, codes_of, left_out_accuracy, skill


def by_hand(codes, y):
    """Predict each row from the others of its code, one row at a time."""
    overall = np.bincount(y).argmax()
    hits = 0
    for i in range(len(y)):
        others = np.delete(y, i)[np.delete(codes, i) == codes[i]]
        if not others.size:
            hits += y[i] == overall
            continue
        counts = np.bincount(others, minlength=y.max() + 1)
        hits += (counts == counts.max()).sum() == 1 and counts.argmax() == y[i]
    return hits / len(y)


@pytest.mark.parametrize("seed", range(5))
def test_left_out_accuracy_is_what_leaving_out_gives(seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(-1, rng.integers(1, 60), 120)
    y = np.where(rng.random(120) < 0.6, codes % 3, rng.integers(0, 3, 120))
    assert left_out_accuracy(codes, y) == pytest.approx(by_hand(codes, y))


def test_an_identifier_predicts_no_better_than_the_most_frequent_class():
    y = np.random.default_rng(0).integers(0, 2, 200)
    assert left_out_accuracy(np.arange(200), y) == np.bincount(y).max() / 200


def test_numbers_are_binned_by_count_and_gaps_are_a_bin():
    values = pd.Series(np.r_[np.arange(99.0) ** 3, [np.nan] * 5])
    codes, binned = codes_of(values)
    assert binned
    assert len(set(codes[:99])) == 10
    assert set(codes[99:]) == {-1}
    assert np.bincount(codes[:99]).min() >= 9


def test_few_values_are_taken_one_by_one():
    codes, binned = codes_of(pd.Series([3.0, 1.0, 3.0, 1.0, 2.0] * 20))
    assert not binned
    assert codes[:5].tolist() == [0, 1, 0, 1, 2]


def test_a_tree_finds_a_border_inside_a_bin():
    """One bin of twenty holds both classes; the tree parts them."""
    x = np.arange(400.0)
    y = (x >= 205).astype(np.int64)
    codes, _ = codes_of(pd.Series(x))
    assert left_out_accuracy(codes, y) < 0.99
    order = np.random.default_rng(0).permutation(400)
    assert best_accuracy(pd.Series(x[order]), y[order]) > 0.99


def test_dates_are_ordered_like_numbers():
    y = np.arange(300) // 150
    days = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(300), "D"))
    assert best_accuracy(days, y) > 0.99


def test_skill():
    assert skill(0.96, 0.2) == pytest.approx(0.95)
    assert skill(1.0, 1.0) == 0.0
