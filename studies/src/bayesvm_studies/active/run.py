"""Making the runs of a plan: policies side by side, then the clock, alone."""

from __future__ import annotations

import os

from bayesvm_studies.active.plan import ActivePlan
from bayesvm_studies.run import Listener, Outcome, run_plan
from bayesvm_studies.spool import Spool


def run_active(
    plan: ActivePlan,
    results: str | os.PathLike[str],
    *,
    data: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    retry: bool = False,
    any_version: bool = False,
    listener: Listener | None = None,
) -> Outcome:
    """Make the runs that are not known, adding each to the results as soon as it is made.

    Parameters
    ----------
    plan : ActivePlan
    results : path-like
        File of results; a run that was ended at any moment goes on where it stopped.
    data : str, path-like or None
        Folder of the sets.
    jobs : int
        Processes side by side, one thread each; the clock always runs alone.
    retry, any_version : bool
        As in :func:`bayesvm_studies.run_plan`.
    listener : Listener or None
    """
    spool = Spool(data)
    try:
        made = [
            run_plan(
                stage,
                results,
                jobs=1 if stage is plan.timed else jobs,
                retry=retry,
                any_version=any_version,
                listener=listener,
                spool=spool,
            )
            for stage in plan
            if stage.tasks
        ]
    finally:
        spool.close()
    return Outcome(
        known=sum(outcome.known for outcome in made),
        made=sum(outcome.made for outcome in made),
        failed=sum(outcome.failed for outcome in made),
        timed_out=sum(outcome.timed_out for outcome in made),
        notes=tuple(dict.fromkeys(note for outcome in made for note in outcome.notes)),
    )
