"""Text to tables: separators, marks of encodings, decimal commas, and what is wrong where it is."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from bayesvm.tables.errors import TableError
from bayesvm.tables.kinds import MISSING_WORDS

__all__ = ["first_line", "parse_text"]

_SEPARATORS = ",;\t|"
_BOMS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
# pandas knows a few more ways in which programs write that there is no number.
_PROGRAMS = ("#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN", "-NaN", "-nan")
_MISSING = sorted(
    {form for word in MISSING_WORDS for form in (word, word.upper(), word.title())} | {*_PROGRAMS, "NaN"}
)
_DECIMAL_COMMA = re.compile(r"(?:^|;)[-+]?\d+,\d+(?:;|$)", re.MULTILINE)
_SNIFFED = 100_000


def parse_text(
    content: bytes, name: str, separator: str, target: str | None = None, as_written: Sequence[str] = ()
) -> pd.DataFrame:
    """The table in the bytes of a text file.

    Parameters
    ----------
    content : bytes
    name : str
        Of the file, for messages.
    separator : str
        A comma stands for any that the first line is divided by.
    target : str or None
        Column where only empty fields are missing.
    as_written : sequence of str
        Columns to keep as text.
    """
    encoding = _BOMS.get(content[:2], "utf-8-sig")
    start = content[:_SNIFFED].decode(encoding, errors="ignore")
    if separator == ",":
        separator = _separator(start)
    options: dict[str, Any] = {
        "sep": separator,
        "index_col": False,
        "skipinitialspace": True,
        "low_memory": False,
        "encoding": encoding,
        "keep_default_na": False,
    }
    try:
        header = pd.read_csv(io.BytesIO(content), header=None, nrows=1, dtype=str, **options)
        names = header.iloc[0].tolist()
        _refuse_doubled(names, name)
        with warnings.catch_warnings():
            # Rows longer than the header are cut off with this warning only.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(
                io.BytesIO(content),
                decimal="," if separator == ";" and _DECIMAL_COMMA.search(start) else ".",
                dtype=dict.fromkeys(as_written, pd.StringDtype(na_value=np.nan)),
                # Fields of columns without a name are looked up under the name that pandas gives them.
                na_values={
                    column or f"Unnamed: {i}": [""] if column == target else _MISSING
                    for i, column in enumerate(names)
                },
                **options,
            )
    except UnicodeDecodeError as error:
        raise TableError(
            f"{name!r} is not UTF-8 text; save it again as 'CSV UTF-8', or convert it: "
            "iconv -f latin1 -t utf-8"
        ) from error
    except pd.errors.EmptyDataError as error:
        raise TableError(
            f"{name!r} is empty; write the names of the columns in its first line, and rows below"
        ) from error
    except (pd.errors.ParserError, pd.errors.ParserWarning, ValueError) as error:
        if isinstance(error, TableError):
            raise
        raise TableError(_what_is_wrong(content.decode(encoding), name, separator, error)) from error
    if target in table and target not in as_written:
        table[target] = _numbers_if_all_are(table[target])
    return table


def first_line(error: BaseException) -> str:
    """What an error says, in short."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]


def _separator(start: str) -> str:
    """What the first line is divided by, quoted parts aside."""
    first = next((line for line in start.splitlines() if line.strip()), "")
    first = re.sub(r'"[^"]*"', "", first)
    return max(_SEPARATORS, key=first.count)


def _refuse_doubled(names: list[str], file: str) -> None:
    for i, name in enumerate(names):
        if name and name in names[:i]:
            raise TableError(f"{file!r} has more than one column named {name!r}; rename or remove one")


def _what_is_wrong(text: str, name: str, separator: str, error: Exception) -> str:
    """The first line with too many fields, or else what the parser said."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    try:
        rows = ((reader.line_num, len(row)) for row in reader if row)
        _, expected = next(rows)
        for line, fields in rows:
            if fields > expected:
                return (
                    f"line {line} of {name!r} has {fields} fields, but the first line names {expected}; "
                    f"put values that contain {separator!r} between double quotes, or name all columns"
                )
    except (csv.Error, StopIteration):
        pass
    return f"{name!r} is not a table of text: {first_line(error)}"


def _numbers_if_all_are(column: pd.Series) -> pd.Series:
    """A target of numbers, where a word such as "NA" cannot be a class; any other as it is."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column
    words = column.astype(object).where(~column.astype(str).str.casefold().isin(MISSING_WORDS), np.nan)
    numbers = pd.to_numeric(words, errors="coerce")
    return numbers if words.notna().any() and numbers.notna().equals(words.notna()) else column
