"""``bayesvm reproduce NAME`` and ``bayesvm report NAME`` for every study, built from its record.

Every start of ``bayesvm`` imports this module, so everything else is
imported when a command runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from bayesvm_studies.commands import STUDIES, commands_of, options_of
from bayesvm_studies.study import Study

reproduce = typer.Typer(help="Run the experiments of the paper.", no_args_is_help=True, rich_markup_mode=None)
report = typer.Typer(help="Show what the experiments found.", no_args_is_help=True, rich_markup_mode=None)


def _parameters(study: Study, *owners: type) -> Iterable[Parameter]:
    """The fields of some dataclasses as options of a command."""
    for known in options_of(study, *owners):
        kind: Any = known.kind
        default = known.default
        if default == ():  # may be given again and again
            kind, default = list[str] | None, None
        annotation = Annotated[kind, typer.Option(*known.flags, **known.more)]
        yield Parameter(known.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _add(app: typer.Typer, name: str, help: str, parameters: list[Parameter], task: Any) -> None:
    """Add a command whose function answers with what is to be done."""

    def command(**given: Any) -> Callable[[], int]:
        return partial(task, given)

    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    app.command(name, help=help)(command)


def _add_commands() -> None:
    apps = {"reproduce": reproduce, "report": report}
    for study in STUDIES.values():
        for name, help, owners, work in commands_of(study):
            _add(apps[name], study.name, help, list(_parameters(study, *owners)), partial(work, study))


_add_commands()
