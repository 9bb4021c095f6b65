"""Making the runs of a plan: what is trained, what is made of it, then the clocks, alone."""

from __future__ import annotations

import os
from pathlib import Path

from bayesvm_studies.images.plan import ImagePlan
from bayesvm_studies.images.spool import ImageSpool
from bayesvm_studies.run import Listener, Outcome, run_plan


def run_images(
    plan: ImagePlan,
    results: str | os.PathLike[str],
    *,
    models: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    retry: bool = False,
    any_version: bool = False,
    listener: Listener | None = None,
) -> Outcome:
    """Make the runs that are not known, adding each to the results as soon as it is made.

    Parameters
    ----------
    plan : ImagePlan
    results : path-like
        File of results; a run that was ended at any moment goes on where it stopped.
    models : path-like or None
        Folder in which trained models are kept; None: beside the results.
    data : str, path-like or None
        Folder of the image sets.
    jobs : int
        Trainings side by side on the same device; clocks always run alone.
    retry, any_version : bool
        As in :func:`bayesvm_studies.run_plan`.
    listener : Listener or None
    """
    kept = Path(results).with_suffix(".models") if models is None else Path(models)
    spool = ImageSpool(data, kept, elsewhere=bool(plan.trained.tasks or plan.derived.tasks))
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
    names = ("known", "made", "failed", "timed_out")
    return Outcome(*(sum(getattr(outcome, name) for outcome in made) for name in names))
