"""Which fits the study of structured data consists of."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from bayesvm_studies.datasets import SetInfo, paper_sets
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


def chosen_sets(subset: str, protocol: str) -> list[SetInfo]:
    """Sets that a word or a list of names stands for, the smallest first; see :class:`StructuredSettings`."""
    every = [s for s in paper_sets() if protocol == "paper" or s.name != "poker"]
    if subset == "all":
        return every
    if subset == "small":
        return [s for s in every if s.rows <= SMALL_ROWS]
    return named_sets(subset, paper_sets(), "the paper", ("small", "all"))


def named_sets(subset: str, known: Sequence[SetInfo], owner: str, words: Sequence[str]) -> list[SetInfo]:
    """Sets of a list of names with commas, the smallest first.

    Parameters
    ----------
    subset : str
    known : sequence of SetInfo
        Those that may be named.
    owner, words : str, sequence of str
        For the error message: whose sets they are, and what may be given instead of names.
    """
    names = split_names(subset)
    other = f"{', '.join(words)} or names of sets"
    if not names:
        raise ValueError(f"subset {subset!r} names no set; give {other}")
    by_name = {info.name: info for info in known}
    for name in names:
        if name not in by_name:
            raise ValueError(f"{owner} has no set {name!r}; {near_name(name, by_name) or f'give {other}'}")
    return sorted({by_name[name] for name in names}, key=lambda s: (s.rows, s.name))


def make_plan(settings: StructuredSettings, data: str | os.PathLike[str] | None = None) -> Plan:
    """The fits that the settings ask for; ``data`` is the folder of the sets."""
    protocol = settings.protocol
    if protocol not in (*PROTOCOLS, "both"):
        raise ValueError(f"--protocol {protocol!r} is not known; give paper, olson or both")
    protocols = PROTOCOLS if protocol == "both" else (protocol,)
    check_device(settings.device)
    known = {c.name: c for p in protocols for c in contestants(p).values()}
    wanted = wanted_models(settings.models, list(known))
    shorten = _epochs(settings.shorten)
    _check_shorten(shorten, protocols, settings.subset)
    tasks: list[Task] = []
    absent: dict[str, str] = {}
    digests: dict[str, str] = {}
    for name in protocols:
        able = able_contestants(contestants(name), wanted, absent)
        for info in chosen_sets(settings.subset, name):
            if info.name not in digests:
                digests[info.name] = file_digest(info.name, data)
            tasks += fits_of(
                info,
                digests[info.name],
                able,
                name,
                folds=settings.folds,
                timeout=settings.timeout,
                device=settings.device,
                epochs=shorten.get(info.name),
            )
    return Plan([Stage(tasks)], lambda _: Spool(data), absent)


def wanted_models(listed: str | None, known: Sequence[str]) -> list[str] | None:
    """Names of a list with commas, all of them known; None for all there are."""
    if listed is None:
        return None
    wanted = split_names(listed)
    if not wanted:
        raise ValueError(f"models {listed!r} names no model")
    for name in wanted:
        if name not in known:
            hint = " ".join(filter(None, [near_name(name, known), f"the models are {', '.join(known)}"]))
            raise ValueError(f"there is no model {name!r}; {hint}")
    return wanted


def able_contestants(
    known: Mapping[str, Contestant], wanted: Sequence[str] | None, absent: dict[str, str]
) -> list[tuple[Contestant, dict[str, str]]]:
    """Models that are wanted and can run here, with their versions; the others are added to ``absent``."""
    able = []
    for name, contestant in known.items():
        if wanted is not None and name not in wanted:
            continue
        why = missing(contestant)
        if why is None:
            able.append((contestant, versions_of(contestant)))
        else:
            absent[name] = why
    return able


def fits_of(
    info: SetInfo,
    data_digest: str,
    able: Sequence[tuple[Contestant, dict[str, str]]],
    protocol: str,
    *,
    folds: int | None = None,
    timeout: float | None = None,
    device: str = "cpu",
    epochs: int | None = None,
) -> list[Task]:
    """Fits of some models to the splits of one set, split by split.

    Parameters
    ----------
    info : SetInfo
    data_digest : str
    able : sequence of (Contestant, dict)
        Models with their versions.
    protocol : {"paper", "olson"}
    folds : int or None
        Only so many of the first folds.
    timeout : float or None
        Limit of every fit, 0 for none; None: that of the model.
    device, epochs
        As in :meth:`Contestant.config`.
    """
    return [
        Task(
            data=info.name,
            data_digest=data_digest,
            protocol=protocol,
            split=split,
            model=contestant.name,
            config=contestant.config(device, epochs),
            versions=versions,
            timeout=contestant.limit_s if timeout is None else timeout or None,
        )
        for i, split in enumerate(splits_of(protocol, folds))
        for contestant, versions in able
        if contestant.takes(info) and (contestant.max_folds is None or i < contestant.max_folds)
    ]


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
