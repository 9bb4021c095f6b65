"""One HTML file from a summary of the experiment on images."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bayesvm_studies.images.drawings import image_drawings
from bayesvm_studies.images.page_tables import clock_table, group_table, ood_table
from bayesvm_studies.images.recipes import GROUPS, HELD_OUT, N_INDUCING, WARMUP_EPOCHS
from bayesvm_studies.images.summary import ImageSummary
from bayesvm_studies.rendering import inline_figures, render_page, save_drawings


def write_image_page(summary: ImageSummary, path: str | os.PathLike[str]) -> Path:
    """Write the page; never half-written.

    Parameters
    ----------
    summary : ImageSummary
    path : path-like
    """
    return render_page("images.html", _context(summary), path)


def save_image_figures(summary: ImageSummary, folder: str | os.PathLike[str]) -> list[Path]:
    """Write every figure as SVG and as PNG."""
    return save_drawings(image_drawings(summary), folder)


def _context(summary: ImageSummary) -> dict[str, Any]:
    numbers = summary.as_dict()
    groups = {name: group for name, group in summary.groups.items() if group.models or group.failed}
    contents = [(name, GROUPS[name].title) for name in groups]
    if summary.warmups:
        contents.append(("warmup", "Does a warm-up of the divergence help?"))
    if summary.clocks:
        contents.append(("timing", "What the head costs"))
    contents += [("gaps", "What is missing or failed"), ("method", "How it was measured")]
    return {
        "contents": contents,
        "figures": inline_figures(image_drawings(summary)),
        "numbers": numbers,
        "key_figures": _key_figures(numbers),
        "notes": summary.notes,
        "groups": groups,
        "recipes": {name: _recipe_words(name) for name in groups},
        "tables": {name: group_table(summary, group) for name, group in groups.items()},
        "oods": {name: ood_table(group) for name, group in groups.items()},
        "warmups": sorted(summary.warmups),
        "warmup_epochs": WARMUP_EPOCHS,
        "clocks": clock_table(summary),
        "failed_elsewhere": [
            f"{r.protocol} {r.data} {r.model}: {r.error}"
            for r in summary.results
            if not r.ok and r.protocol in ("warmup", "timing")
        ],
        "shared_by": max((r.jobs for r in summary.results if r.protocol in GROUPS), default=1),
        "held_out": HELD_OUT,
        "n_inducing": N_INDUCING,
    }


def _key_figures(numbers: dict[str, Any]) -> list[tuple[str, str]]:
    """Numbers to remember and what they are."""
    found: list[tuple[str, str]] = []
    for name, group in GROUPS.items():
        accuracy = numbers[name]["accuracy"]
        if {"bayesvm", "softmax"} <= set(accuracy):
            words = f"test accuracy, softmax {100 * accuracy['softmax']:.2f} %: {group.title}"
            found.append((f"{100 * accuracy['bayesvm']:.2f} %", words))
    ratio = numbers["epoch_time_ratio"]["cifar10_residual"]
    if ratio is not None:
        found.append((f"{ratio:.2f}", "times the training time of a softmax layer, residual network"))
    return found


def _recipe_words(name: str) -> str:
    recipe = GROUPS[name].recipe
    words = [f"{recipe['epochs']} epochs of Adam at {recipe['rate']:g}", f"batches of {recipe['batch_size']}"]
    if recipe.get("schedule") == "one_cycle":
        words.append("one cycle")
    if "weight_decay" in recipe:
        words.append(f"weight decay {recipe['weight_decay']:g}")
    if GROUPS[name].augment:
        words.append("random crops, mirror images and holes")
    words.append("network in bf16" if recipe.get("precision") == "bf16" else "single precision")
    return ", ".join(words)
