"""``bayesvm reproduce structured``: the experiments of the paper on structured data."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from bayesvm.cli.experiment_progress import shown_fits
from bayesvm.cli.status import DONE, FAULT, INTERRUPTED
from bayesvm.cli.wording import count_of

__all__ = ["ReproduceOptions", "reproduce_command"]


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
    from bayesvm.experiments import make_plan, run_plan

    if options.protocol not in ("paper", "olson", "both"):
        raise ValueError(f"--protocol {options.protocol!r} is not known; give paper, olson or both")
    protocols = ("paper", "olson") if options.protocol == "both" else (options.protocol,)
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
    if options.dry_run:
        for task in plan.tasks:
            print(task.protocol, task.data, task.split, task.model)
        return DONE
    try:
        with shown_fits() as listener:
            outcome = run_plan(
                plan,
                options.results,
                data=options.data,
                jobs=options.jobs,
                retry=options.retry,
                any_version=options.any_version,
                listener=listener,
            )
    except KeyboardInterrupt:
        sys.stderr.write(
            f"bayesvm: interrupted; what was finished is in {options.results}, and the same command goes on\n"
        )
        return INTERRUPTED
    made = f"{count_of(outcome.made, 'fit')} made, {outcome.known} known before, in {options.results}"
    sys.stderr.write(f"bayesvm: {made}\n")
    if outcome.timed_out:
        sys.stderr.write(f"bayesvm: note: {count_of(outcome.timed_out, 'fit')} ended by the time limit\n")
    if outcome.failed:
        sys.stderr.write(
            f"bayesvm: {count_of(outcome.failed, 'fit')} failed; the errors are in the results, "
            "and --retry tries again\n"
        )
        return FAULT
    return DONE


def _epochs(shorten: tuple[str, ...]) -> dict[str, int]:
    """``NAME=EPOCHS`` as a mapping."""
    found = {}
    for given in shorten:
        name, _, epochs = given.partition("=")
        if not epochs.isdigit() or int(epochs) < 1:
            raise ValueError(f"--shorten {given!r} is not valid; give a set and its epochs, such as poker=20")
        found[name] = int(epochs)
    return found
