"""Names that a user chose from those there are."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def chosen_names(what: str, listed: str, known: Sequence[str]) -> list[str]:
    """Names of a list with commas; "all" stands for all.

    Parameters
    ----------
    what : str
        What they are names of, for the error message.
    listed : str
    known : sequence of str

    Examples
    --------
    >>> chosen_names("fruit", "pear, apple", ("apple", "pear", "plum"))
    ['pear', 'apple']
    """
    if listed == "all":
        return list(known)
    names = [name for name in (part.strip() for part in listed.split(",")) if name]
    if not names:
        raise ValueError(f"{listed!r} names no {what}; give all or some of {', '.join(known)}")
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"give all or some of {', '.join(known)}"
            raise ValueError(f"there is no {what} {name!r}; {hint}")
    return names
