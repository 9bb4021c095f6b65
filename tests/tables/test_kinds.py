"""Columns of any type are recognised, and values become their kind one by one."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from bayesvm.tables import TableError
from bayesvm.tables._kinds import (
    MANY_VALUES,
    as_kind,
    as_text,
    check_plain,
    date_style,
    is_ambiguous,
    recognise,
)

DAY = datetime.date(2024, 5, 7)
MANY = [f"word {i}" for i in range(MANY_VALUES)]

COLUMNS = {
    "integers": ([1, 2], "number"),
    "floats": ([0.5, np.nan], "number"),
    "nullable integers": (pd.array([1, None], dtype="Int64"), "number"),
    "nullable floats": (pd.array([1.5, None], dtype="Float64"), "number"),
    "decimals": ([decimal.Decimal("1.5"), None], "number"),
    "durations": (pd.to_timedelta(["1h", "2h"]), "number"),
    "times": ([datetime.time(1, 30), None], "number"),
    "numbers as text": (["1", "2.5", " 3 "], "number"),
    "numbers and a few words": (["1"] * 9 + ["n. d."], "number"),
    "numbers and many words": (["1"] * 8 + ["a", "b"], "category"),
    "arrow integers": (pd.array([1, None], dtype=pd.ArrowDtype(pa.int64())), "number"),
    "arrow decimals": (pd.array([1, None], dtype=pd.ArrowDtype(pa.decimal128(5, 2))), "number"),
    "sparse": (pd.arrays.SparseArray([0.0, 1.0]), "number"),
    "truth": ([True, False], "bool"),
    "nullable truth": (pd.array([True, None], dtype="boolean"), "bool"),
    "truth and nothing": ([True, None], "bool"),
    "truth as text": (["TRUE", "false"], "bool"),
    "timestamps": (pd.to_datetime(["2024-05-07", None]), "date"),
    "timestamps with a zone": (pd.to_datetime(["2024-05-07"], utc=True), "date"),
    "days": ([DAY, None], "date"),
    "arrow days": (pd.array([DAY], dtype=pd.ArrowDtype(pa.date32())), "date"),
    "periods": (pd.period_range("2024-01", periods=2, freq="M"), "date"),
    "words": (["a", "b"], "category"),
    "yes and no": (["yes", "no"], "category"),
    "mixed": ([1, "a", 2.5], "category"),
    "categories": (pd.Categorical(["a", "b"]), "category"),
    "categories of numbers": (pd.Categorical([1, 2]), "category"),
    "categories of truth": (pd.Categorical([True, False]), "category"),
    "arrow words": (pd.array(["a", None], dtype=pd.ArrowDtype(pa.string())), "category"),
    "intervals": (pd.cut(pd.Series([1, 5]), 2).astype(object), "category"),
    "sentences": (MANY, "text"),
    "many categories": (pd.Categorical(MANY), "text"),
    "ratios": (["1/2", "3/4"], "category"),
    "versions": (["1.2.3", "4.5.6"], "category"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_kinds(name):
    values, kind = COLUMNS[name]
    column = pd.Series(values)
    check_plain(column)
    assert recognise(column)[0] == kind


DATES = {
    "%Y-%m-%d": "ISO8601",
    "%Y-%m-%dT%H:%M:%S": "ISO8601",
    "%Y-%m-%d %H:%M:%S.%f": "ISO8601",
    "%d/%m/%Y": None,
    "%m/%d/%Y": None,
    "%d.%m.%Y": None,
    "%d.%m.%y": None,
    "%d-%m-%Y": None,
    "%Y/%m/%d": "ISO8601",
    "%d %b %Y": None,
    "%d %B %Y": None,
    "%d-%b-%Y": None,
    "%B %d, %Y": None,
    "%d/%m/%Y %H:%M": None,
    "%m/%d/%Y %I:%M:%S %p": None,
}


@pytest.mark.parametrize("written", DATES)
def test_dates_in_many_styles(written):
    dates = pd.Series(pd.date_range("2019-12-29", periods=60, freq="37h").floor("s"))
    if not any(part in written for part in ("%H", "%I")):
        dates = dates.dt.floor("D")
    elif "%S" not in written:
        dates = dates.dt.floor("min")
    text = dates.dt.strftime(written).astype(object)
    text[3], text[4] = None, "n/a"
    assert recognise(text)[0] == "date"
    assert date_style(as_text(text)) == (DATES[written] or written)
    back = as_kind(text, "date", date_style(as_text(text)))
    assert back.isna().tolist() == [i in (3, 4) for i in range(60)]
    assert (back == dates)[back.notna()].all()


def test_dates_become_utc():
    paris = pd.Series(pd.to_datetime(["2024-07-01 12:00"]).tz_localize("Europe/Paris"))
    offset = pd.Series(["2024-07-01T12:00:00+02:00"])
    for column in (paris, offset, paris.astype(object), pd.Series([pd.Timestamp("2024-07-01 10:00")])):
        assert as_kind(column, "date", "ISO8601").tolist() == [pd.Timestamp("2024-07-01 10:00")]


@pytest.mark.skipif(pd.__version__ < "3", reason="pandas 2 reads text to nanoseconds, which end in 2262")
def test_dates_far_away():
    column = pd.Series(["9999-12-31", "1066-10-14"])
    assert as_kind(column, "date", "ISO8601").dt.year.tolist() == [9999, 1066]


def test_ambiguous_dates():
    assert is_ambiguous(pd.Series(["03/04/2024", "05/06/2024"]), "%m/%d/%Y")
    assert not is_ambiguous(pd.Series(["03/04/2024", "25/06/2024"]), "%d/%m/%Y")
    assert not is_ambiguous(pd.Series(["03/03/2024"]), "%m/%d/%Y")
    assert not is_ambiguous(pd.Series(["2024-03-04"]), "ISO8601")
    assert not is_ambiguous(pd.Series(["2024/03/04"]), "%Y/%m/%d")


def test_text_of_anything():
    values = [
        1,
        1.0,
        1.5,
        True,
        " a ",
        decimal.Decimal("2.0"),
        DAY,
        datetime.datetime(2024, 5, 7, 1),
        "N/A",
        "-",
    ]
    spelled = ["1", "1", "1.5", "True", "a", "2", "2024-05-07", "2024-05-07T01:00:00"]
    text = as_text(pd.Series(values, dtype=object, index=range(5, 15), name="x"))
    assert text.dropna().tolist() == spelled
    assert text.index.tolist() == list(range(5, 15))
    assert text.name == "x"
    categories = pd.Series(pd.Categorical([2.0, None, 1.0]), index=[7, 8, 9], name="c")
    assert as_text(categories).fillna("?").to_dict() == {7: "2", 8: "?", 9: "1"}


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (
            "number",
            ["1", "x", np.inf, None, "1e3", True, "1_000", 10**400],
            [1, None, None, None, 1000, 1, None, None],
        ),
        ("number", [datetime.time(1, 0, 30), datetime.timedelta(hours=1)], [3630, 3600]),
        ("bool", ["TRUE", "no", 1, 0.0, "x", None, True, 2], [1, 0, 1, 0, None, None, 1, None]),
    ],
)
def test_values_that_do_not_fit_are_missing(kind, values, expected):
    found = as_kind(pd.Series(values, dtype=object), kind)
    assert found.dtype == np.float64
    assert [None if np.isnan(v) else v for v in found] == expected


def test_numbers_are_no_dates_and_dates_no_numbers():
    assert as_kind(pd.Series([1.5, 2.5]), "date", "ISO8601").isna().all()
    assert as_kind(pd.Series(pd.to_datetime(["2024-05-07"])), "number").isna().all()
    assert as_kind(pd.Series(["soon"]), "date", "%d/%m/%Y").isna().all()


@pytest.mark.parametrize("value", [[1, 2], np.ones(2), {"a": 1}, b"raw", (1,), {1}], ids=repr)
def test_nested_values_are_refused(value):
    column = pd.Series([None, value], name="x", dtype=object)
    with pytest.raises(
        TableError, match=f"column 'x' holds values of type {type(value).__name__}.*ignore it"
    ):
        check_plain(column)


def test_complex_numbers_and_arrow_lists_are_refused():
    with pytest.raises(TableError, match="complex"):
        check_plain(pd.Series([1j], name="x"))
    with pytest.raises(TableError, match=r"ndarray|list"):
        check_plain(pd.Series(pd.array([[1], [2]], dtype=pd.ArrowDtype(pa.list_(pa.int64())))))


@pytest.mark.parametrize("name", COLUMNS)
def test_conversion_looks_at_one_value_at_a_time(name):
    """So that a prediction cannot depend on the other rows of its table."""
    column = pd.Series(COLUMNS[name][0])
    kind = recognise(column)[0]
    together = as_kind(column, kind, "ISO8601")
    alone = pd.concat([as_kind(column.iloc[[i]], kind, "ISO8601") for i in range(len(column))])
    pd.testing.assert_series_equal(alone, together)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,234", 1234.0),
        ("$1,234.50", 1234.5),
        ("-$5", -5.0),
        ("$ -5.", -5.0),
        ("12 €", 12.0),
        ("45%", 0.45),
        ("1,23", None),
        ("1,2345", None),
        ("1,234,56", None),
        ("-$-5", None),
        ("5 kg", None),
        ("1_000", None),
    ],
)
def test_amounts_as_people_write_them(text, number):
    values = as_kind(pd.Series([text, "7"]), "number")
    assert values.iloc[1] == 7.0
    assert np.isnan(values.iloc[0]) if number is None else values.iloc[0] == pytest.approx(number)
