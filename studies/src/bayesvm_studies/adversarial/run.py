"""Making the runs of the experiment: models that are missing, then attacks on all."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from bayesvm_studies.adversarial.plan import AdversarialPlan, AdversarialSettings, make_adversarial_plan
from bayesvm_studies.images.spool import ImageSpool
from bayesvm_studies.run import Listener, Outcome, run_plan


def trainings_file(models: str | os.PathLike[str]) -> Path:
    """Where the results of trainings that were made for this experiment are."""
    return Path(models) / "trained.jsonl"


def _set_aside(file: Path) -> None:
    """Give a file the next free name: trained.1.jsonl, trained.2.jsonl and so on."""
    if file.exists():
        names = (file.with_suffix(f".{n}{file.suffix}") for n in itertools.count(1))
        file.rename(next(name for name in names if not name.exists()))


def run_adversarial(
    settings: AdversarialSettings,
    results: str | os.PathLike[str],
    *,
    models: str | os.PathLike[str],
    data: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    retry: bool = False,
    any_version: bool = False,
    listener: Listener | None = None,
    plan: AdversarialPlan | None = None,
) -> Outcome:
    """Train what is missing, and make the attacks that are not known.

    Parameters
    ----------
    settings : AdversarialSettings
    results : path-like
        File of results; a run that was ended at any moment goes on where it stopped.
    models : path-like
        Folder of trained models; those that it lacks are trained with the
        same recipes and kept there.
    data : str, path-like or None
        Folder of the image sets.
    jobs : int
        Runs side by side on the same device.
    retry, any_version : bool
        As in :func:`bayesvm_studies.run_plan`.
    listener : Listener or None
    plan : AdversarialPlan or None
        If it has been made already.
    """
    first = make_adversarial_plan(settings, models, data) if plan is None else plan
    spool = ImageSpool(data, models, elsewhere=False)
    made = []
    try:
        if first.trained.tasks:
            # A known training whose model is gone must be repeated: its results are not asked, but kept.
            fresh = trainings_file(models)
            _set_aside(fresh)
            made.append(run_plan(first.trained, fresh, jobs=jobs, listener=listener, spool=spool))
            first = make_adversarial_plan(settings, models, data)
        made.append(
            run_plan(
                first.attacked,
                results,
                jobs=jobs,
                retry=retry,
                any_version=any_version,
                listener=listener,
                spool=spool,
            )
        )
    finally:
        spool.close()
    return Outcome(
        sum(outcome.known for outcome in made),
        sum(outcome.made for outcome in made),
        sum(outcome.failed for outcome in made),
        sum(outcome.timed_out for outcome in made),
        tuple(dict.fromkeys(note for outcome in made for note in outcome.notes)),
    )
