"""``bayesvm reproduce``: the experiments of the paper on structured data and on images."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bayesvm._cli import DONE, FAULT, INTERRUPTED
from bayesvm._cli.terminal import count_of
from bayesvm_studies.cli_experiment_progress import shown_fits

if TYPE_CHECKING:
    from bayesvm_studies import Listener, Outcome, Task
    from bayesvm_studies.run import Standing


class RunOptions(Protocol):
    """What the arguments of all experiments have in common."""

    @property
    def results(self) -> Path: ...

    @property
    def retry(self) -> bool: ...

    @property
    def any_version(self) -> bool: ...
    @property
    def data(self) -> Path | None: ...
    @property
    def jobs(self) -> int: ...
    @property
    def dry_run(self) -> bool: ...


@dataclass(frozen=True)
class ReproduceOptions:
    """Arguments of the command."""

    protocol: str
    subset: str
    models: str | None
    folds: int | None
    jobs: int
    data: Path | None
    results: Path
    timeout: float | None
    device: str
    shorten: tuple[str, ...]
    retry: bool
    any_version: bool
    dry_run: bool


def reproduce_command(options: ReproduceOptions) -> int:
    """Make the fits that are not known yet."""
    from bayesvm_studies import make_plan, run_plan
    from bayesvm_studies.versions import check_device

    check_results(options.results)
    if options.protocol not in ("paper", "olson", "both"):
        raise ValueError(f"--protocol {options.protocol!r} is not known; give paper, olson or both")
    protocols = ("paper", "olson") if options.protocol == "both" else (options.protocol,)
    check_device(options.device)
    plan = make_plan(
        protocols,
        subset=options.subset,
        models=options.models,
        folds=options.folds,
        data=options.data,
        device=options.device,
        timeout=options.timeout,
        shorten=_epochs(options.shorten),
    )
    for name, why in plan.absent.items():
        sys.stderr.write(f"bayesvm: note: {name} does not take part: {why}\n")
    return carry_out(options, plan.tasks, partial(run_plan, plan, options.results))


@dataclass(frozen=True)
class ImageOptions:
    """Arguments of the command for images."""

    group: str
    subset: str
    models: str | None
    seeds: int | None
    epochs: int | None
    limit_rows: int | None
    device: str
    compile: str | None
    jobs: int
    data: Path | None
    results: Path
    keep: Path | None
    retry: bool
    any_version: bool
    dry_run: bool


def reproduce_images_command(options: ImageOptions) -> int:
    """Make the runs that are not known yet."""
    from bayesvm_studies.images import ImageSettings, make_image_plan, run_images

    check_results(options.results)
    settings = ImageSettings(
        parts=options.group,
        subset=options.subset,
        models=options.models,
        seeds=options.seeds,
        device=options.device,
        epochs=options.epochs,
        limit_rows=options.limit_rows,
        compile=options.compile,
    )
    plan = make_image_plan(settings, options.data)
    return carry_out(options, plan.tasks, partial(run_images, plan, options.results, models=options.keep))


def check_results(results: Path) -> None:
    """Refuse a place where no file can be, before hours are spent on what could not be kept."""
    if results.is_dir():
        raise ValueError(f"--results {str(results)!r} is a folder; give a file")
    for parent in results.parents:
        if parent.exists():
            if not parent.is_dir():
                raise ValueError(f"--results {str(results)!r} is not valid: {str(parent)!r} is not a folder")
            return


def carry_out(options: RunOptions, tasks: Sequence[Task], run: Callable[..., Outcome]) -> int:
    """Make the runs of a plan that are not known yet, or say which these are.

    Parameters
    ----------
    options : RunOptions
    tasks : sequence of Task
        Of the plan.
    run : callable
        Makes the runs, given ``data``, ``jobs``, ``retry``, ``any_version`` and ``listener``.
    """
    before = _standing_before(tasks, options)
    if options.dry_run:
        return _list_fits(before)
    with_options = partial(
        run, data=options.data, jobs=options.jobs, retry=options.retry, any_version=options.any_version
    )
    return _make_fits(options.results, before, lambda listener: with_options(listener=listener))


def _standing_before(tasks: Sequence[Task], options: RunOptions) -> Standing:
    """What is known and what is to do before the run."""
    from bayesvm_studies import Store
    from bayesvm_studies.run import standing

    results = Store(options.results).results()
    return standing(tasks, results, retry=options.retry, any_version=options.any_version)


def _list_fits(before: Standing) -> int:
    """Say what would be done."""
    for task in before.todo:
        print(task.protocol, task.data, task.split, task.model)
    sys.stdout.flush()  # the list first where both go to one place
    sys.stderr.write(f"bayesvm: {count_of(before.known, 'fit')} known, {len(before.todo)} to do\n")
    _say_known_faults(before)
    return DONE


def _say_known_faults(before: Standing) -> None:
    """Say what is not tried again."""
    faults = [(before.failed, "failed"), (before.timed_out, "took too long")]
    said = " and ".join(f"{n} {what}" for n, what in faults if n)
    if said:
        note = "" if before.failed else "note: "
        sys.stderr.write(f"bayesvm: {note}of the known fits {said}; --retry tries again\n")


def _make_fits(results: Path, before: Standing, make: Callable[[Listener], Outcome]) -> int:
    """Make fits under a display, and say what came of them."""
    try:
        with shown_fits() as listener:
            outcome = make(listener)
    except KeyboardInterrupt:
        sys.stderr.write(
            f"bayesvm: interrupted; what was finished is in {results}, and the same command goes on\n"
        )
        return INTERRUPTED
    made = f"{count_of(outcome.made, 'fit')} made, {outcome.known} known before, in {results}"
    sys.stderr.write(f"bayesvm: {made}\n")
    for note in outcome.notes:
        sys.stderr.write(f"bayesvm: note: {note}\n")
    _say_known_faults(before)
    if outcome.timed_out:
        sys.stderr.write(f"bayesvm: note: {count_of(outcome.timed_out, 'fit')} ended by the time limit\n")
    if outcome.failed:
        sys.stderr.write(
            f"bayesvm: {count_of(outcome.failed, 'fit')} failed; the errors are in the results, "
            "and --retry tries again\n"
        )
    return FAULT if outcome.failed or before.failed else DONE


def _epochs(shorten: tuple[str, ...]) -> dict[str, int]:
    """``NAME=EPOCHS`` as a mapping."""
    found = {}
    for given in shorten:
        name, _, epochs = given.partition("=")
        if not epochs.isdecimal() or int(epochs) < 1:
            raise ValueError(f"--shorten {given!r} is not valid; give a set and its epochs, such as poker=20")
        found[name] = int(epochs)
    return found
