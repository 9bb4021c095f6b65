"""Options of ``bayesvm reproduce active`` and ``bayesvm report active``."""

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


@reproduce.command("active")
def reproduce_active(
    group: Annotated[
        str,
        typer.Option(
            metavar="PARTS", help="sets, poker (the million-row pool), clock (a round on it); or all."
        ),
    ] = "all",
    subset: Annotated[
        str, typer.Option(metavar="SETS", help="small (up to 1500 rows), all, or names with commas.")
    ] = "all",
    policies: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="variation_ratio, softmax_entropy, margin, bald, random [default: all]",
        ),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="default, random_forest, svc, paper, dense [default: all]"),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="At most so many seeds of each model.")] = 5,
    queries: Annotated[
        int, typer.Option(min=1, help="Labels asked for; fewer than 100 are marked in the results.")
    ] = 100,
    jobs: Jobs = 1,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of PMLB sets [default: BAYESVM_DATA, or a download]"),
    ] = None,
    results: Results = Path("results/active.jsonl"),
    retry: Retry = False,
    any_version: AnyVersion = False,
    dry_run: DryRun = False,
) -> Task:
    """Compare query policies on the paper's 68 sets; the same command goes on where it was stopped."""
    from bayesvm_studies.cli_reproduce_active import ActiveOptions, reproduce_active_command

    options = ActiveOptions(
        group=group,
        subset=subset,
        policies=policies,
        models=models,
        seeds=seeds,
        queries=queries,
        jobs=jobs,
        data=data,
        results=results,
        retry=retry,
        any_version=any_version,
        dry_run=dry_run,
    )
    return partial(reproduce_active_command, options)


@report.command("active")
def report_active(
    results: Results = Path("results/active.jsonl"),
    output: Output = None,
    figures: Figures = None,
    json: Summary = None,
    table: Tidy = None,
) -> Task:
    """Ranks of policies, budget curves and times: a page, figures, a summary, a table."""
    from bayesvm_studies.cli_report_experiment import ReportOptions
    from bayesvm_studies.cli_reproduce_active import report_active_command

    return partial(report_active_command, ReportOptions(results, output, figures, json, table))
