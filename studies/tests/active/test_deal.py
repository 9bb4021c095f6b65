"""Who gets which rows."""

import numpy as np
import pytest

from bayesvm_studies.active.play import deal
from bayesvm_studies.structured.contestants import PAPER_SEED, split_rows

Y = np.repeat([3.0, 1.0, 7.0, 9.0, 5.0], [100, 60, 30, 2, 1])


@pytest.mark.parametrize("seed", range(6))
def test_one_labelled_row_of_each_class_and_no_row_twice(seed):
    dealt = deal(Y, seed, None, None)
    train, test = split_rows("paper", Y, PAPER_SEED + seed)
    assert sorted(dealt.pool) == sorted(train)
    assert sorted(dealt.test) == sorted(test)
    first = dealt.pool[: dealt.n_first]
    assert sorted(Y[first]) == sorted(set(Y[train])) == [1.0, 3.0, 7.0, 9.0]


def test_limits_keep_the_first_rows():
    whole, small = deal(Y, 2, None, None), deal(Y, 2, 20, 10)
    assert small.n_first == whole.n_first == 4
    assert small.pool.tolist() == whole.pool[:20].tolist()
    assert small.test.tolist() == whole.test[:10].tolist()
    assert len(deal(Y, 2, 1, 10).pool) == 4


def test_seeds_differ_and_repeat():
    a, b = deal(Y, 0, 50, 20), deal(Y, 1, 50, 20)
    assert set(a.pool[: a.n_first]) != set(b.pool[: b.n_first])
    assert set(a.test) != set(b.test)
    again = deal(Y, 0, 50, 20)
    assert (again.pool == a.pool).all()
    assert (again.test == a.test).all()


def test_every_row_of_a_class_may_be_first():
    firsts = {int(deal(Y, seed, None, None).pool[2]) for seed in range(200)}
    assert all(Y[i] == 7.0 for i in firsts)
    assert len(firsts) > 25
