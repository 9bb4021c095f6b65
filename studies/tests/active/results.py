"""Results of the study of active learning, made up for a purpose."""

import numpy as np

from bayesvm_studies.active import ActiveSettings
from bayesvm_studies.active.plan import EVERYTHING, PAIR, POLICIES, _Maker
from bayesvm_studies.results import Result, Task


def described(protocol, data, model, policy, seed, n_queries):
    """A task of a real entrant on a set that need not be there."""
    maker = _Maker(ActiveSettings(queries=n_queries), None)
    maker._digests = {data: "digest"}
    if policy == EVERYTHING:
        return next(t for t in maker.poker(seed) if t.model.endswith(EVERYTHING))
    return maker._play(protocol, data, model, policy, seed, {"pool_rows": 10, "test_rows": 10})


def run(
    data,
    entrant,
    wrong,
    *,
    seed=0,
    of=100,
    protocol="sets",
    n_queries=None,
    status="ok",
    error="",
    started=0.0,
    note="",
):
    """A run with this many errors out of ``of`` before each query and at the end."""
    model, _, policy = entrant.partition("/")
    asked = len(wrong) - 1 if n_queries is None else n_queries
    task: Task = described(protocol, data, model, policy, seed, asked)
    if status != "ok":
        return Result.of(task, status, error=error, started=started)
    extra = {} if policy == EVERYTHING else {"wrong": list(wrong), "n_pool": 500}
    return Result.of(
        task,
        "ok",
        n_test=of,
        correct=of - wrong[-1],
        bins=[[13, of, of - wrong[-1], 0.9 * of]],
        total_s=0.1 * len(wrong),
        machine="a processor, 2 cores",
        started=started,
        note=note,
        extra=extra,
    )


def clock(median=1.25):
    maker = _Maker(ActiveSettings(), None)
    maker._digests = {"poker": "digest"}
    return Result.of(maker.clock(), "ok", extra={"round_s": [median] * 3, "median_s": median})


ENTRANTS = [f"default/{p}" for p in POLICIES] + ["random_forest/margin", "svc/margin"]


def many(n_queries=100, n_sets=4, n_seeds=3):
    rng = np.random.default_rng(0)
    found = []
    for k, e in enumerate(ENTRANTS):
        for i in range(n_sets):
            for seed in range(n_seeds):
                noise = rng.integers(0, 6, n_queries + 1)
                wrong = np.round(80 - 40 * np.linspace(0, 1, n_queries + 1) + 2 * k + noise)
                found.append(run(f"set{i}", e, wrong.astype(int).tolist(), seed=seed))
    found += [run(f"set{i}", f"paper/{p}", [60] * (n_queries + 1)) for i in range(n_sets) for p in PAIR]
    found += [
        run("poker", f"default/{p}", [50 - 10 * k] * (n_queries + 1), seed=seed, protocol="poker")
        for k, p in enumerate(PAIR)
        for seed in range(2)
    ]
    found.append(run("poker", "default/everything", [30], protocol="poker", note="poker completed: some"))
    found.append(clock(1.25))
    return found
