"""The options of ``bayesvm reproduce adversarial`` and ``bayesvm report adversarial``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bayesvm_studies.cli_experiments import (
    AnyVersion,
    DryRun,
    Figures,
    Jobs,
    Output,
    Results,
    Retry,
    Summary,
    Task,
    Tidy,
    report,
    reproduce,
)


@reproduce.command("adversarial")
def reproduce_adversarial(
    group: Annotated[
        str, typer.Option(metavar="NETWORKS", help="mnist, cifar10, cifar10_residual; or all.")
    ] = "all",
    models: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="bayesvm, bayesvm_adam, softmax, softmax_tempered, ensemble, mc_dropout [default: all]",
        ),
    ] = None,
    attacks: Annotated[
        str, typer.Option(metavar="NAMES", help="fgsm, pgd, adaptive, mimic; or all.")
    ] = "all",
    seeds: Annotated[
        int | None, typer.Option(min=1, help="At most so many seeds of each model [default: 3]")
    ] = None,
    models_from: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Models kept by reproduce images; missing ones are trained."),
    ] = Path("results/images.models"),
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Of missing models; marked in the results.")
    ] = None,
    limit_rows: Annotated[
        int | None, typer.Option(min=20, metavar="N", help="Use only so many rows; marked in the results.")
    ] = None,
    device: Annotated[str, typer.Option(help="Where networks compute, such as cuda.")] = "cpu",
    jobs: Jobs = 1,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of image sets [default: BAYESVM_IMAGES, or a download]"),
    ] = None,
    results: Results = Path("results/adversarial.jsonl"),
    retry: Retry = False,
    any_version: AnyVersion = False,
    dry_run: DryRun = False,
) -> Task:
    """Attack the networks of reproduce images and try to tell; goes on where it was stopped."""
    from bayesvm_studies.cli_reproduce_adversarial import AdversarialOptions, reproduce_adversarial_command

    options = AdversarialOptions(
        group=group,
        models=models,
        attacks=attacks,
        seeds=seeds,
        epochs=epochs,
        limit_rows=limit_rows,
        device=device,
        jobs=jobs,
        data=data,
        results=results,
        models_from=models_from,
        retry=retry,
        any_version=any_version,
        dry_run=dry_run,
    )
    return partial(reproduce_adversarial_command, options)


@report.command("adversarial")
def report_adversarial(
    results: Results = Path("results/adversarial.jsonl"),
    output: Output = None,
    figures: Figures = None,
    json: Summary = None,
    table: Tidy = None,
) -> Task:
    """Accuracy and detection under attack: a page, figures, a summary, a table."""
    from bayesvm_studies.cli_report_experiment import ReportOptions
    from bayesvm_studies.cli_reproduce_adversarial import report_adversarial_command

    return partial(report_adversarial_command, ReportOptions(results, output, figures, json, table))
