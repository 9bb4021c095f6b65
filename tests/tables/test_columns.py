"""Columns are found by name and keep their kind, whatever a new table brings."""

import datetime
import decimal
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from bayesvm.tables import TableError, TableWarning
from bayesvm.tables._columns import TableColumns, class_labels, find_labels

from .data import mixed_table

KINDS = {
    "size (cm)": "number",
    "legs": "number",
    "flies": "bool",
    "seen": "date",
    "found": "date",
    "zoned": "date",
    "colour": "category",
    "grade": "category",
    "note": "text",
    "id": "number",
}


@pytest.fixture
def table():
    return mixed_table()


@pytest.fixture
def columns(table):
    return TableColumns("species").fit(table, table["species"])


def test_it_remembers_the_table_as_plain_data(columns, table):
    assert columns.names_ == list(KINDS)
    assert columns.kinds_ == KINDS
    assert columns.ignored_ == {}
    assert columns.date_styles_["found"] == "%d.%m.%Y"
    assert columns.categories_["colour"] == ["blue", "green", "red"]
    assert columns.spelled_columns_ == ["colour", "grade", "note"]
    assert columns.n_rows_ == len(table)
    counts = dict(zip(columns.classes_, columns.class_counts_, strict=True))
    assert counts == table["species"].value_counts().to_dict()
    assert {"bayesvm", "python", "skrub"} <= set(columns.versions_)
    plain = (str, int, float, bool, list, tuple, dict, type(None))
    for value in vars(columns).values():
        assert type(value) in plain
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        assert all(type(item) in plain for item in inner)


def test_order_and_unknown_columns_do_not_matter(columns, table):
    expected = columns.transform(table)
    shuffled = table[list(reversed(table.columns))].assign(extra=[[1]] * len(table))
    pd.testing.assert_frame_equal(columns.transform(shuffled), expected)
    pd.testing.assert_frame_equal(columns.transform(table.drop(columns="species")), expected)
    assert columns.get_feature_names_out().tolist() == list(KINDS)


def test_missing_columns_are_named(columns, table):
    with pytest.raises(TableError, match=r"no column 'size \(cm\)'.*did you mean 'Size\(cm\)'\?"):
        columns.transform(table.rename(columns={"size (cm)": "Size(cm)"}))
    with pytest.raises(TableError, match=r"no column 'note', which the model needs$"):
        columns.transform(table.drop(columns="note"))


def test_columns_that_say_nothing_are_not_used(table):
    table = table.assign(empty=None, blank="  ", constant=3, nothing=np.nan, almost="x")
    table.loc[0, "almost"] = None
    columns = TableColumns("species", ["id"]).fit(table)
    assert columns.ignored_ == {
        "id": "not wanted",
        "empty": "no values",
        "blank": "no values",
        "constant": "always the same value",
        "nothing": "no values",
    }
    assert "almost" in columns.names_  # whether it is missing may say something
    columns.transform(table.drop(columns=list(columns.ignored_)))


def test_nothing_left(table):
    with pytest.raises(TableError, match="no column is left"):
        TableColumns("species").fit(table[["species"]])
    with pytest.raises(TableError, match=r"no column is left.*'legs': not wanted"):
        TableColumns("species", ["legs"]).fit(table[["species", "legs"]])


def test_values_of_another_kind_count_as_missing(columns, table):
    new = table.head(3).astype(object)
    new["legs"] = ["six", np.inf, "4"]
    new["flies"] = ["perhaps", "TRUE", 0]
    new["seen"] = ["2024-05-07", "soon", 17.5]
    new["found"] = ["31.12.2024", "2024-12-31", "12/31/2024"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = columns.transform(new)
    assert out["legs"].isna().tolist() == [True, True, False]
    assert out["flies"].tolist()[1:] == [1.0, 0.0]
    assert out["seen"].isna().tolist() == [False, True, True]
    assert out["found"].tolist()[:2] == [pd.Timestamp("2024-12-31")] * 2
    messages = [str(w.message) for w in caught if issubclass(w.category, TableWarning)]
    assert "column 'legs': 2 values such as 'six' do not fit a column of kind 'number'" in messages[0]
    assert len(messages) == 4


def test_unseen_categories_are_told(columns, table):
    new = table.head(2).assign(colour=["mauve", "red"])
    with pytest.warns(TableWarning, match="'colour': 1 value such as 'mauve' did not occur in training"):
        out = columns.transform(new)
    assert out["colour"].tolist() == ["mauve", "red"]


def test_types_of_a_new_table_do_not_matter(columns, table):
    expected = columns.transform(table)
    text = table.assign(
        **{
            "legs": table["legs"].astype(str),
            "size (cm)": table["size (cm)"].map(lambda v: "n/a" if pd.isna(v) else repr(float(v))),
            "flies": table["flies"].map({True: "true", False: "FALSE"}),
            "seen": table["seen"].dt.strftime("%Y-%m-%d"),
            "found": pd.to_datetime(table["found"], format="%d.%m.%Y"),
            "zoned": table["zoned"].dt.tz_convert("Asia/Tokyo"),
            "colour": table["colour"].astype("category"),
            "grade": table["grade"].astype(str),
            "note": table["note"].map(lambda v: f"  {v} ", na_action="ignore"),
        }
    )
    pd.testing.assert_frame_equal(columns.transform(text), expected)


def test_numbers_that_are_categories(tmp_path):
    """A column of codes was text in training because of one code; new tables may hold numbers."""
    table = pd.DataFrame({"code": ["1", "2", "3+"] * 4, "y": list("ab") * 6})
    columns = TableColumns("y").fit(table)
    assert columns.kinds_ == {"code": "category"}
    for values in ([1, 2], [1.0, 2.0], ["1", "2"], pd.Categorical([1, 2])):
        assert columns.transform(pd.DataFrame({"code": values}))["code"].tolist() == ["1", "2"]


def test_ambiguous_dates_are_told():
    table = pd.DataFrame({"day": ["03/04/2024", "05/06/2024"], "x": [1, 2]})
    with pytest.warns(TableWarning, match="'day': dates such as '03/04/2024' are read as %m/%d/%Y"):
        TableColumns().fit(table)


def test_odd_names():
    names = ["a b", "", "naïve/ümlaut", "x\ny", "%d", "0"]
    table = pd.DataFrame(np.arange(12).reshape(2, 6), columns=[*names[:-1], 0])
    assert TableColumns().fit(table).names_ == names


def test_what_is_no_table(table):
    with pytest.raises(TableError, match="expected a pandas DataFrame, got ndarray"):
        TableColumns().fit(np.ones((2, 2)))
    doubled = pd.DataFrame(np.ones((2, 2)), columns=["a", "a"])
    with pytest.raises(TableError, match="more than one column named 'a'"):
        TableColumns().fit(doubled)
    with pytest.raises(TableError, match="more than one column named '1'"):
        TableColumns().fit(doubled.set_axis([1, "1"], axis=1))
    with pytest.raises(TableError, match="no column 'colr' to ignore; did you mean 'colour'"):
        TableColumns("species", ["colr"]).fit(table)
    with pytest.raises(TableError, match="'list' holds values of type list"):
        TableColumns("species").fit(table.assign(list=[[1]] * len(table)))


def test_it_is_an_estimator(columns):
    fresh = clone(columns)
    assert fresh.get_params() == {"target": "species", "ignore": ()}
    with pytest.raises(NotFittedError):
        fresh.transform(pd.DataFrame({"x": [1]}))


# --- Labels of the target.


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
