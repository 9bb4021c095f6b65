"""The tables of the page: every score at every strength, all models, and all attacks."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bayesvm_studies.adversarial.grid import ATTACKS, COMBINED, SQUEEZED, VICTIMS, score_title, victim_title
from bayesvm_studies.adversarial.summary import NEGATIVES, OURS, POSITIVES, AdversarialSummary, Attacked
from bayesvm_studies.page_tables import Cell, Line, Table

_OWN = (OURS, "bayesvm_adam")


def score_table(attacked: Attacked) -> Table:
    """Area under the ROC curve of every score at every strength, against clean and noisy images."""
    heads = [f"ε = {e:g}" for e in attacked.epsilons]
    values = {s: [attacked.auc(s, e) for e in attacked.epsilons] for s in attacked.scores}
    best = [max(v[k] for v in values.values()) for k in range(len(heads))]
    lines = []
    for score, found in values.items():
        cells = [
            Cell(_number(v), v == best[k], f"{_number(attacked.auc(score, e, 'noisy'))} vs noise")
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
        cells = [Cell(_number(a.accuracy(0.0)))]
        for e in strengths:
            areas = (_number(a.auc(s, e)) for s in ("log_variation_ratio", COMBINED, SQUEEZED))
            cells.append(Cell(_number(a.accuracy(e)), small=" / ".join(areas)))
        n = len(a.results)
        seeds = "all seeds as one" if VICTIMS[a.victim].together else f"{n} seed{'s' if n > 1 else ''}"
        lines.append(Line(victim_title(a.victim), cells, seeds, a.victim in _OWN))
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
            [Cell(_number(of(a, e))) for e in strengths],
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
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _number(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "–"
