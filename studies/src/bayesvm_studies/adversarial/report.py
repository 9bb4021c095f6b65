"""Tables, figures and page of the study of adversarial images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from bayesvm_studies.adversarial.plan import (
    ATTACK_PASSES,
    ATTACKS,
    COMBINED,
    FITTED_AT,
    FPR,
    SQUEEZED,
    VICTIMS,
    score_title,
)
from bayesvm_studies.adversarial.summary import (
    NEGATIVES,
    OURS,
    POSITIVES,
    SECTIONS,
    AdversarialSummary,
    Attacked,
    Goal,
    goals,
    summarise_adversarial,
)
from bayesvm_studies.figures import Counts, Curve, Panel, curves_figure, histograms_figure
from bayesvm_studies.images.arrays import HELD_OUT
from bayesvm_studies.images.plan import GROUPS, title_of
from bayesvm_studies.page import SHORTENED, Cell, Drawing, Line, Report, Table, many, number
from bayesvm_studies.results import Result, csv_of

_OWN = (OURS, "bayesvm_adam")


def score_table(attacked: Attacked) -> Table:
    """Area under the ROC curve of every score at every strength, against clean and noisy images."""
    heads = [f"ε = {e:g}" for e in attacked.epsilons]
    values = {s: [attacked.auc(s, e) for e in attacked.epsilons] for s in attacked.scores}
    best = [max(v[k] for v in values.values()) for k in range(len(heads))]
    lines = []
    for score, found in values.items():
        cells = [
            Cell(number(v, 3), v == best[k], f"{number(attacked.auc(score, e, 'noisy'), 3)} vs noise")
            for k, (v, e) in enumerate(zip(found, attacked.epsilons, strict=True))
        ]
        lines.append(Line(score_title(score), cells, ours=score in (COMBINED, SQUEEZED)))
    return Table(heads, lines)


def victim_table(summary: AdversarialSummary, group: str, attack: str = "fgsm") -> Table:
    """Of every model: accuracy, and areas of log variation ratio and both detectors, at every strength."""
    victims = summary.victims(group, attack)
    strengths = victims[0].epsilons if victims else []
    lines = []
    for a in victims:
        cells = [Cell(number(a.accuracy(0.0), 3))]
        for e in strengths:
            areas = (number(a.auc(s, e), 3) for s in ("log_variation_ratio", COMBINED, SQUEEZED))
            cells.append(Cell(number(a.accuracy(e), 3), small=" / ".join(areas)))
        n = len(a.results)
        seeds = "all seeds as one" if VICTIMS[a.victim].together else many(n, "seed")
        lines.append(Line(title_of(a.victim), cells, seeds, a.victim in _OWN))
    return Table(["clean", *(f"ε = {e:g}" for e in strengths)], lines)


def attack_table(summary: AdversarialSummary, group: str) -> Table:
    """Our model under every attack: accuracy, area and true positives of the combined detector."""
    found = [a for a in (summary.of(group, OURS, attack) for attack in ATTACKS) if a is not None]
    strengths = found[0].epsilons if found else []
    rows: list[tuple[str, Callable[[Attacked, float], float]]] = [
        ("accuracy", lambda a, e: a.accuracy(e)),
        ("AUC, log variation ratio", lambda a, e: a.auc("log_variation_ratio", e)),
        ("AUC, combined", lambda a, e: a.auc(COMBINED, e)),
        ("AUC, with squeezing", lambda a, e: a.auc(SQUEEZED, e)),
        ("AUC, with squeezing, successful", lambda a, e: a.auc(SQUEEZED, e, positives="successful")),
        ("found at 5 %, with squeezing", lambda a, e: a.tpr(SQUEEZED, e)),
    ]
    lines = [
        Line(
            ATTACKS[a.attack].title,
            [Cell(number(of(a, e), 3)) for e in strengths],
            what,
            what == "AUC, with squeezing",
        )
        for a in found
        for what, of in rows
    ]
    return Table([f"ε = {e:g}" for e in strengths], lines)


def detection_csv(attacked: Sequence[Attacked]) -> str:
    """A row for each model, seed, attack, strength, kind of negatives and positives, and score."""
    rows: list[dict[str, Any]] = []
    for a in attacked:
        for r in a.results:
            for epsilon in a.epsilons:
                known = r.extra["by_epsilon"][f"{epsilon:g}"]
                for negatives in NEGATIVES:
                    for positives in POSITIVES:
                        auc, tpr = known["auc"][negatives][positives], known["tpr"][negatives][positives]
                        rows += [
                            {
                                "network": a.group,
                                "model": a.victim,
                                "seed": r.split,
                                "attack": a.attack,
                                "epsilon": epsilon,
                                "n": known["n"],
                                "accuracy": known["correct"] / known["n"],
                                "variation_ratio": known["variation_ratio"],
                                "negatives": negatives,
                                "positives": positives,
                                "score": score,
                                "auc": auc[score],
                                "tpr_at_5_fpr": tpr[score],
                            }
                            for score in auc
                        ]
    return csv_of(rows)


_EPSILON = "Strength ε"
_AUC = "Area under the ROC curve"
_KINDS = {"clean": "clean", "noisy": "noisy", "attacked": "attacked"}
# The measure that the paper draws: the variation ratio, ordered where it underflows.
_PAPER_SCORE = "log_variation_ratio"
Numbers = Callable[[Attacked, dict[str, Any]], float | None]


def adversarial_drawings(summary: AdversarialSummary) -> dict[str, Drawing]:
    """Figures for which there are results."""
    found: dict[str, Drawing] = {}
    for group in summary.groups:
        victims = summary.victims(group)
        if victims:
            found[f"{group}_paper"] = _as_the_paper(group, victims)
            found[f"{group}_tpr"] = _true_positives(group, victims)
        ours = summary.of(group, OURS)
        if ours is not None:
            found[f"{group}_scores"] = _by_score(group, ours)
            if any("histograms" in e for e in ours.results[0].extra["by_epsilon"].values()):
                found[f"{group}_histograms"] = _histograms(group, ours)
        attacks = [a for a in (summary.of(group, OURS, attack) for attack in ATTACKS) if a is not None]
        if len(attacks) > 1:
            found[f"{group}_attacks"] = _by_attack(group, attacks)
    return found


def _curves(
    attacked: Attacked, of: Callable[[dict[str, Any]], float | None], start: bool = False
) -> list[Curve]:
    """A line per seed, with ``start`` from the clean images on."""
    strengths = [0.0, *attacked.epsilons] if start else attacked.epsilons
    curves = []
    for r in attacked.results:
        values = [of(r.extra["clean"] if e == 0.0 else r.extra["by_epsilon"][f"{e:g}"]) for e in strengths]
        curves.append(Curve(strengths, [float("nan") if v is None else v for v in values]))
    return curves


def _auc(
    score: str, negatives: str = "clean", positives: str = "all", what: str = "auc"
) -> Callable[[Any], Any]:
    return lambda e: e[what][negatives][positives].get(score)


def _as_the_paper(group: str, victims: Sequence[Attacked]) -> Drawing:
    panels = [
        Panel(
            _EPSILON,
            "Accuracy",
            {title_of(a.victim): _curves(a, lambda e: e["correct"] / e["n"], True) for a in victims},
        ),
        Panel(
            _EPSILON,
            "Mean variation ratio",
            {title_of(a.victim): _curves(a, lambda e: e["variation_ratio"], True) for a in victims},
        ),
        Panel(_EPSILON, _AUC, {title_of(a.victim): _curves(a, _auc(_PAPER_SCORE)) for a in victims}),
    ]
    words = "accuracy, mean variation ratio and ROC-AUC of the variation ratio against the strength of FGSM"
    return Drawing(partial(curves_figure, panels), f"{GROUPS[group].title}: {words}.")


def _true_positives(group: str, victims: Sequence[Attacked]) -> Drawing:
    panels = [
        Panel(
            _EPSILON,
            "True positives",
            {title_of(a.victim): _curves(a, _auc(score, what="tpr")) for a in victims if score in a.scores},
            score_title(score),
        )
        for score in (_PAPER_SCORE, COMBINED, SQUEEZED)
    ]
    words = "share of attacked images that are found at five per cent of false alarms"
    return Drawing(partial(curves_figure, panels), f"{GROUPS[group].title}: {words}.")


def _by_score(group: str, ours: Attacked) -> Drawing:
    panels = [
        Panel(
            _EPSILON,
            _AUC,
            {score_title(s): _curves(ours, _auc(s, negatives, positives)) for s in ours.scores},
            title,
        )
        for negatives, positives, title in (
            ("clean", "all", "Against clean images"),
            ("noisy", "all", "Against noisy images of the same norm"),
            ("clean", "successful", "Successful attacks against clean images"),
        )
    ]
    words = f"ROC-AUC of every score of {title_of(OURS)} against the strength of FGSM"
    return Drawing(partial(curves_figure, panels), f"{GROUPS[group].title}: {words}.")


def _by_attack(group: str, attacks: Sequence[Attacked]) -> Drawing:
    def titled(of: Callable[[Any], Any], start: bool = False) -> dict[str, list[Curve]]:
        return {ATTACKS[a.attack].title: _curves(a, of, start) for a in attacks}

    panels = [
        Panel(_EPSILON, "Accuracy", titled(lambda e: e["correct"] / e["n"], True)),
        *(Panel(_EPSILON, _AUC, titled(_auc(s)), score_title(s)) for s in (_PAPER_SCORE, COMBINED, SQUEEZED)),
    ]
    words = f"accuracy and ROC-AUC of {title_of(OURS)} under every attack"
    return Drawing(partial(curves_figure, panels), f"{GROUPS[group].title}: {words}.")


def _histograms(group: str, ours: Attacked) -> Drawing:
    first = ours.results[0].extra["by_epsilon"]
    panels = []
    for epsilon in ours.epsilons:
        kept = first[f"{epsilon:g}"].get("histograms", {}).get(_PAPER_SCORE)
        if kept is not None:
            counts = {title: kept[kind] for kind, title in _KINDS.items()}
            panels.append(Counts(f"ε = {epsilon:g}", kept["edges"], counts))
    words = "log variation ratio of clean, noisy and attacked images at every strength of FGSM, first seed"
    return Drawing(
        partial(histograms_figure, panels, "Log variation ratio"), f"{GROUPS[group].title}: {words}."
    )


def report(results: Sequence[Result]) -> Report:
    """What the results say."""
    summary = summarise_adversarial(results)
    numbers = summary.as_dict()
    context, table = partial(_context, summary), partial(detection_csv, list(summary.attacked.values()))
    return Report(numbers, _facts(numbers), adversarial_drawings(summary), "adversarial.html", context, table)


def _context(summary: AdversarialSummary, _: Mapping[str, str]) -> dict[str, Any]:
    groups = summary.groups
    reached = goals(summary)
    contents = [(group, GROUPS[group].title) for group in groups]
    if reached:
        contents.insert(0, ("goals", "What was to be reached"))
    contents += [("gaps", "What is missing or failed"), ("method", "How it was measured")]
    ours = {group: summary.of(group, OURS) for group in groups}
    return {
        "contents": contents,
        "key_figures": [(f"{goal.squeezed:.3f}", _words(goal)) for goal in reached],
        "goals": [(goal, _words(goal)) for goal in reached],
        "groups": groups,
        "own": title_of(OURS),
        "paper_says": {"mnist": _PAPER_MNIST, "cifar10": _PAPER_CIFAR10},
        "scores": {group: score_table(found) for group, found in ours.items() if found is not None},
        "victims": {group: victim_table(summary, group) for group in groups},
        "under_pgd": {group: victim_table(summary, group, "pgd") for group in groups},
        "attacks": {group: attack_table(summary, group) for group in groups},
        "fitted_at": {g: ", ".join(f"{e:g}" for e in FITTED_AT[GROUPS[g].data]) for g in groups},
        "attack_rows": ATTACKS["pgd"].rows,
        "attack_passes": ATTACK_PASSES,
        "held_out": HELD_OUT,
        "fpr": FPR,
    }


_PAPER_MNIST = "The paper reports an area under the ROC curve of almost 1 on MNIST."
_PAPER_CIFAR10 = (
    "The paper saw a weak attack cut the accuracy on CIFAR-10 to 1.16 %, and detection that was poor and "
    "fell with the strength of the attack, still better than random at the strongest."
)


def _words(goal: Goal) -> str:
    within = f"{goal.from_epsilon:g} ≤ ε ≤ {goal.to_epsilon:g}"
    return (
        f"lowest area under the ROC curve for {within} (to reach: {goal.least:.2f}); combined detector with "
        f"squeezing {goal.squeezed:.3f}, without {goal.combined:.3f}, log variation ratio alone "
        f"{goal.variation_ratio:.3f}: {GROUPS[SECTIONS[goal.section]].title}"
    )


def _facts(numbers: dict[str, Any]) -> list[tuple[str, ...]]:
    """The most important numbers as lines for the terminal."""
    rows: list[tuple[str, ...]] = [("runs", str(numbers["n_runs"]))]
    for section in SECTIONS:
        for score in ("log_variation_ratio", COMBINED, SQUEEZED):
            if found := numbers[section]["auc"].get(score, {}):
                rows.append((f"{section}: AUC {score}", _by_strength(found)))
        for attack in ("adaptive", "mimic"):
            if found := numbers[attack]["auc"][section].get(SQUEEZED, {}):
                rows.append((f"{section}: {attack}, squeezed", _by_strength(found)))
    for goal in numbers["goals"]:
        within = f"{goal['from_epsilon']:g} to {goal['to_epsilon']:g}"
        said = "reached" if goal["reached"] else "not reached"
        areas = ", ".join(f"{name} {_area(goal[name])}" for name in (SQUEEZED, COMBINED))
        rows.append((f"goal: {goal['section']} {within}", f"{areas} of {goal['least']:g}, {said}"))
    rows += [("failed", text) for text in numbers["failed"]]
    if numbers["shortened"]:
        rows.append(("note", SHORTENED))
    return rows + [("note", str(note)) for note in numbers["notes"]]


def _by_strength(areas: dict[str, float | None]) -> str:
    return ", ".join(f"{_area(area)} at {epsilon}" for epsilon, area in areas.items())


def _area(value: float | None) -> str:
    return "?" if value is None else f"{value:.3f}"
