"""Which of several results of the same fit count: the newest, and never two."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bayesvm_studies.plan import chosen_sets
from bayesvm_studies.result import Result


class Setting(NamedTuple):
    """Where and how long the paper's recipe ran; times of different settings cannot be compared."""

    machine: str
    device: str
    epochs: int | None


def newest(results: Iterable[Result]) -> dict[tuple[str, int, str], Result]:
    """By set, split and model, the last of all versions and configurations."""
    chosen: dict[tuple[str, int, str], Result] = {}
    for result in results:
        place = (result.data, result.split, result.model)
        if place not in chosen or result.started >= chosen[place].started:
            chosen[place] = result
    return chosen


def setting_of(result: Result) -> Setting:
    """The setting of a fit; a model that does not follow the paper's recipe has no epochs."""
    arguments = result.config["arguments"]
    return Setting(result.machine, str(arguments.get("device", "cpu")), arguments.get("max_iter"))


def paper_setting(results: Iterable[Result], models: Sequence[str]) -> dict[str, Setting]:
    """For every set the setting in which most of these models ran; then most epochs, then the newest."""
    found: dict[str, dict[Setting, set[str]]] = defaultdict(lambda: defaultdict(set))
    scored: Counter[tuple[str, Setting]] = Counter()
    last: dict[tuple[str, Setting], float] = {}
    for result in results:
        if result.model in models:
            setting = setting_of(result)
            found[result.data][setting].add(result.model)
            scored[result.data, setting] += result.ok
            last[result.data, setting] = max(last.get((result.data, setting), 0.0), result.started)
    return {
        data: max(
            settings,
            key=lambda s: (len(settings[s]), scored[data, s] > 0, s.epochs or 0, last[data, s]),
        )
        for data, settings in found.items()
    }


def not_run(protocol: str, present: Iterable[str]) -> list[str]:
    """Sets of a protocol without any result."""
    there = set(present)
    return [s.name for s in chosen_sets("all", protocol) if s.name not in there]
