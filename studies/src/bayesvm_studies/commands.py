"""What ``bayesvm reproduce NAME`` and ``bayesvm report NAME`` do, and their options, apart from any parser.

Importing it is light, and running fits needs neither typer nor rich: a
machine that only measures has the library, its competitors and nothing else.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

from bayesvm_studies.active import ACTIVE
from bayesvm_studies.adversarial import ADVERSARIAL
from bayesvm_studies.contest import CONTEST
from bayesvm_studies.images import IMAGES
from bayesvm_studies.structured import STRUCTURED
from bayesvm_studies.study import Study, option

if TYPE_CHECKING:
    from bayesvm_studies.runner import Plan, Standing

STUDIES = {study.name: study for study in (STRUCTURED, CONTEST, IMAGES, ACTIVE, ADVERSARIAL)}


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
    budget: float | None = option(
        None, "Stop after so long, with status 0; the same command goes on.", min=0.0, metavar="SECONDS"
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


class Option(NamedTuple):
    """An option of a command.

    Attributes
    ----------
    name : str
    kind : type
        ``tuple[str, ...]`` may be given again and again.
    default : object
    flags : tuple of str
        None: one that is made of the name.
    more : dict
        ``help``, and ``metavar``, ``min``, ``max`` where they are known.
    """

    name: str
    kind: Any
    default: Any
    flags: tuple[str, ...]
    more: dict[str, Any]


def options_of(study: Study, *owners: type) -> Iterator[Option]:
    """The fields of some dataclasses as options for a study."""
    for owner in owners:
        kinds = get_type_hints(owner)
        for f in fields(owner):
            default, more = f.default, dict(f.metadata)
            if f.name == "results":
                default = Path(f"results/{study.name}.jsonl")
            if f.name == "data":
                more["help"] = study.data_help
            yield Option(f.name, kinds[f.name], default, more.pop("flags", ()), more)


Command = tuple[str, str, tuple[type, ...], Callable[[Study, dict[str, Any]], int]]


def commands_of(study: Study) -> list[Command]:
    """Names, help, owners of the options, and work of the commands of a study."""
    return [
        ("reproduce", study.reproduce_help, (study.settings, RunOptions), reproduce),
        ("report", study.report_help, (ReportOptions,), report),
    ]


def reproduce(study: Study, given: dict[str, Any]) -> int:
    """Make the fits that are not known yet, or list them."""
    began = time.monotonic()
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
    if options.dry_run:
        return _list_fits(before)
    return _make_fits(plan, before, options, None if options.budget is None else began + options.budget)


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


def _make_fits(plan: Plan, before: Standing, options: RunOptions, until: float | None) -> int:
    """Make fits under a display, at most until some time, and say what came of them."""
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
                until=until,
            )
    except KeyboardInterrupt:
        _say(f"interrupted; what was finished is in {options.results}, and the same command goes on")
        return INTERRUPTED
    _say(f"{count_of(outcome.made, 'fit')} made, {outcome.known} known before, in {options.results}")
    if outcome.left:
        _say(f"the time is over with {count_of(outcome.left, 'fit')} left; the same command goes on")
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


def report(study: Study, given: dict[str, Any]) -> int:
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
