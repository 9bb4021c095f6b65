"""``bayesvm reproduce`` and ``bayesvm report``: the experiments and their options.

As in ``app.py`` each function only reads its arguments and answers with what
is to be done.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

Task = Callable[[], int]

reproduce = typer.Typer(help="Run the experiments of the paper.", no_args_is_help=True, rich_markup_mode=None)
report = typer.Typer(help="Show what the experiments found.", no_args_is_help=True, rich_markup_mode=None)

Results = Annotated[
    Path, typer.Option("--results", metavar="FILE", help="File of results, one line of JSON per fit.")
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes side by side.")]
Retry = Annotated[bool, typer.Option("--retry", help="Try what failed or took too long again.")]
AnyVersion = Annotated[
    bool, typer.Option("--any-version", help="Do not repeat what was measured with other versions.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the fits and make none.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Page [default: RESULTS.html if nothing else]"),
]
Figures = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the figures as SVG and PNG.")]
Summary = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Summary, from the raw results.")
]
Tidy = Annotated[Path | None, typer.Option("--table", metavar="FILE", help="All fits as one table (CSV).")]


@reproduce.command("structured")
def reproduce_structured(
    protocol: Annotated[
        str, typer.Option(metavar="NAME", help="paper (one split), olson (ten folds) or both.")
    ] = "both",
    subset: Annotated[
        str, typer.Option(metavar="SETS", help="small (up to 1500 rows), all, or names with commas.")
    ] = "all",
    models: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Models with commas [default: all installed]")
    ] = None,
    folds: Annotated[
        int | None, typer.Option(min=1, max=10, help="Only the first of the ten folds [default: all]")
    ] = None,
    jobs: Jobs = 1,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of PMLB sets [default: BAYESVM_DATA, or a download]"),
    ] = None,
    results: Results = Path("results/structured.jsonl"),
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0.0, metavar="SECONDS", help="Limit of every fit, 0 for none [default: 600 for competitors]"
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="Where models of bayesvm compute, such as cuda.")] = "cpu",
    shorten: Annotated[
        list[str] | None,
        typer.Option(metavar="SET=EPOCHS", help="Fewer epochs of the paper's recipe; may be given again."),
    ] = None,
    retry: Retry = False,
    any_version: AnyVersion = False,
    dry_run: DryRun = False,
) -> Task:
    """Fit all models to the paper's 68 sets; the same command goes on where it was stopped."""
    from bayesvm_studies.cli_reproduce import ReproduceOptions, reproduce_command

    options = ReproduceOptions(
        protocol=protocol,
        subset=subset,
        models=models,
        folds=folds,
        jobs=jobs,
        data=data,
        results=results,
        timeout=timeout,
        device=device,
        shorten=tuple(shorten or ()),
        retry=retry,
        any_version=any_version,
        dry_run=dry_run,
    )
    return partial(reproduce_command, options)


@report.command("structured")
def report_structured(
    results: Results = Path("results/structured.jsonl"),
    output: Output = None,
    figures: Figures = None,
    json: Summary = None,
    table: Tidy = None,
) -> Task:
    """Ranks, times and calibration from the results: a page, figures, a summary, a table."""
    from bayesvm_studies.cli_report_experiment import ReportOptions, report_command

    return partial(report_command, ReportOptions(results, output, figures, json, table))


@reproduce.command("images")
def reproduce_images(
    group: Annotated[
        str,
        typer.Option(metavar="PARTS", help="mnist, cifar10, cifar10_residual, warmup, timing; or all."),
    ] = "all",
    subset: Annotated[str, typer.Option(metavar="SETS", help="mnist, cifar10 or all.")] = "all",
    models: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="softmax, bayesvm, bayesvm_adam, mc_dropout, laplace, ensemble [default: all]",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="At most so many seeds of each model [default: 3]")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Instead of the recipe's; marked in the results.")
    ] = None,
    limit_rows: Annotated[
        int | None, typer.Option(min=20, metavar="N", help="Use only so many rows; marked in the results.")
    ] = None,
    device: Annotated[str, typer.Option(help="Where networks are trained, such as cuda.")] = "cpu",
    compile: Annotated[
        str | None,
        typer.Option(metavar="MODE", help="Mode of torch.compile, such as default [default: none]"),
    ] = None,
    jobs: Jobs = 1,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of image sets [default: BAYESVM_IMAGES, or a download]"),
    ] = None,
    results: Results = Path("results/images.jsonl"),
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for trained models [default: RESULTS.models]"),
    ] = None,
    retry: Retry = False,
    any_version: AnyVersion = False,
    dry_run: DryRun = False,
) -> Task:
    """Train the paper's networks with softmax and Bayesian heads; goes on where it was stopped."""
    from bayesvm_studies.cli_reproduce import ImageOptions, reproduce_images_command

    options = ImageOptions(
        group=group,
        subset=subset,
        models=models,
        seeds=seeds,
        epochs=epochs,
        limit_rows=limit_rows,
        device=device,
        compile=compile,
        jobs=jobs,
        data=data,
        results=results,
        keep=keep,
        retry=retry,
        any_version=any_version,
        dry_run=dry_run,
    )
    return partial(reproduce_images_command, options)


@report.command("images")
def report_images(
    results: Results = Path("results/images.jsonl"),
    output: Output = None,
    figures: Figures = None,
    json: Summary = None,
    table: Tidy = None,
) -> Task:
    """Accuracy, calibration, doubt and times of the networks: a page, figures, a summary, a table."""
    from bayesvm_studies.cli_report_experiment import ReportOptions, report_images_command

    return partial(report_images_command, ReportOptions(results, output, figures, json, table))
