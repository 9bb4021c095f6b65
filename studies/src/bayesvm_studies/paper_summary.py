"""The paper's Table 1 and its training times, from the results of its protocol."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesvm_studies.choose import Setting, newest, not_run, paper_setting, setting_of
from bayesvm_studies.ranks import Comparison, compare
from bayesvm_studies.result import Result
from bayesvm_studies.roster import MULTI_CLASS, PAPER_EPOCHS, contestants

MAIN_MODELS = (MULTI_CLASS, "one_vs_rest", "svgp")
# Wistuba and Rawat (2018), Table 1.
PUBLISHED_RANKS = {MULTI_CLASS: 1.68, "one_vs_rest": 1.96, "svgp": 2.33}


@dataclass(frozen=True)
class PaperSet:
    """One set: accuracies (NaN where a fit failed) and seconds of training by model."""

    name: str
    rows: int
    accuracy: dict[str, float]
    fit_s: dict[str, float]
    setting: Setting
    shortened: bool
    missing: tuple[str, ...]
    failed: dict[str, str]


@dataclass(frozen=True)
class PaperSummary:
    """All sets, and the models compared on those where none of the three is missing."""

    sets: list[PaperSet]
    ranks: Comparison

    @property
    def complete(self) -> list[PaperSet]:
        """Sets on which all three models ran."""
        return [s for s in self.sets if not set(s.missing) & set(MAIN_MODELS)]

    def fastest_on(self, *rivals: str) -> int:
        """Sets on which the multi-class model needed the least time; who failed was not faster."""
        return sum(
            all(s.fit_s[MULTI_CLASS] <= s.fit_s.get(r, np.inf) for r in rivals)
            for s in self.complete
            if MULTI_CLASS in s.fit_s
        )

    def time_ratio(self, model: str, over: str) -> float:
        """Geometric mean over the sets of one training time over another."""
        logs = [np.log(s.fit_s[model] / s.fit_s[over]) for s in self.sets if {model, over} <= set(s.fit_s)]
        return float(np.exp(np.mean(logs))) if logs else float("nan")

    def mean_accuracy(self) -> dict[str, float]:
        """Means over the sets on which every model that ran at all has a score."""
        models = [m for m in contestants("paper") if any(m in s.accuracy for s in self.sets)]
        common = [s for s in self.sets if all(np.isfinite(s.accuracy.get(m, np.nan)) for m in models)]
        return {m: float(np.mean([s.accuracy[m] for s in common])) for m in models if common}

    def as_dict(self) -> dict[str, Any]:
        """The summary as plain numbers."""
        return {
            "mean_rank": self.ranks.as_dict(),
            "mean_rank_published": PUBLISHED_RANKS,
            "friedman_p": self.ranks.p_value,
            "critical_difference": self.ranks.critical_difference,
            "fastest_on": self.fastest_on(*MAIN_MODELS),
            "fastest_on_batched_too": self.fastest_on(*MAIN_MODELS, "one_vs_rest_batched"),
            "default_over_paper_time": self.time_ratio("default", MULTI_CLASS),
            "one_vs_rest_over_multi_class_time": self.time_ratio("one_vs_rest", MULTI_CLASS),
            "svgp_over_multi_class_time": self.time_ratio("svgp", MULTI_CLASS),
            "mean_accuracy": self.mean_accuracy(),
            "n_sets": len(self.complete),
            "shortened": {s.name: s.setting.epochs for s in self.sets if s.shortened},
            "missing": {s.name: list(s.missing) for s in self.sets if s.missing},
            "not_run": not_run("paper", [s.name for s in self.sets]),
            "failed": {s.name: s.failed for s in self.sets if s.failed},
        }


def summarise_paper(results: Iterable[Result]) -> PaperSummary:
    """Put the results of the paper's protocol together."""
    mine = [r for r in results if r.protocol == "paper"]
    settings = paper_setting(mine, MAIN_MODELS)
    expected = {r.model for r in mine} | set(MAIN_MODELS)
    sets = []
    for name in dict.fromkeys(r.data for r in mine):
        setting = settings.get(name)
        fits = newest(r for r in mine if r.data == name and _same(setting_of(r), setting))
        by_model = {model: r for (_, _, model), r in fits.items()}
        sets.append(_one_set(name, by_model, setting, expected))
    sets.sort(key=lambda s: (s.rows, s.name))
    table = PaperSummary(sets, compare(list(MAIN_MODELS), np.empty((0, len(MAIN_MODELS)))))
    scores = [[-s.accuracy.get(m, np.nan) for m in MAIN_MODELS] for s in table.complete]
    return PaperSummary(sets, compare(list(MAIN_MODELS), np.array(scores).reshape(-1, len(MAIN_MODELS))))


def _same(fit: Setting, wanted: Setting | None) -> bool:
    """Whether a fit's times can stand beside those of the setting; other recipes have no epochs."""
    if wanted is None:
        return True
    return fit[:2] == wanted[:2] and fit.epochs in (None, wanted.epochs)


def _one_set(
    name: str, fits: dict[str, Result], setting: Setting | None, expected: Iterable[str]
) -> PaperSet:
    scored = {model: r for model, r in fits.items() if r.ok}
    return PaperSet(
        name=name,
        rows=max((r.n_train + r.n_test for r in fits.values()), default=0),
        accuracy={m: scored[m].correct / scored[m].n_test if m in scored else np.nan for m in fits},
        fit_s={model: r.fit_s for model, r in scored.items()},
        setting=setting or Setting("", "", None),
        shortened=setting is not None and setting.epochs not in (None, PAPER_EPOCHS),
        missing=tuple(sorted(set(expected) - set(fits))),
        failed={model: r.error or r.status for model, r in fits.items() if not r.ok},
    )
