"""All figures of the experiment on images by name, each with what it shows in words."""

from __future__ import annotations

import numpy as np

from bayesvm_studies.figures.curves import Curve, Panel, curves_figure
from bayesvm_studies.figures.reliability import Calibration, reliability_grid
from bayesvm_studies.images.evaluate import SCORES
from bayesvm_studies.images.recipes import GROUPS, OWN_HEADS, title_of
from bayesvm_studies.images.summary import TEMPERED, GroupSummary, ImageSummary, severities_of
from bayesvm_studies.rendering import Drawing
from bayesvm_studies.result import Result
from bayesvm_studies.scoring import reliability

# Models whose curves the paper has, and the one by which we train them better.
_FOLLOWED = ("softmax", *OWN_HEADS)
_SCORE_TITLES = {
    "entropy": "Entropy",
    "log_variation_ratio": "Log variation ratio",
    "mutual_information": "Mutual information",
    "largest_probability": "Largest probability",
}
_AUROC = "Area under the ROC curve"


def image_drawings(summary: ImageSummary) -> dict[str, Drawing]:
    """Figures for which there are results."""
    found: dict[str, Drawing] = {}
    for name, group in summary.groups.items():
        if any(model in group.curves for model in _FOLLOWED):
            found[f"{name}_accuracy"] = _accuracy(summary, group)
            found[f"{name}_objective"] = _objective(group)
        if group.models:
            found[f"{name}_reliability"] = _reliability(group)
        corrupted = _corruptions(group)
        if corrupted is not None:
            found[f"{name}_corruptions"] = corrupted
    for data, runs in summary.warmups.items():
        found[f"warmup_{data}"] = _warmup(data, runs)
    return found


def _curve(result: Result, what: str, seconds: float | None = None) -> Curve:
    """A run over its epochs, or over seconds if an epoch takes so many."""
    epochs = result.extra["epochs"]
    step = 1.0 if seconds is None else seconds
    return Curve([step * e["number"] for e in epochs], [e[what] for e in epochs])


def _accuracy(summary: ImageSummary, group: GroupSummary) -> Drawing:
    followed = [m for m in _FOLLOWED if m in group.curves]
    by_epoch = {title_of(m): [_curve(r, "test_accuracy") for r in group.curves[m]] for m in followed}
    by_time = {
        title_of(m): [
            _curve(r, "test_accuracy", summary.epoch_seconds(group.name, m)) for r in group.curves[m]
        ]
        for m in followed
    }
    panels = [
        Panel("Epoch", "Test accuracy", by_epoch, trim=True),
        Panel("Seconds of training", "Test accuracy", by_time, trim=True),
    ]
    return Drawing(
        lambda width: curves_figure(panels, width),
        f"{GROUPS[group.name].title}: test accuracy against epochs and against seconds of training.",
    )


def _objective(group: GroupSummary) -> Drawing:
    panels = [
        Panel(
            "Epoch",
            label,
            {title_of(m): [_curve(r, what) for r in group.curves[m]] for m in _FOLLOWED if m in group.curves},
        )
        for what, label in (("objective", "Objective per row"), ("likelihood", "Likelihood per row"))
    ]
    return Drawing(
        lambda width: curves_figure(panels, width),
        f"{GROUPS[group.name].title}: objective and likelihood per epoch.",
    )


def _reliability(group: GroupSummary) -> Drawing:
    calibrations = [
        Calibration(title_of(model), reliability(scores.pooled_bins()), scores.mean(lambda p: p.ece))
        for model, scores in group.models.items()
    ]
    return Drawing(
        lambda width: reliability_grid(calibrations, width),
        f"{GROUPS[group.name].title}: accuracy against confidence, one diagram for each model.",
    )


def _corruptions(group: GroupSummary) -> Drawing | None:
    names = {name for s in group.models.values() for seed in s.ood for name in seed}
    severities = severities_of(names)
    if not severities:
        return None
    panels = []
    for score in SCORES:
        curves = {
            title_of(model): [Curve(severities, [s.auroc(score, k) for k in severities])]
            for model, s in group.models.items()
            if not model.endswith(TEMPERED) and np.isfinite(s.auroc(score))
        }
        if curves:
            panels.append(Panel("Severity", _AUROC, curves, _SCORE_TITLES[score]))
    return Drawing(
        lambda width: curves_figure(panels, width),
        f"{GROUPS[group.name].title}: how well doubt tells corrupted images from clean ones, by severity.",
    )


def _warmup(data: str, runs: dict[str, Result]) -> Drawing:
    panels = [
        Panel(
            "Epoch",
            label,
            {_warmup_title(model): [_curve(r, what)] for model, r in runs.items()},
        )
        for what, label in (
            ("objective", "Objective per row"),
            ("likelihood", "Likelihood per row"),
            ("test_accuracy", "Test accuracy"),
        )
    ]
    return Drawing(
        lambda width: curves_figure(panels, width),
        f"{data}: first epochs with and without a warm-up of the divergence, for both ways to train q.",
    )


def _warmup_title(model: str) -> str:
    plain = model.removesuffix("_warmup")
    way = "natural steps" if plain == "bayesvm" else "joint Adam"
    return f"{way}, warm-up" if model != plain else way
