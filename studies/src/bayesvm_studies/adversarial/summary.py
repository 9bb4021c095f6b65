"""The figures by which the experiment is judged, recomputed from its raw results."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bayesvm_studies.adversarial.plan import ATTACKS, COMBINED, SCORE_TITLES, SQUEEZED, VICTIMS
from bayesvm_studies.images.plan import GROUPS
from bayesvm_studies.page import about_runs, machines_with_gpu
from bayesvm_studies.results import Result, rounded

OURS = "bayesvm"
# Sections of the summary: the networks that are judged, under the names that readers look for.
SECTIONS = {"mnist": "mnist", "cifar10": "cifar10_residual", "cifar10_paper": "cifar10"}
NEGATIVES = ("clean", "noisy")
POSITIVES = ("all", "successful")
ByEpsilon = dict[str, Any]


@dataclass(frozen=True)
class Attacked:
    """A model of a network under one attack: a line of results for each seed."""

    group: str
    victim: str
    attack: str
    results: list[Result]

    @property
    def epsilons(self) -> list[float]:
        """Strengths that all seeds have, in order."""
        known = [set(r.extra["by_epsilon"]) for r in self.results]
        return sorted(float(e) for e in set.intersection(*known)) if known else []

    @property
    def scores(self) -> list[str]:
        """Scores that the model has, in the order of the tables."""
        found = {
            s for r in self.results for e in r.extra["by_epsilon"].values() for s in e["auc"]["clean"]["all"]
        }
        return [*(s for s in SCORE_TITLES if s in found), *sorted(found - set(SCORE_TITLES))]

    def values(self, epsilon: float, of: Callable[[dict[str, Any]], float | None]) -> list[float]:
        """A number of every seed that has it; strength zero is the clean images."""
        found = (
            of(r.extra["clean"] if epsilon == 0.0 else r.extra["by_epsilon"][f"{epsilon:g}"])
            for r in self.results
        )
        return [float(value) for value in found if value is not None]

    def mean(self, epsilon: float, of: Callable[[dict[str, Any]], float | None]) -> float:
        """Its mean over the seeds that have it; NaN where none does."""
        found = self.values(epsilon, of)
        return statistics.fmean(found) if found else float("nan")

    def accuracy(self, epsilon: float) -> float:
        """Share of images whose label is still predicted."""
        return self.mean(epsilon, lambda e: e["correct"] / e["n"])

    def variation_ratio(self, epsilon: float) -> float:
        """Mean over images."""
        return self.mean(epsilon, lambda e: e["variation_ratio"])

    def auc(self, score: str, epsilon: float, negatives: str = "clean", positives: str = "all") -> float:
        """Area under the ROC curve."""
        return self.mean(epsilon, lambda e: e["auc"][negatives][positives].get(score))

    def tpr(self, score: str, epsilon: float, negatives: str = "clean", positives: str = "all") -> float:
        """True positives at five per cent of false ones."""
        return self.mean(epsilon, lambda e: e["tpr"][negatives][positives].get(score))

    def _by_score(self, of: Callable[..., float], negatives: str, positives: str) -> dict[str, ByEpsilon]:
        """A measure by score and strength."""
        return {
            score: {f"{e:g}": of(score, e, negatives, positives) for e in self.epsilons}
            for score in self.scores
        }

    def as_dict(self) -> dict[str, Any]:
        """Everything about it."""
        kinds = [(n, p) for n in NEGATIVES for p in POSITIVES]
        strengths = [0.0, *self.epsilons]
        found: dict[str, Any] = {
            "seeds": sorted(r.split for r in self.results),
            "accuracy": {f"{e:g}": self.accuracy(e) for e in strengths},
            "variation_ratio": {f"{e:g}": self.variation_ratio(e) for e in strengths},
            "successful": {f"{e:g}": self.mean(e, lambda v: v["successful"] / v["n"]) for e in self.epsilons},
        }
        for name, measure in (("auc", self.auc), ("tpr_at_5_fpr", self.tpr)):
            for kind in kinds:
                ending = "".join(f"_{k}" for k in kind if k not in ("clean", "all"))
                found[f"{name}{ending}"] = self._by_score(measure, *kind)
        return found


@dataclass(frozen=True)
class AdversarialSummary:
    """All attacks, what is missing and what failed."""

    attacked: dict[tuple[str, str, str], Attacked]
    results: tuple[Result, ...]

    def of(self, group: str, victim: str = OURS, attack: str = "fgsm") -> Attacked | None:
        """A model under an attack, if there are results."""
        return self.attacked.get((group, victim, attack))

    @property
    def groups(self) -> list[str]:
        """Networks with results, in order."""
        return [g for g in GROUPS if any(key[0] == g for key in self.attacked)]

    def victims(self, group: str, attack: str = "fgsm") -> list[Attacked]:
        """Models of a network under an attack."""
        found = (self.of(group, victim, attack) for victim in VICTIMS)
        return [a for a in found if a is not None]

    @property
    def failed(self) -> list[str]:
        """Runs that failed, with the reason."""
        return [f"{r.protocol} on {r.model}, seed {r.split}: {r.error}" for r in self.results if not r.ok]

    @property
    def missing(self) -> list[str]:
        """Models of networks and attacks for which there is nothing."""
        return [
            f"{attack} on {group}.{name}"
            for group in GROUPS
            for name, victim in VICTIMS.items()
            for attack in victim.attacks
            if (group, name, attack) not in self.attacked
        ]

    @property
    def other_weights(self) -> list[str]:
        """Models and seeds whose attacks were made on different trainings of the same recipe."""
        known: dict[str, set[str | None]] = {}
        for r in self.results:
            if r.ok:
                known.setdefault(f"{r.model} {r.split}", set()).add(r.versions.get("weights"))
        return sorted(name for name, weights in known.items() if len(weights) > 1)

    @property
    def shortened(self) -> bool:
        """Whether some rows were left out, or some models trained for less than their recipe."""
        return any(_short(r) for r in self.results)

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON can hold it; what is not known is null or left out."""
        described: dict[str, Any] = {name: self._section(group, "fgsm") for name, group in SECTIONS.items()}
        described["tpr_at_5_fpr"] = {name: described[name].get("tpr_at_5_fpr", {}) for name in SECTIONS}
        for attack in (a for a in ATTACKS if a != "fgsm"):
            sections = {name: self._section(group, attack) for name, group in SECTIONS.items()}
            described[attack] = {
                what: {name: section.get(what, {}) for name, section in sections.items()}
                for what in ("accuracy", "variation_ratio", "successful", "auc", "auc_noisy", "tpr_at_5_fpr")
            }
        described["goals"] = [goal._asdict() for goal in goals(self)]
        described["models"] = {
            group: {
                victim: {
                    attack: found.as_dict()
                    for attack in ATTACKS
                    if (found := self.of(group, victim, attack)) is not None
                }
                for victim in VICTIMS
            }
            for group in self.groups
        }
        described["n_runs"] = len(self.results)
        described["seconds"] = sum(r.total_s for r in self.results)
        described["failed"], described["missing"] = self.failed, self.missing
        described["other_weights"] = self.other_weights
        described["shortened"] = self.shortened
        described |= {**about_runs(self.results), "machines": machines_with_gpu(self.results)}
        return dict(rounded(described))

    def _section(self, group: str, attack: str) -> dict[str, Any]:
        found = self.of(group, OURS, attack)
        named = {"network": GROUPS[group].network, "model": OURS}
        return {**named, "auc": {}} if found is None else {**named, **found.as_dict()}


@dataclass(frozen=True)
class Goal:
    """Something to reach: the lowest area of a detector over some strengths.

    Attributes
    ----------
    section : str
    from_epsilon, to_epsilon, least : float
    squeezed, combined, variation_ratio : float
        Lowest areas of both detectors and of the log variation ratio alone.
    """

    section: str
    from_epsilon: float
    to_epsilon: float
    least: float
    squeezed: float
    combined: float
    variation_ratio: float

    @property
    def reached(self) -> bool:
        """Whether the detector with squeezing, which users get, is as good everywhere."""
        return self.squeezed >= self.least

    def _asdict(self) -> dict[str, Any]:
        return {**vars(self), "reached": self.reached}


_GOALS = (("mnist", 0.1, 0.5, 0.99), ("cifar10", 0.1, 0.3, 0.90), ("cifar10", 0.01, 0.05, 0.80))


def goals(summary: AdversarialSummary) -> list[Goal]:
    """What was to be reached under FGSM, beside the variation ratio alone; only where there are results."""
    found = []
    for section, low, high, least in _GOALS:
        attacked = summary.of(SECTIONS[section])
        if attacked is None:
            continue
        within = [e for e in attacked.epsilons if low <= e <= high]
        if within:
            names = (SQUEEZED, COMBINED, "log_variation_ratio")
            lowest = [min(attacked.auc(s, e) for e in within) for s in names]
            found.append(Goal(section, low, high, least, *lowest))
    return found


def summarise_adversarial(results: Sequence[Result]) -> AdversarialSummary:
    """Put raw results together; of equal runs the newest counts, and a full one before a shortened one."""
    chosen: dict[tuple[str, str, int], Result] = {}
    # A failure counts where nothing else is known.
    for r in sorted(results, key=lambda r: (r.ok, not _short(r), r.started)):
        chosen[r.protocol, r.model, r.split] = r
    kept = [r for r in chosen.values() if r.protocol in ATTACKS]
    attacked: dict[tuple[str, str, str], Attacked] = {}
    for group in GROUPS:
        for victim in VICTIMS:
            for attack in ATTACKS:
                runs = _runs(kept, attack, f"{group}.{victim}")
                if runs:
                    attacked[group, victim, attack] = Attacked(group, victim, attack, runs)
    return AdversarialSummary(attacked, tuple(kept))


def _runs(results: Iterable[Result], attack: str, model: str) -> list[Result]:
    found = [r for r in results if r.ok and (r.protocol, r.model) == (attack, model)]
    return sorted(found, key=lambda r: r.split)


def _short(result: Result) -> bool:
    return bool(result.config.get("shortened", False) or result.extra.get("model_shortened", False))
