"""Which fits the study of structured data consists of."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from bayesvm_studies.datasets import SetInfo, find_set, paper_sets
from bayesvm_studies.results import Task
from bayesvm_studies.runner import Plan, Stage
from bayesvm_studies.spool import Spool, file_digest
from bayesvm_studies.structured import StructuredSettings
from bayesvm_studies.structured.contestants import (
    PAPER_EPOCHS,
    PROTOCOLS,
    Contestant,
    contestants,
    missing,
    splits_of,
    versions_of,
)
from bayesvm_studies.study import near_name, split_names
from bayesvm_studies.versions import check_device

# Sets up to this many rows are "small".
SMALL_ROWS = 1500
DEFAULT_TIMEOUT = 600.0


def chosen_sets(subset: str, protocol: str) -> list[SetInfo]:
    """Sets that a word or a list of names stands for, the smallest first; see :class:`StructuredSettings`."""
    every = [s for s in paper_sets() if protocol == "paper" or s.name != "poker"]
    if subset == "all":
        return every
    if subset == "small":
        return [s for s in every if s.rows <= SMALL_ROWS]
    chosen = []
    names = split_names(subset)
    if not names:
        raise ValueError(f"subset {subset!r} names no set; give small, all or names of sets")
    for name in names:
        info = find_set(name)
        if info is None:
            hint = near_name(name, [s.name for s in paper_sets()]) or "give small, all or names of sets"
            raise ValueError(f"the paper has no set {name!r}; {hint}")
        chosen.append(info)
    return sorted(set(chosen), key=lambda s: (s.rows, s.name))


def make_plan(settings: StructuredSettings, data: str | os.PathLike[str] | None = None) -> Plan:
    """The fits that the settings ask for; ``data`` is the folder of the sets."""
    protocol = settings.protocol
    if protocol not in (*PROTOCOLS, "both"):
        raise ValueError(f"--protocol {protocol!r} is not known; give paper, olson or both")
    protocols = PROTOCOLS if protocol == "both" else (protocol,)
    check_device(settings.device)
    wanted = None if settings.models is None else split_names(settings.models)
    if wanted == []:
        raise ValueError(f"models {settings.models!r} names no model")
    _check_models(wanted, protocols)
    shorten = _epochs(settings.shorten)
    _check_shorten(shorten, protocols, settings.subset)
    tasks: list[Task] = []
    absent: dict[str, str] = {}
    digests: dict[str, str] = {}
    for name in protocols:
        able: list[Contestant] = []
        for contestant in contestants(name).values():
            if wanted is not None and contestant.name not in wanted:
                continue
            why = missing(contestant)
            if why is None:
                able.append(contestant)
            else:
                absent[contestant.name] = why
        versions = {c.name: versions_of(c) for c in able}
        for info in chosen_sets(settings.subset, name):
            if info.name not in digests:
                digests[info.name] = file_digest(info.name, data)
            tasks += [
                Task(
                    data=info.name,
                    data_digest=digests[info.name],
                    protocol=name,
                    split=split,
                    model=contestant.name,
                    config=contestant.config(settings.device, shorten.get(info.name)),
                    versions=versions[contestant.name],
                    timeout=_limit(contestant, settings.timeout),
                )
                for split in splits_of(name, settings.folds)
                for contestant in able
                if contestant.takes(info)
            ]
    return Plan([Stage(tasks)], lambda _: Spool(data), absent)


def _limit(contestant: Contestant, timeout: float | None) -> float | None:
    if timeout is not None:
        return timeout if timeout > 0 else None
    return DEFAULT_TIMEOUT if contestant.limited else None


def _check_models(wanted: Iterable[str] | None, protocols: Sequence[str]) -> None:
    known = list(dict.fromkeys(name for p in protocols for name in contestants(p)))
    for name in wanted or ():
        if name not in known:
            hint = " ".join(filter(None, [near_name(name, known), f"the models are {', '.join(known)}"]))
            raise ValueError(f"there is no model {name!r}; {hint}")


def _epochs(shorten: Iterable[str]) -> dict[str, int]:
    """``SET=EPOCHS`` as a mapping."""
    found = {}
    for given in shorten:
        name, _, epochs = given.partition("=")
        if not epochs.isdecimal() or int(epochs) < 1:
            raise ValueError(f"--shorten {given!r} is not valid; give a set and its epochs, such as poker=20")
        found[name] = int(epochs)
    return found


def _check_shorten(shorten: Mapping[str, int], protocols: Sequence[str], subset: str) -> None:
    """Refuse epochs that would change nothing, or not what was meant."""
    if not shorten:
        return
    known = {s.name for s in paper_sets()}
    for name in shorten:
        if name not in known:
            raise ValueError(f"shorten: the paper has no set {name!r}")
    if "paper" not in protocols:
        raise ValueError("shorten is for the paper's recipe; it needs the protocol paper")
    chosen = {s.name for s in chosen_sets(subset, "paper")}
    for name, epochs in shorten.items():
        if name not in chosen:
            raise ValueError(f"shorten: the set {name!r} is not part of this run")
        if epochs > PAPER_EPOCHS:
            raise ValueError(
                f"shorten: {epochs} epochs for {name} is not valid; give a number from 1 to {PAPER_EPOCHS}"
            )
