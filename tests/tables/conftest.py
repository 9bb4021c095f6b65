import pytest

from bayesvm.tables import table_classifier

from .data import FAST, mixed_table


@pytest.fixture(scope="session")
def pipeline():
    """A classifier of the species in ``mixed_table``; not to be changed."""
    table = mixed_table()
    return table_classifier("species", **FAST).fit(table, table["species"])
