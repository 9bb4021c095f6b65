"""Results of the contest, made up for a purpose."""

import numpy as np

from bayesvm_studies.contest.contestants import contestants
from bayesvm_studies.contest.plan import contest_sets
from bayesvm_studies.results import Result, Task

MACHINE = "a processor, 16 cores"


def made(
    data,
    model,
    split=0,
    *,
    loss=0.5,
    correct=80,
    of=100,
    auc=None,
    fit_s=1.0,
    status="ok",
    error="",
    machine=MACHINE,
    started=0.0,
    note="",
):
    """A result of a real contestant."""
    config = contestants()[model].config()
    task = Task(data, "digest", "olson", split, model, config, {"numpy": "2.0"})
    if status != "ok":
        return Result.of(task, status, error=error, started=started, machine=machine)
    return Result.of(
        task,
        "ok",
        n_train=9 * of,
        n_test=of,
        n_features=4,
        n_classes=3 if auc is None else 2,
        correct=correct,
        log_loss_sum=loss * of,
        brier_sum=0.3 * of,
        bins=[[13, of, correct, 0.9 * of]],
        auc=auc,
        fit_s=fit_s,
        predict_s=0.1,
        total_s=fit_s,
        started=started,
        jobs=16,
        machine=machine,
        commit="abc",
        note=note,
        environment={"python": "3.12"},
    )


def folds(data, model, n_folds=10, **known):
    """The folds on which a model is tried, with the same score."""
    most = contestants()[model].max_folds or n_folds
    return [made(data, model, split, **known) for split in range(min(n_folds, most))]


def too_long(data, model, n_folds=10):
    """A fold that was ended and those that were not tried."""
    words = ["ended after 120 s", *["not tried: fold 0 was ended after 120 s"] * (n_folds - 1)]
    return [made(data, model, i, status="timeout", error=error) for i, error in enumerate(words)]


def many():
    """Plausible results of all models on all sets; some took too long and one failed."""
    rng = np.random.default_rng(0)
    found = []
    for info in contest_sets():
        for model, contestant in contestants().items():
            if not contestant.takes(info):
                continue
            if model == "catboost" and info.rows > 40_000:
                found += too_long(info.name, model)
                continue
            if model == "ebm" and info.name == "flags":
                found += folds(info.name, model, status="error", error="out of <b>cards</b>")
                continue
            known = {"loss": 0.02 + rng.random(), "correct": int(rng.integers(60, 100))}
            known["auc"] = 0.7 + 0.3 * rng.random() if info.classes == 2 else None
            found += folds(info.name, model, fit_s=info.rows / 1000 * rng.uniform(0.1, 1.0), **known)
    return found
