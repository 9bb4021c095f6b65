"""The record of a study: all that the command line, the runner and the report need to know of it.

Importing it is light, so that help comes at once; what a record does is
imported when it is done.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayesvm_studies.page import Report
    from bayesvm_studies.results import Result
    from bayesvm_studies.runner import Plan


@dataclass(frozen=True)
class Study:
    """A study that can be run and reported on.

    Attributes
    ----------
    name : str
        Of the commands, and of the package here that has ``plan.make_plan`` and ``report.report``;
        results are in ``results/NAME.jsonl`` by default.
    reproduce_help, report_help, data_help : str
        Help of both commands, and of the option for the folder of data.
    settings : type
        A dataclass whose fields, made by :func:`option`, are the options of
        ``bayesvm reproduce`` that other studies do not have.
    """

    name: str
    reproduce_help: str
    report_help: str
    data_help: str
    settings: type

    def plan(self, settings: Any, data: Path | None) -> Plan:
        """The fits that settings ask for, on the sets of a folder."""
        plan: Plan = import_module(f"bayesvm_studies.{self.name}.plan").make_plan(settings, data)
        return plan

    def report(self, results: Sequence[Result]) -> Report:
        """What results say."""
        found: Report = import_module(f"bayesvm_studies.{self.name}.report").report(results)
        return found


def option(default: Any, help: str, **of_typer: Any) -> Any:
    """A field of settings that is an option of the command line.

    Parameters
    ----------
    default : object
    help : str
    **of_typer
        As in ``typer.Option``: ``metavar``, ``min``, ``max``; and ``flags``, if not ``--NAME``.
    """
    return field(default=default, metadata={"help": help, **of_typer})


def near_name(name: str, known: Iterable[str]) -> str:
    """A question that offers the known name that is most alike; empty if none is.

    Examples
    --------
    >>> near_name("irs", ["iris", "glass"])
    "did you mean 'iris'?"
    """
    near = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean {near[0]!r}?" if near else ""


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
    names = split_names(listed)
    if not names:
        raise ValueError(f"{listed!r} names no {what}; give all or some of {', '.join(known)}")
    for name in names:
        if name not in known:
            hint = near_name(name, known) or f"give all or some of {', '.join(known)}"
            raise ValueError(f"there is no {what} {name!r}; {hint}")
    return names


def split_names(listed: str) -> list[str]:
    """Names with commas between them."""
    return [name for name in (part.strip() for part in listed.split(",")) if name]
