"""What can be wrong with a data set."""

from __future__ import annotations


class DatasetError(ValueError):
    """A set that is not there or cannot be used; the message says what to do."""
