"""Labels stay what they are, and what cannot be classes is refused with advice."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest

from bayesvm.tables import TableError
from bayesvm.tables._evaluation import class_labels, find_labels

LABELS = {
    "words": (["b", " a ", None, "", "a"], ["b", "a", "a"]),
    "words that mean nothing elsewhere": (
        ["none", "NA", "-", "none", "", "NA", "-"],
        ["none", "NA", "-", "none", "NA", "-"],
    ),
    "integers": ([3, 1, 3, 1], [3, 1, 3, 1]),
    "floats that are whole": ([3.0, np.nan, 1.0, 1.0], [3, 1, 1]),
    "nullable": (pd.array([1, None, 2, 2], dtype="Int64"), [1, 2, 2]),
    "infinite": ([0.0, np.inf, 1.0, 1.0], [0, 1, 1]),
    "truth": ([True, False, True], [True, False, True]),
    "truth with gaps": ([True, None, False], [True, False]),
    "nullable truth": (pd.array([True, None, False], dtype="boolean"), [True, False]),
    "categories": (pd.Categorical(["b", None, "a"]), ["b", "a"]),
    "categories of numbers": (pd.Categorical([5, 7, 5]), [5, 7, 5]),
    "fractions": ([0.5, 1.0, 0.5, 1.0], ["0.5", "1", "0.5", "1"]),
    "decimals": ([decimal.Decimal("1"), decimal.Decimal("2")], ["1", "2"]),
    "days": ([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)], ["2024-01-01", "2024-01-02"]),
    "mixed": ([1, "a", 1.0, "a"], ["1", "a", "1", "a"]),
    "numbers too large to be whole": ([1e300, 2.0, 1e300, 2.0], [str(int(1e300)), "2", str(int(1e300)), "2"]),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels(name):
    values, expected = LABELS[name]
    column = pd.Series(values, name="y")
    labels, known = class_labels(column)
    assert labels.tolist() == expected
    assert known.sum() == len(expected)
    assert labels.dtype.kind in "Uib"


@pytest.mark.parametrize("name", LABELS)
def test_labels_of_a_new_table_are_the_same(name):
    column = pd.Series(LABELS[name][0], name="y")
    labels, known = class_labels(column)
    found, also_known, unseen = find_labels(column, np.unique(labels))
    np.testing.assert_array_equal(also_known, known)
    np.testing.assert_array_equal(found[known], labels)
    assert unseen == {}


def test_labels_in_other_types_and_labels_never_seen():
    found, known, unseen = find_labels(pd.Series([1.0, np.nan, 7.0, 2.0, 7.0, 9.0]), np.array([1, 2]))
    assert found[known].tolist() == [1, 2]
    assert known.tolist() == [True, False, False, True, False, False]
    assert unseen == {"7": 2, "9": 1}
    found, known, _ = find_labels(pd.Series(["True", False, None], dtype=object), np.array([False, True]))
    assert found[known].tolist() == [True, False]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.linspace(0, 1, 50), "is a quantity.*cut it into classes"),
        ([f"id {i}" for i in range(10)], "10 different values in 10 rows, too many"),
        (range(50), "50 different values in 50 rows"),
        (["a", "a", None], "always 'a'; two or more"),
        ([None, "", " "], "no values; choose another"),
        ([[1], [2]], "values of type list"),
    ],
)
def test_what_cannot_be_classes(values, message):
    with pytest.raises(TableError, match=message) as caught:
        class_labels(pd.Series(values, name="y"))
    assert "\n" not in str(caught.value)


def test_two_rows_of_two_classes_are_enough():
    assert class_labels(pd.Series(["a", "b"]))[0].tolist() == ["a", "b"]
