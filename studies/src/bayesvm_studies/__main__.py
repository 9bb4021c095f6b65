"""``python -m bayesvm_studies reproduce NAME`` and ``report NAME``: the same commands from a plain folder.

For machines on which nothing can be installed: neither the distributions nor
typer and rich need be there.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, get_args

from bayesvm_studies.commands import STUDIES, Option, commands_of, options_of

_REFUSED, _INTERRUPTED = 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the answer is the status of the process."""
    given = vars(_parser().parse_args(arguments))
    work: Callable[[dict[str, Any]], int] = given.pop("work")
    try:
        return work(given)
    except KeyboardInterrupt:
        sys.stderr.write("bayesvm: interrupted\n")
        return _INTERRUPTED
    except (ValueError, OSError, ImportError) as error:
        sys.stderr.write(f"bayesvm: {error}\n")
        return _REFUSED


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m bayesvm_studies", description="Run and report the studies.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    studies: dict[str, Any] = {}
    for study in STUDIES.values():
        for name, help, owners, work in commands_of(study):
            if name not in studies:
                studies[name] = commands.add_parser(name).add_subparsers(required=True, metavar="STUDY")
            command = studies[name].add_parser(study.name, help=help, description=help)
            for known in options_of(study, *owners):
                _add(command, known)
            command.set_defaults(work=partial(work, study))
    return parser


def _add(command: ArgumentParser, known: Option) -> None:
    """Add an option of a record to a parser."""
    flags = known.flags or (f"--{known.name.replace('_', '-')}",)
    told = {"dest": known.name, "default": known.default, "help": known.more["help"].replace("%", "%%")}
    if known.kind is bool:
        command.add_argument(*flags, action="store_true", **told)
        return
    told["metavar"] = known.more.get("metavar", "N")
    if known.default == ():  # may be given again and again
        command.add_argument(*flags, action="append", **{**told, "default": None})
        return
    kind = next((k for k in get_args(known.kind) if k is not type(None)), known.kind)
    command.add_argument(*flags, type=partial(_checked, kind, known.more), **told)


def _checked(kind: Callable[[str], Any], limits: dict[str, Any], text: str) -> Any:
    """What a text stands for, within the limits of the option."""
    try:
        value = kind(text)
        if ("min" in limits and value < limits["min"]) or ("max" in limits and value > limits["max"]):
            raise ValueError
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is not valid") from error
    return value


if __name__ == "__main__":
    sys.exit(main())
