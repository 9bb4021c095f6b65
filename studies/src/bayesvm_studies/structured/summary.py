"""Both protocols recomputed from raw results: ranks, accuracies, calibration and times."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bayesvm_studies.datasets import find_set, fully_published, published_accuracies
from bayesvm_studies.page import about_runs
from bayesvm_studies.results import Result, rounded
from bayesvm_studies.statistics import Comparison, Pooled, compare, newest, pool
from bayesvm_studies.structured.contestants import MULTI_CLASS, OLSON_FOLDS, PAPER_EPOCHS, contestants
from bayesvm_studies.structured.plan import SMALL_ROWS, chosen_sets


class Setting(NamedTuple):
    """Where and how long the paper's recipe ran; times of different settings cannot be compared."""

    machine: str
    device: str
    epochs: int | None


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
        sets.append(_paper_set(name, by_model, setting, expected))
    sets.sort(key=lambda s: (s.rows, s.name))
    table = PaperSummary(sets, compare(list(MAIN_MODELS), np.empty((0, len(MAIN_MODELS)))))
    scores = [[-s.accuracy.get(m, np.nan) for m in MAIN_MODELS] for s in table.complete]
    return PaperSummary(sets, compare(list(MAIN_MODELS), np.array(scores).reshape(-1, len(MAIN_MODELS))))


def _same(fit: Setting, wanted: Setting | None) -> bool:
    """Whether a fit's times can stand beside those of the setting; other recipes have no epochs."""
    if wanted is None:
        return True
    return fit[:2] == wanted[:2] and fit.epochs in (None, wanted.epochs)


def _paper_set(
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


OURS = "bayesvm"
ECE_ROWS = 1000
# A model that lacks more sets than this is compared apart: ranks of the others
# would otherwise be about the few sets that it has.
_FEW_SETS = 5
Score = Callable[[Pooled], float]


@dataclass(frozen=True)
class OlsonSet:
    """One set: pooled scores by model, and what is not there.

    Attributes
    ----------
    name : str
    rows : int
    folds : int
        Folds that were run.
    scores : dict of str to Pooled
    fit_s, predict_s, peak_mb : dict of str to float
        Means over the folds.
    missing : dict of str to int
        Folds that a model lacks, of those run.
    failed : dict of str to str
        Models with a fold that failed or took too long, and why.
    """

    name: str
    rows: int
    folds: int
    scores: dict[str, Pooled]
    fit_s: dict[str, float]
    predict_s: dict[str, float]
    peak_mb: dict[str, float]
    missing: dict[str, int]
    failed: dict[str, str]


@dataclass(frozen=True)
class OlsonSummary:
    """All sets.

    Attributes
    ----------
    sets : list of OlsonSet
    models : list of str
        Those that were run on all sets, or lack few.
    limited : list of str
        Those that take part on sets up to 5,000 rows, or were run on some sets only.
    suite_minutes : float
        Wall-clock time in which fits of BayesianSVC were running.
    suite_jobs : int
        Processes that ran side by side meanwhile.
    """

    sets: list[OlsonSet]
    models: list[str]
    limited: list[str]
    suite_minutes: float
    suite_jobs: int

    @property
    def whole(self) -> list[OlsonSet]:
        """Sets with as many folds as any."""
        most = max((s.folds for s in self.sets), default=0)
        return [s for s in self.sets if s.folds == most]

    def complete(self, models: Sequence[str]) -> list[OlsonSet]:
        """Whole sets on which no fold of these models is missing and which all of them take."""
        known = contestants("olson")
        return [
            s
            for s in self.whole
            if not set(s.missing) & set(models)
            and all((info := find_set(s.name)) is not None and known[m].takes(info) for m in models)
        ]

    def ranks(self, score: Score, models: Sequence[str] | None = None) -> Comparison:
        """Models compared by a score, lower is better."""
        models = list(self.models if models is None else models)
        table = [
            [score(s.scores[m]) if m in s.scores else np.nan for m in models] for s in self.complete(models)
        ]
        return compare(models, np.array(table).reshape(len(table), len(models)))

    def ranks_with_published(self) -> Comparison:
        """By accuracy among our runs and the published single configurations, on the sets that have all."""
        published = published_accuracies()
        theirs = sorted(c for c in next(iter(published.values())) if c.endswith("_single"))
        sets = [s for s in self.complete(self.models) if s.name in fully_published()]
        table = [
            [
                # Three decimals are what is published: ours are rounded alike, so that ties are ties.
                *(-round(s.scores[m].accuracy, 3) if m in s.scores else np.nan for m in self.models),
                *(-published[s.name][c] for c in theirs),
            ]
            for s in sets
        ]
        names = [*self.models, *(f"published_{c}" for c in theirs)]
        return compare(names, np.array(table).reshape(len(table), len(names)))

    def mean_accuracy(self) -> dict[str, float]:
        """Means over the fully published whole sets that each model finished."""
        return self._means(lambda p: p.accuracy, lambda s: s.name in fully_published())

    def mean_published(self) -> dict[str, float]:
        """Means of the published accuracies over those of these sets that BayesianSVC finished."""
        published = published_accuracies()
        names = [s.name for s in self.whole if s.name in fully_published() and OURS in s.scores]
        if not names:
            return {}
        return {c: float(np.mean([published[n][c] for n in names])) for c in published[names[0]]}

    def mean_ece(self) -> dict[str, float]:
        """Means over the sets with at least 1,000 rows that each model finished."""
        return self._means(lambda p: p.ece, lambda s: s.rows >= ECE_ROWS)

    def _means(self, score: Score, wanted: Callable[[OlsonSet], bool]) -> dict[str, float]:
        found = {
            m: [score(s.scores[m]) for s in self.whole if wanted(s) and m in s.scores]
            for m in (*self.models, *self.limited)
        }
        return {m: float(np.mean(values)) for m, values in found.items() if values}

    def _on_small_sets(self) -> list[str]:
        """Models that ran on every set up to 1,500 rows."""
        small = [s for s in self.whole if s.rows <= SMALL_ROWS]
        return [m for m in (*self.models, *self.limited) if not any(m in s.missing for s in small)]

    def _compared(self, models: Sequence[str]) -> dict[str, Any]:
        """Ranks of some models on the sets that all of them finished."""
        return {
            "mean_rank": self.ranks(_accuracy, models).as_dict(),
            "log_loss_rank": self.ranks(_log_loss, models).as_dict(),
            "n_sets": len(self.complete(models)),
        }

    def as_dict(self) -> dict[str, Any]:
        """The summary as plain numbers."""
        accuracy, log_loss = self.ranks(_accuracy), self.ranks(_log_loss)
        large = {s.name: s.scores[OURS].ece for s in self.whole if s.rows >= ECE_ROWS and OURS in s.scores}
        every = [*self.models, *self.limited]
        published = self.ranks_with_published()
        ece = self.mean_ece()
        return {
            "mean_accuracy": self.mean_accuracy(),
            "mean_accuracy_n_sets": {
                m: sum(s.name in fully_published() and m in s.scores for s in self.whole) for m in every
            },
            "mean_accuracy_published": self.mean_published(),
            "mean_rank": accuracy.as_dict(),
            "mean_rank_with_published": published.as_dict(),
            "log_loss_rank": log_loss.as_dict(),
            "brier_rank": self.ranks(lambda p: p.brier).as_dict(),
            "friedman_p": accuracy.p_value,
            "critical_difference": accuracy.critical_difference,
            "n_sets": accuracy.n_sets,
            "n_sets_with_published": published.n_sets,
            "ece": ece.get(OURS, float("nan")),
            "ece_per_model": ece,
            "ece_n_sets": len(large),
            "ece_over_.03": {name: round(value, 4) for name, value in large.items() if value >= 0.03},
            "small_sets": self._compared(self._on_small_sets()),
            "every_model": self._compared(every),
            "fewer_folds": {s.name: s.folds for s in self.sets if s.folds < OLSON_FOLDS},
            "missing": {s.name: s.missing for s in self.sets if s.missing},
            "not_run": not_run("olson", [s.name for s in self.sets]),
            "failed": {s.name: s.failed for s in self.sets if s.failed},
        }


def _accuracy(pooled: Pooled) -> float:
    return -pooled.accuracy


def _log_loss(pooled: Pooled) -> float:
    return pooled.log_loss


def summarise_olson(results: Iterable[Result]) -> OlsonSummary:
    """Put the results of Olson's protocol together."""
    fits = newest(r for r in results if r.protocol == "olson")
    grouped: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for (data, _, model), result in fits.items():
        grouped[data][model].append(result)
    ran = {model for (_, _, model) in fits}
    known = {name: c for name, c in contestants("olson").items() if name in ran}
    sets = [_olson_set(data, models, known) for data, models in grouped.items()]
    sets.sort(key=lambda s: (s.rows, s.name))
    lacks = {name: sum(name in s.missing for s in sets) for name in known}
    whole = [m for m, c in known.items() if c.max_rows is None]
    wide = [m for m in whole if lacks[m] <= min(lacks.values()) + _FEW_SETS]
    if len(wide) < 2:  # nobody to compare it with
        wide = whole
    ours = [r for r in fits.values() if r.model == OURS]
    return OlsonSummary(
        sets=sets,
        models=wide,
        limited=[name for name in known if name not in wide],
        suite_minutes=_minutes(ours),
        suite_jobs=max((r.jobs for r in ours), default=0),
    )


def _olson_set(data: str, models: dict[str, list[Result]], known: dict[str, Any]) -> OlsonSet:
    folds = {r.split for results in models.values() for r in results}
    info = find_set(data)
    takes = [name for name, c in known.items() if info is None or c.takes(info)]
    lacking = {m: len(folds - {r.split for r in models.get(m, [])}) for m in takes}
    whole = {
        m: results for m, results in models.items() if lacking.get(m) == 0 and all(r.ok for r in results)
    }
    bad = {m: [r for r in results if not r.ok] for m, results in models.items()}
    return OlsonSet(
        name=data,
        rows=0 if info is None else info.rows,
        folds=len(folds),
        scores={m: pool(results) for m, results in whole.items()},
        fit_s={m: _mean(r.fit_s for r in results) for m, results in whole.items()},
        predict_s={m: _mean(r.predict_s for r in results) for m, results in whole.items()},
        peak_mb={m: _mean(r.peak_mb or np.nan for r in results) for m, results in whole.items()},
        missing={m: n for m, n in lacking.items() if n},
        failed={
            m: f"{rs[0].error or rs[0].status} ({len(rs)} of {len(folds)})" for m, rs in bad.items() if rs
        },
    )


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _minutes(results: Sequence[Result]) -> float:
    """Time in which at least one of these fits was running; fits side by side count once."""
    covered, end = 0.0, 0.0
    for start, stop in sorted((r.started, r.started + r.total_s) for r in results):
        covered += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return covered / 60.0


@dataclass(frozen=True)
class Summary:
    """Both protocols, and what ran where."""

    paper: PaperSummary
    olson: OlsonSummary
    results: tuple[Result, ...]

    @property
    def versions(self) -> dict[str, list[str]]:
        """Versions of bayesvm that the results of its models were made with, by protocol."""
        found: dict[str, set[str]] = {}
        for r in self.results:
            if "bayesvm" in r.versions:
                found.setdefault(r.protocol, set()).add(r.versions["bayesvm"])
        return {protocol: sorted(versions) for protocol, versions in found.items()}

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON can hold it; what is not known is null."""
        described = {
            "paper": self.paper.as_dict(),
            "olson": self.olson.as_dict(),
            "suite_minutes": self.olson.suite_minutes,
            "suite_jobs": self.olson.suite_jobs,
            "suite_sets": sum(OURS in s.scores for s in self.olson.sets),
            "n_fits": len(self.results),
            **about_runs(self.results),
            "versions": self.versions,
        }
        return dict(rounded(described))


def summarise(results: Sequence[Result]) -> Summary:
    """Put raw results together."""
    return Summary(summarise_paper(results), summarise_olson(results), tuple(results))
