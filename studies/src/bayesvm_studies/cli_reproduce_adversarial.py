"""``bayesvm reproduce adversarial`` and ``bayesvm report adversarial``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesvm._cli.terminal import Row
from bayesvm_studies.cli_report_experiment import Findings, ReportOptions, write_report
from bayesvm_studies.cli_reproduce import carry_out, check_results

if TYPE_CHECKING:
    from bayesvm_studies import Result


@dataclass(frozen=True)
class AdversarialOptions:
    """Arguments of the command."""

    group: str
    models: str | None
    attacks: str
    seeds: int | None
    epochs: int | None
    limit_rows: int | None
    device: str
    jobs: int
    data: Path | None
    results: Path
    models_from: Path
    retry: bool
    any_version: bool
    dry_run: bool


def reproduce_adversarial_command(options: AdversarialOptions) -> int:
    """Train models that are missing, and make the attacks that are not known yet."""
    from bayesvm_studies.adversarial import AdversarialSettings, make_adversarial_plan, run_adversarial

    check_results(options.results)
    settings = AdversarialSettings(
        groups=options.group,
        models=options.models,
        attacks=options.attacks,
        seeds=options.seeds,
        device=options.device,
        epochs=options.epochs,
        limit_rows=options.limit_rows,
    )
    plan = make_adversarial_plan(settings, options.models_from, options.data)
    return carry_out(
        options,
        plan.tasks,
        partial(run_adversarial, settings, options.results, models=options.models_from, plan=plan),
    )


def report_adversarial_command(options: ReportOptions) -> int:
    """Report on adversarial images."""
    return write_report(options, "adversarial", _findings)


def _findings(results: list[Result]) -> Findings:
    from bayesvm_studies.adversarial import (
        detection_csv,
        save_adversarial_figures,
        summarise_adversarial,
        write_adversarial_page,
    )

    summary = summarise_adversarial(results)
    numbers = summary.as_dict()
    draw, write = partial(save_adversarial_figures, summary), partial(write_adversarial_page, summary)
    table = partial(detection_csv, list(summary.attacked.values()))
    return Findings(numbers, _facts(numbers), draw, write, table)


def _facts(numbers: dict[str, Any]) -> list[Row]:
    """The figures of the summary in a few lines."""
    rows: list[Row] = [("runs", str(numbers["n_runs"]))]
    for section in ("mnist", "cifar10", "cifar10_paper"):
        for score in ("log_variation_ratio", "combined", "squeezed"):
            found = numbers[section]["auc"].get(score, {})
            if found:
                words = ", ".join(f"{_area(area)} at {epsilon}" for epsilon, area in found.items())
                rows.append((f"{section}: AUC {score}", words))
        for attack in ("adaptive", "mimic"):
            found = numbers[attack]["auc"][section].get("squeezed", {})
            if found:
                words = ", ".join(f"{_area(area)} at {epsilon}" for epsilon, area in found.items())
                rows.append((f"{section}: {attack}, squeezed", words))
    for goal in numbers["goals"]:
        within = f"{goal['from_epsilon']:g} to {goal['to_epsilon']:g}"
        said = "reached" if goal["reached"] else "not reached"
        areas = ", ".join(f"{name} {_area(goal[name])}" for name in ("squeezed", "combined"))
        rows.append((f"goal: {goal['section']} {within}", f"{areas} of {goal['least']:g}, {said}"))
    rows += [("failed", text) for text in numbers["failed"]]
    if numbers["shortened"]:
        rows.append(("note", "some runs were shortened: they show that it works, not how well"))
    return rows + [("note", str(note)) for note in numbers["notes"]]


def _area(value: float | None) -> str:
    return "?" if value is None else f"{value:.3f}"
