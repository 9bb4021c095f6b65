"""The bundled table, so that the first try needs no data."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from bayesvm.tables.reading import read_table

__all__ = ["EXAMPLE_FILE", "EXAMPLE_TARGET", "example_table"]

EXAMPLE_FILE = Path(__file__).parent / "data" / "penguins.csv"
EXAMPLE_TARGET = "Sex"


def example_table() -> pd.DataFrame:
    """Penguins of the Palmer Archipelago (Gorman et al., 2014): whether each is male or female is to be told.

    Examples
    --------
    >>> table = example_table()
    >>> table.shape
    (344, 17)
    >>> table["Sex"].value_counts().to_dict()
    {'MALE': 168, 'FEMALE': 165}
    """
    return read_table(EXAMPLE_FILE)
