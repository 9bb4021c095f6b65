"""All figures of the experiment by name, each with what it shows in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bayesvm_studies.adversarial.grid import (
    ATTACKS,
    COMBINED,
    SQUEEZED,
    network_of,
    score_title,
    victim_title,
)
from bayesvm_studies.adversarial.summary import OURS, AdversarialSummary, Attacked
from bayesvm_studies.figures.curves import Curve, Panel, curves_figure
from bayesvm_studies.figures.histograms import Counts, histograms_figure
from bayesvm_studies.rendering import Drawing

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
    """A line per seed, from the clean images on if wanted."""
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
            {victim_title(a.victim): _curves(a, lambda e: e["correct"] / e["n"], True) for a in victims},
        ),
        Panel(
            _EPSILON,
            "Mean variation ratio",
            {victim_title(a.victim): _curves(a, lambda e: e["variation_ratio"], True) for a in victims},
        ),
        Panel(_EPSILON, _AUC, {victim_title(a.victim): _curves(a, _auc(_PAPER_SCORE)) for a in victims}),
    ]
    words = "accuracy, mean variation ratio and ROC-AUC of the variation ratio against the strength of FGSM"
    return Drawing(lambda width: curves_figure(panels, width), f"{network_of(group)}: {words}.")


def _true_positives(group: str, victims: Sequence[Attacked]) -> Drawing:
    panels = [
        Panel(
            _EPSILON,
            "True positives",
            {
                victim_title(a.victim): _curves(a, _auc(score, what="tpr"))
                for a in victims
                if score in a.scores
            },
            score_title(score),
        )
        for score in (_PAPER_SCORE, COMBINED, SQUEEZED)
    ]
    words = "share of attacked images that are found at five per cent of false alarms"
    return Drawing(lambda width: curves_figure(panels, width), f"{network_of(group)}: {words}.")


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
    words = f"ROC-AUC of every score of {victim_title(OURS)} against the strength of FGSM"
    return Drawing(lambda width: curves_figure(panels, width), f"{network_of(group)}: {words}.")


def _by_attack(group: str, attacks: Sequence[Attacked]) -> Drawing:
    def titled(of: Callable[[Any], Any], start: bool = False) -> dict[str, list[Curve]]:
        return {ATTACKS[a.attack].title: _curves(a, of, start) for a in attacks}

    panels = [
        Panel(_EPSILON, "Accuracy", titled(lambda e: e["correct"] / e["n"], True)),
        *(Panel(_EPSILON, _AUC, titled(_auc(s)), score_title(s)) for s in (_PAPER_SCORE, COMBINED, SQUEEZED)),
    ]
    words = f"accuracy and ROC-AUC of {victim_title(OURS)} under every attack"
    return Drawing(lambda width: curves_figure(panels, width), f"{network_of(group)}: {words}.")


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
        lambda width: histograms_figure(panels, "Log variation ratio", width),
        f"{network_of(group)}: {words}.",
    )
