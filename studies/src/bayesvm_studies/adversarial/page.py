"""One HTML file from a summary of the experiment on adversarial images."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bayesvm_studies.adversarial.drawings import adversarial_drawings
from bayesvm_studies.adversarial.grid import ATTACK_PASSES, ATTACKS, FITTED_AT, FPR, network_of, victim_title
from bayesvm_studies.adversarial.page_tables import attack_table, score_table, victim_table
from bayesvm_studies.adversarial.summary import OURS, SECTIONS, AdversarialSummary, Goal, goals
from bayesvm_studies.images.recipes import GROUPS, HELD_OUT
from bayesvm_studies.rendering import inline_figures, render_page, save_drawings


def write_adversarial_page(summary: AdversarialSummary, path: str | os.PathLike[str]) -> Path:
    """Write the page; never half-written.

    Parameters
    ----------
    summary : AdversarialSummary
    path : path-like
    """
    return render_page("adversarial.html", _context(summary), path)


def save_adversarial_figures(summary: AdversarialSummary, folder: str | os.PathLike[str]) -> list[Path]:
    """Write every figure as SVG and as PNG."""
    return save_drawings(adversarial_drawings(summary), folder)


def _context(summary: AdversarialSummary) -> dict[str, Any]:
    groups = summary.groups
    reached = goals(summary)
    contents = [(group, network_of(group)) for group in groups]
    if reached:
        contents.insert(0, ("goals", "What was to be reached"))
    contents += [("gaps", "What is missing or failed"), ("method", "How it was measured")]
    ours = {group: summary.of(group, OURS) for group in groups}
    return {
        "contents": contents,
        "figures": inline_figures(adversarial_drawings(summary)),
        "numbers": summary.as_dict(),
        "key_figures": [(f"{goal.squeezed:.3f}", _words(goal)) for goal in reached],
        "notes": summary.notes,
        "goals": [(goal, _words(goal)) for goal in reached],
        "groups": groups,
        "own": victim_title(OURS),
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
        f"{goal.variation_ratio:.3f}: {network_of(SECTIONS[goal.section])}"
    )
