"""The figures by which the experiment on images is judged, recomputed from its raw results."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayesvm_studies.images.plan import DERIVED, GROUPS, HEADS, OWN_HEADS, PACE, PLAIN, SCORES
from bayesvm_studies.page import about_runs, machines_with_gpu
from bayesvm_studies.results import Result, rounded
from bayesvm_studies.statistics import Pooled, pool

TEMPERED = "_tempered"


@dataclass(frozen=True)
class Scores:
    """A model on the test rows of a group.

    Attributes
    ----------
    seeds : list of Pooled
        Scores of each seed.
    ood : list of dict
        Of each seed, by the name of a set from elsewhere and of a measure of
        doubt, the area under the ROC curve.
    results : list of Result
        Of each seed.
    """

    seeds: list[Pooled]
    ood: list[dict[str, dict[str, float]]]
    results: list[Result]

    def mean(self, of: Callable[[Pooled], float]) -> float:
        """Mean of a score over the seeds."""
        return statistics.fmean(of(seed) for seed in self.seeds)

    def pooled_bins(self) -> Any:
        """Bins of the confidence with the rows of all seeds together."""
        return np.sum([seed.bins for seed in self.seeds], axis=0)

    def auroc(self, score: str, severity: int | None = None) -> float:
        """Mean over seeds and sets from elsewhere; of corruptions of one severity, or of all."""
        found = [
            scores[score]
            for seed in self.ood
            for name, scores in seed.items()
            if score in scores and (severity is None or name.endswith(f"-{severity}"))
        ]
        return statistics.fmean(found) if found else float("nan")


@dataclass(frozen=True)
class GroupSummary:
    """A network on a data set: what every model scored, the curves of those trained, and what went wrong."""

    name: str
    models: dict[str, Scores]
    curves: dict[str, list[Result]]
    failed: dict[str, list[str]]
    missing: list[str]
    shortened: bool

    def as_dict(self) -> dict[str, Any]:
        """Scores by model."""
        models = self.models.items()
        return {
            "accuracy": {m: s.mean(lambda p: p.accuracy) for m, s in models},
            "accuracy_per_seed": {m: [p.accuracy for p in s.seeds] for m, s in models},
            "log_loss": {m: s.mean(lambda p: p.log_loss) for m, s in models},
            "brier": {m: s.mean(lambda p: p.brier) for m, s in models},
            "predict_ms_per_1000_rows": {m: predict_ms(s) for m, s in models},
            "failed": self.failed,
            "missing": self.missing,
            "shortened": self.shortened,
        }


@dataclass(frozen=True)
class ImageSummary:
    """All groups, the study of the warm-up, and the clocks."""

    groups: dict[str, GroupSummary]
    warmups: dict[str, dict[str, Result]]
    clocks: dict[str, Result]
    results: tuple[Result, ...]

    def epoch_seconds(self, group: str, model: str) -> float:
        """Median seconds of an epoch, alone on the machine where a clock ran, else as it was trained."""
        runs = self.groups[group].curves.get(model, [])
        clock = self.clocks.get(f"{group}{PACE}", self.clocks.get(group))
        if runs and clock is not None and model in clock.extra["epoch_s"] and _same_recipe(clock, runs[0]):
            # Clocks run over fewer rows than an epoch has.
            per_row = statistics.median(clock.extra["epoch_s"][model]) / clock.n_train
            return per_row * runs[0].n_train
        return (
            statistics.median([e["seconds"] for r in runs for e in r.extra["epochs"]])
            if runs
            else float("nan")
        )

    def epoch_time_ratio(self, group: str, model: str = "bayesvm") -> float | None:
        """Seconds of an epoch over those with a softmax layer, in turns, at a batch of 128."""
        clock = self.clocks.get(group)
        return None if clock is None else clock.extra["ratio"].get(model)

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON can hold it; what is not known is null."""
        described: dict[str, Any] = {name: group.as_dict() for name, group in self.groups.items()}
        described["ece"] = {
            name: {m: s.mean(lambda p: p.ece) for m, s in group.models.items()}
            for name, group in self.groups.items()
        }
        described["ood_auroc"] = {name: _ood(group) for name, group in self.groups.items()}
        described["epoch_time_ratio"] = {name: self.epoch_time_ratio(name) for name in GROUPS}
        described["epoch_time_ratio_plain_loop"] = {
            name: self.epoch_time_ratio(f"{name}{PLAIN}") for name in GROUPS
        }
        described["epoch_time_ratio_joint_adam"] = {
            name: self.epoch_time_ratio(name, "bayesvm_adam") for name in GROUPS
        }
        described["epoch_time_ratio_1000_classes"] = self.epoch_time_ratio("1000_classes")
        described["n_runs"] = len(self.results)
        described |= {**about_runs(self.results), "machines": machines_with_gpu(self.results)}
        return dict(rounded(described))


def summarise_images(results: Sequence[Result]) -> ImageSummary:
    """Put raw results together; of equal runs the newest counts, and a full one before a shortened one."""
    chosen: dict[tuple[str, str, str, int], Result] = {}
    for r in sorted(results, key=lambda r: (not _short(r), r.started)):
        chosen[r.protocol, r.data, r.model, r.split] = r
    kept = list(chosen.values())
    groups = {name: _group(name, [r for r in kept if r.protocol == name]) for name in GROUPS}
    warmups: dict[str, dict[str, Result]] = {}
    for r in kept:
        if r.protocol == "warmup" and r.ok:
            warmups.setdefault(r.data, {})[r.model] = r
    clocks = {r.model: r for r in kept if r.protocol == "timing" and r.ok}
    return ImageSummary(groups, warmups, clocks, tuple(kept))


def _group(name: str, results: list[Result]) -> GroupSummary:
    models: dict[str, Scores] = {}
    for model in (*HEADS, *DERIVED):
        runs = sorted((r for r in results if r.model == model and r.ok), key=lambda r: r.split)
        if not runs:
            continue
        models[model] = Scores([pool([r]) for r in runs], [r.extra["ood"] for r in runs], runs)
        at_best = [_tempered(r) for r in runs]
        models[model + TEMPERED] = Scores(
            [pool([r]) for r in at_best], [r.extra["ood_tempered"] for r in runs], runs
        )
    failed: dict[str, list[str]] = {}
    for r in results:
        if not r.ok:
            failed.setdefault(r.model, []).append(f"seed {r.split}: {r.error}")
    wanted = (*GROUPS[name].seeds, *DERIVED)
    return GroupSummary(
        name,
        models,
        {m: models[m].results for m in HEADS if m in models},
        failed,
        [m for m in wanted if m not in models and m not in failed],
        any(_short(r) for r in results),
    )


def _tempered(result: Result) -> Result:
    """The result with the scores at the temperature fitted on held-out rows."""
    return replace(result, **result.extra["tempered"])


def _short(result: Result) -> bool:
    return bool(result.config.get("shortened", False))


def _same_recipe(clock: Result, run: Result) -> bool:
    """Whether a step of both is the same work in the same place."""
    ours, theirs = clock.config["arguments"], run.config["arguments"]
    named = ("batch_size", "precision", "compile")
    same = all(ours["recipe"].get(name) == theirs["recipe"].get(name) for name in named)
    return same and ours["device"] == theirs["device"] and clock.machine == run.machine


def predict_ms(scores: Scores) -> float:
    """Milliseconds for a thousand rows, the median of the seeds."""
    return statistics.median(1e6 * r.predict_s / max(r.n_test, 1) for r in scores.results)


def _ood(group: GroupSummary) -> dict[str, Any]:
    """By model and measure of doubt; for corruptions also by severity."""
    found: dict[str, Any] = {}
    for model, scores in group.models.items():
        names = {name for seed in scores.ood for name in seed}
        found[model] = {s: scores.auroc(s) for s in SCORES if np.isfinite(scores.auroc(s))}
        severities = severities_of(names)
        if severities:
            found[model]["by_severity"] = {
                s: [scores.auroc(s, k) for k in severities] for s in SCORES if np.isfinite(scores.auroc(s))
            }
    return found


def severities_of(names: Iterable[str]) -> list[int]:
    """Severities among names such as "fog-3"."""
    return sorted({int(name.rpartition("-")[2]) for name in names if name.rpartition("-")[2].isdigit()})


def own(model: str) -> bool:
    """Whether it is one of ours."""
    return model.removesuffix(TEMPERED) in OWN_HEADS
