"""``bayesvm reproduce active`` and ``bayesvm report active``."""

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
class ActiveOptions:
    """Arguments of the command."""

    group: str
    subset: str
    policies: str | None
    models: str | None
    seeds: int
    queries: int
    jobs: int
    data: Path | None
    results: Path
    retry: bool
    any_version: bool
    dry_run: bool


def reproduce_active_command(options: ActiveOptions) -> int:
    """Make the runs that are not known yet."""
    from bayesvm_studies.active import ActiveSettings, make_active_plan, run_active

    check_results(options.results)
    settings = ActiveSettings(
        parts=options.group,
        subset=options.subset,
        policies=options.policies,
        models=options.models,
        seeds=options.seeds,
        queries=options.queries,
    )
    plan = make_active_plan(settings, options.data)
    return carry_out(options, plan.tasks, partial(run_active, plan, options.results))


def report_active_command(options: ReportOptions) -> int:
    """Report on active learning."""
    return write_report(options, "active", _findings)


def _findings(results: list[Result]) -> Findings:
    from bayesvm_studies.active import save_active_figures, summarise_active, write_active_page

    summary = summarise_active(results)
    numbers = summary.as_dict()
    draw, write = partial(save_active_figures, summary), partial(write_active_page, summary)
    return Findings(numbers, _facts(numbers), draw, write)


def _facts(numbers: dict[str, Any]) -> list[Row]:
    """The figures of the summary in a few lines."""
    rows: list[Row] = [("runs", str(numbers["n_runs"]))]
    for key, what in (("mean_rank", "mean rank"), ("mean_rank_of_pair", "rank of the pair")):
        for budget in ("25", "50", "100"):
            known = {p: r[budget] for p, r in numbers[key].items() if r[budget] is not None}
            if known:
                words = ", ".join(f"{p} {r:.2f}" for p, r in sorted(known.items(), key=lambda i: i[1]))
                rows.append((f"{what}, {budget} queries", words))
    areas = sorted(numbers["area_under_curve"].items(), key=lambda item: -item[1])
    if areas:
        words = ", ".join(f"{name} {area:.4f}" for name, area in areas)
        rows.append(("area under the curve", f"{words} on {numbers['area_n_sets']} sets"))
    if numbers["round_seconds_1m"] is not None:
        rows.append(("a round, a million rows", f"{numbers['round_seconds_1m']:.2f} s"))
    if numbers["failed"]:
        rows.append(("failed", f"{len(numbers['failed'])}; --json lists them"))
    return rows + [("note", str(note)) for note in numbers["notes"]]
