"""Results of the study of structured data, made up for a purpose."""

import numpy as np

from bayesvm_studies.datasets import paper_sets
from bayesvm_studies.results import Result, Task
from bayesvm_studies.structured.contestants import contestants

MACHINE = "a processor, 2 cores"


def made(
    data,
    model,
    *,
    protocol="olson",
    split=0,
    correct=0,
    of=100,
    loss=1.0,
    fit_s=1.0,
    status="ok",
    error="",
    started=0.0,
    version="1",
    epochs=None,
    device="cpu",
    machine=MACHINE,
    note="",
    confidence=0.9,
    total_s=None,
):
    """A result of a real contestant."""
    config = contestants(protocol)[model].config(device, epochs)
    task = Task(data, "digest", protocol, split, model, config, {"bayesvm": version})
    if status != "ok":
        return Result.of(task, status, error=error, started=started, machine=machine, total_s=total_s or 0.0)
    return Result.of(
        task,
        "ok",
        n_train=9 * of,
        n_test=of,
        n_features=4,
        n_classes=3,
        correct=correct,
        log_loss_sum=loss * of,
        brier_sum=0.5 * of,
        bins=[[13, of, correct, confidence * of]],
        fit_s=fit_s,
        predict_s=0.1,
        total_s=fit_s if total_s is None else total_s,
        peak_mb=10.0,
        started=started,
        jobs=2,
        machine=machine,
        commit="abc",
        note=note,
        environment={"python": "3.11"},
    )


def folds(data, model, correct, n_folds=10, **known):
    """Ten folds with the same score."""
    return [made(data, model, split=i, correct=correct, **known) for i in range(n_folds)]


def many():
    """Plausible results of all models on all sets, a few of them missing or failed."""
    rng = np.random.default_rng(0)
    results = []
    for info in paper_sets():
        for protocol in ("paper", "olson"):
            for model, contestant in contestants(protocol).items():
                if not contestant.takes(info) or rng.random() < 0.01:
                    continue
                known = {"correct": int(rng.integers(55, 100)), "loss": rng.random(), "confidence": 0.8}
                known |= {"fit_s": info.rows / 1000 * rng.random(), "status": "ok"}
                if model == "svc_grid" and info.rows > 60_000:
                    known |= {"status": "timeout", "error": "ended after 600 s"}
                if protocol == "olson" and info.name != "poker":
                    results += folds(info.name, model, n_folds=10, **known)
                elif protocol == "paper":
                    if info.name == "poker":
                        known["note"] = "poker completed: <i>part</i> of it is generated"
                    known["epochs"] = 20 if info.rows > 400_000 else None
                    results.append(made(info.name, model, protocol="paper", split=2018, **known))
    return results
