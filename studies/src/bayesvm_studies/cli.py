"""``bayesvm reproduce NAME`` and ``bayesvm report NAME`` for every study, built from its record.

Every start of ``bayesvm`` imports this module, so everything else is
imported when a command runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import partial
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from bayesvm_studies.active import ACTIVE
from bayesvm_studies.adversarial import ADVERSARIAL
from bayesvm_studies.images import IMAGES
from bayesvm_studies.structured import STRUCTURED
from bayesvm_studies.study import Study, option

if TYPE_CHECKING:
    from bayesvm_studies.runner import Plan, Standing

STUDIES = {study.name: study for study in (STRUCTURED, IMAGES, ACTIVE, ADVERSARIAL)}

reproduce = typer.Typer(help="Run the experiments of the paper.", no_args_is_help=True, rich_markup_mode=None)
report = typer.Typer(help="Show what the experiments found.", no_args_is_help=True, rich_markup_mode=None)


@dataclass(frozen=True)
class RunOptions:
    """Options of ``bayesvm reproduce`` that all studies have."""

    jobs: int = option(1, "Processes side by side.", flags=("--jobs", "-j"), min=1)
    data: Path | None = option(None, "", metavar="DIR")  # the study says what is in it
    results: Path = option(Path(), "File of results, one line of JSON per fit.", metavar="FILE")
    retry: bool = option(False, "Try what failed or took too long again.", flags=("--retry",))
    any_version: bool = option(
        False, "Do not repeat what was measured with other versions.", flags=("--any-version",)
    )
    dry_run: bool = option(False, "List the fits and make none.", flags=("--dry-run",))


@dataclass(frozen=True)
class ReportOptions:
    """Options of ``bayesvm report``."""

    results: Path = option(Path(), "File of results, one line of JSON per fit.", metavar="FILE")
    output: Path | None = option(
        None, "Page [default: RESULTS.html if nothing else]", flags=("--output", "-o"), metavar="FILE"
    )
    figures: Path | None = option(None, "Folder for the figures as SVG and PNG.", metavar="DIR")
    json: Path | None = option(None, "Summary, from the raw results.", metavar="FILE")
    table: Path | None = option(None, "All fits as one table (CSV).", metavar="FILE")


def _parameters(study: Study, *options: type) -> Iterable[Parameter]:
    """The fields of some dataclasses as options of a command."""
    for owner in options:
        kinds = get_type_hints(owner)
        for f in fields(owner):
            kind: Any = kinds[f.name]
            default, of_typer = f.default, dict(f.metadata)
            if default == ():  # may be given again and again
                kind, default = list[str] | None, None
            if f.name == "results":
                default = Path(f"results/{study.name}.jsonl")
            if f.name == "data":
                of_typer["help"] = study.data_help
            annotation = Annotated[kind, typer.Option(*of_typer.pop("flags", ()), **of_typer)]
            yield Parameter(f.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _add(app: typer.Typer, name: str, help: str, parameters: list[Parameter], task: Any) -> None:
    """Add a command whose function answers with what is to be done."""

    def command(**given: Any) -> Callable[[], int]:
        return partial(task, given)

    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    app.command(name, help=help)(command)


def _add_commands() -> None:
    for study in STUDIES.values():
        for app, help, own, task in (
            (reproduce, study.reproduce_help, (study.settings, RunOptions), _reproduce),
            (report, study.report_help, (ReportOptions,), _report),
        ):
            _add(app, study.name, help, list(_parameters(study, *own)), partial(task, study))


def _reproduce(study: Study, given: dict[str, Any]) -> int:
    """Make the fits that are not known yet, or list them."""
    options = RunOptions(**{f.name: given.pop(f.name) for f in fields(RunOptions)})
    lists = {f.name for f in fields(study.settings) if f.default == ()}
    settings = study.settings(**{k: tuple(v or ()) if k in lists else v for k, v in given.items()})
    _check_results(options.results)
    plan = study.plan(settings, options.data)
    for name, why in plan.absent.items():
        _say(f"note: {name} does not take part: {why}")
    from bayesvm_studies.results import Store
    from bayesvm_studies.runner import standing

    known = Store(options.results).results()
    before = standing(plan.tasks, known, retry=options.retry, any_version=options.any_version)
    return _list_fits(before) if options.dry_run else _make_fits(plan, before, options)


def _check_results(results: Path) -> None:
    """Refuse a place where no file can be, before hours are spent on what could not be kept."""
    if results.is_dir():
        raise ValueError(f"--results {str(results)!r} is a folder; give a file")
    for parent in results.parents:
        if parent.exists():
            if not parent.is_dir():
                raise ValueError(f"--results {str(results)!r} is not valid: {str(parent)!r} is not a folder")
            return


def _list_fits(before: Standing) -> int:
    """Say what would be done."""
    from bayesvm._cli import DONE
    from bayesvm._cli.terminal import count_of

    for task in before.todo:
        print(task.protocol, task.data, task.split, task.model)
    sys.stdout.flush()  # the list first where both go to one place
    _say(f"{count_of(before.known, 'fit')} known, {len(before.todo)} to do")
    _say_known_faults(before)
    return DONE


def _make_fits(plan: Plan, before: Standing, options: RunOptions) -> int:
    """Make fits under a display, and say what came of them."""
    from bayesvm._cli import DONE, FAULT, INTERRUPTED
    from bayesvm._cli.terminal import count_of
    from bayesvm_studies.progress import shown_fits
    from bayesvm_studies.runner import run_plan

    try:
        with shown_fits() as listener:
            outcome = run_plan(
                plan,
                options.results,
                jobs=options.jobs,
                retry=options.retry,
                any_version=options.any_version,
                listener=listener,
            )
    except KeyboardInterrupt:
        _say(f"interrupted; what was finished is in {options.results}, and the same command goes on")
        return INTERRUPTED
    _say(f"{count_of(outcome.made, 'fit')} made, {outcome.known} known before, in {options.results}")
    for note in outcome.notes:
        _say(f"note: {note}")
    _say_known_faults(before)
    if outcome.timed_out:
        _say(f"note: {count_of(outcome.timed_out, 'fit')} ended by the time limit")
    if outcome.failed:
        failed = count_of(outcome.failed, "fit")
        _say(f"{failed} failed; the errors are in the results, and --retry tries again")
    return FAULT if outcome.failed or before.failed else DONE


def _say_known_faults(before: Standing) -> None:
    """Say what is not tried again."""
    faults = [(before.failed, "failed"), (before.timed_out, "took too long")]
    said = " and ".join(f"{n} {what}" for n, what in faults if n)
    if said:
        _say(f"{'' if before.failed else 'note: '}of the known fits {said}; --retry tries again")


def _say(text: str) -> None:
    sys.stderr.write(f"bayesvm: {text}\n")


def _report(study: Study, given: dict[str, Any]) -> int:
    """Read the results and write what was asked for; the page if nothing was."""
    from bayesvm._cli import DONE
    from bayesvm._cli.terminal import Row, Section, print_sections, shown_progress

    options = ReportOptions(**given)
    with shown_progress() as steps:
        steps.start("Reading the results")
        import json

        from bayesvm._files import replacing
        from bayesvm_studies.results import plain_path, read_results

        results = read_results(options.results, study.name)
        if not results:
            raise ValueError(f"{options.results} holds no results")
        found = study.report(results)
        written: list[Row] = []
        texts: list[tuple[str, Path | None, Callable[[], str]]] = [
            ("summary", options.json, lambda: json.dumps(found.numbers, indent=2) + "\n"),
            ("table", options.table, found.table),
        ]
        for what, path, text in texts:
            if path is not None:
                with replacing(path) as part:
                    part.write_text(text(), encoding="utf-8")
                written.append((what, str(path)))
        if options.figures is not None:
            steps.start("Drawing")
            written.append(("figures", f"{len(found.save_figures(options.figures))} in {options.figures}"))
        output = options.output
        if output is None and not written:
            output = plain_path(options.results).with_suffix(".html")
        if output is not None:
            steps.start("Writing the page")
            found.write_page(output)
            written.append(("page", str(output)))
    print_sections([Section("Results", found.facts), Section("Written", written)])
    return DONE


_add_commands()
