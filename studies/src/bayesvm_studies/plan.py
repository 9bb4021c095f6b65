"""Which fits a run consists of."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bayesvm_studies.datasets import SetInfo, find_set, paper_sets
from bayesvm_studies.protocols import PROTOCOLS, splits_of
from bayesvm_studies.roster import PAPER_EPOCHS, Contestant, contestants
from bayesvm_studies.spool import file_digest
from bayesvm_studies.task import Task
from bayesvm_studies.versions import missing, versions_of

# Sets up to this many rows are "small".
SMALL_ROWS = 1500
DEFAULT_TIMEOUT = 600.0


@dataclass(frozen=True)
class Plan:
    """Fits in the order in which they are made, and models that cannot run here with the reason."""

    tasks: list[Task]
    absent: dict[str, str] = field(default_factory=dict)


def chosen_sets(subset: str, protocol: str) -> list[SetInfo]:
    """Sets that a word or a list of names stands for, the smallest first.

    Parameters
    ----------
    subset : str
        "all", "small" (at most 1,500 rows) or names with commas between
        them. "all" of Olson's protocol is without poker, of which no
        accuracy is published and only a part is real.
    protocol : {"paper", "olson"}
    """
    every = [s for s in paper_sets() if protocol == "paper" or s.name != "poker"]
    if subset == "all":
        return every
    if subset == "small":
        return [s for s in every if s.rows <= SMALL_ROWS]
    chosen = []
    names = _names(subset)
    if not names:
        raise ValueError(f"subset {subset!r} names no set; give small, all or names of sets")
    for name in names:
        info = find_set(name)
        if info is None:
            near = difflib.get_close_matches(name, [s.name for s in paper_sets()], 1)
            hint = f"; did you mean {near[0]!r}?" if near else "; give small, all or names of sets"
            raise ValueError(f"the paper has no set {name!r}{hint}")
        chosen.append(info)
    return sorted(set(chosen), key=lambda s: (s.rows, s.name))


def make_plan(
    protocols: Sequence[str] = PROTOCOLS,
    *,
    subset: str = "all",
    models: str | None = None,
    folds: int | None = None,
    data: str | os.PathLike[str] | None = None,
    device: str = "cpu",
    timeout: float | None = None,
    shorten: Mapping[str, int] | None = None,
) -> Plan:
    """The fits of some protocols.

    Parameters
    ----------
    protocols : sequence of {"paper", "olson"}
    subset : str
        See :func:`chosen_sets`.
    models : str or None
        Names with commas between them; None: all that can run here.
    folds : int or None
        Only the first of Olson's ten folds.
    data : str, path-like or None
        Folder of the sets.
    device : str
        For the models of this library.
    timeout : float or None
        Seconds a fit may take, for every model; None: 600 for competitors,
        no limit for BayesianSVC and for the paper's recipe.
    shorten : mapping of str to int or None
        Epochs of the paper's recipe on named sets of the run, the same for all
        models; at most the paper's thousand.
    """
    wanted = None if models is None else _names(models)
    if wanted == []:
        raise ValueError(f"models {models!r} names no model")
    _check_models(wanted, protocols)
    _check_shorten(shorten or {}, protocols, subset)
    tasks: list[Task] = []
    absent: dict[str, str] = {}
    digests: dict[str, str] = {}
    for protocol in protocols:
        able: list[Contestant] = []
        for contestant in contestants(protocol).values():
            if wanted is not None and contestant.name not in wanted:
                continue
            why = missing(contestant)
            if why is None:
                able.append(contestant)
            else:
                absent[contestant.name] = why
        versions = {c.name: versions_of(c) for c in able}
        for info in chosen_sets(subset, protocol):
            if info.name not in digests:
                digests[info.name] = file_digest(info.name, data)
            tasks += [
                Task(
                    data=info.name,
                    data_digest=digests[info.name],
                    protocol=protocol,
                    split=split,
                    model=contestant.name,
                    config=contestant.config(device, (shorten or {}).get(info.name)),
                    versions=versions[contestant.name],
                    timeout=_limit(contestant, timeout),
                )
                for split in splits_of(protocol, folds)
                for contestant in able
                if contestant.takes(info)
            ]
    return Plan(tasks, absent)


def _limit(contestant: Contestant, timeout: float | None) -> float | None:
    if timeout is not None:
        return timeout if timeout > 0 else None
    return DEFAULT_TIMEOUT if contestant.limited else None


def _names(listed: str) -> list[str]:
    return [name for name in (part.strip() for part in listed.split(",")) if name]


def _check_models(wanted: Iterable[str] | None, protocols: Sequence[str]) -> None:
    known = list(dict.fromkeys(name for p in protocols for name in contestants(p)))
    for name in wanted or ():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"there is no model {name!r}{hint}; the models are {', '.join(known)}")


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
        if not 1 <= epochs <= PAPER_EPOCHS:
            raise ValueError(
                f"shorten: {epochs} epochs for {name} is not valid; give a number from 1 to {PAPER_EPOCHS}"
            )
