"""``bayesvm report structured``: summary, page and figures from the results of the experiments."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from bayesvm.cli.progress import shown_progress
from bayesvm.cli.sections import Row, Section, print_sections
from bayesvm.cli.status import DONE

__all__ = ["ReportOptions", "report_command"]


@dataclass(frozen=True)
class ReportOptions:
    """Arguments of the command."""

    results: Path
    output: Path | None
    figures: Path | None
    json: Path | None
    table: Path | None


def report_command(options: ReportOptions) -> int:
    """Read the results and write what was asked for; the page if nothing was."""
    with shown_progress() as steps:
        steps.start("Reading the results")
        from bayesvm.experiments import read_results, save_figures, summarise, tidy_csv, write_page
        from bayesvm.files import replacing

        results = read_results(options.results)
        if not results:
            raise ValueError(f"{options.results} holds no results")
        summary = summarise(results)
        written: list[Row] = []
        if options.json is not None:
            content = json.dumps(summary.as_dict(), indent=2) + "\n"
            with replacing(options.json) as part:
                part.write_text(content, encoding="utf-8")
            written.append(("summary", str(options.json)))
        if options.table is not None:
            with replacing(options.table) as part:
                part.write_text(tidy_csv(results), encoding="utf-8")
            written.append(("table", str(options.table)))
        if options.figures is not None:
            steps.start("Drawing")
            names = save_figures(summary, options.figures)
            written.append(("figures", f"{len(names)} in {options.figures}"))
        output = options.output
        if output is None and len(written) == 0:
            output = options.results.with_suffix(".html")
        if output is not None:
            steps.start("Writing the page")
            write_page(summary, output)
            written.append(("page", str(output)))
    print_sections([Section("Results", _facts(summary.as_dict())), Section("Written", written)])
    return DONE


def _facts(summary: dict[str, object]) -> list[Row]:
    """The figures of the summary in a few lines."""
    paper, olson = summary["paper"], summary["olson"]
    assert isinstance(paper, dict)
    assert isinstance(olson, dict)
    rows: list[Row] = [("fits", str(summary["n_fits"]))]
    if paper["n_sets"]:
        ranks = ", ".join(f"{name} {rank:.2f}" for name, rank in paper["mean_rank"].items())
        rows += [
            ("paper: mean rank", f"{ranks} on {paper['n_sets']} sets"),
            ("paper: fastest", f"multi_class on {paper['fastest_on']} of {paper['n_sets']} sets"),
        ]
        if paper["default_over_paper_time"] is not None:
            rows.append(("default / paper time", f"{paper['default_over_paper_time']:.3g}"))
    if olson["n_sets"]:
        best = sorted(olson["mean_rank"].items(), key=lambda item: item[1])
        losses = sorted(olson["log_loss_rank"].items(), key=lambda item: item[1])
        rows += [
            ("olson: mean rank", ", ".join(f"{name} {rank:.2f}" for name, rank in best[:4])),
            ("olson: log-loss rank", ", ".join(f"{name} {rank:.2f}" for name, rank in losses[:4])),
        ]
        if "bayesvm" in olson["mean_accuracy"]:
            n_sets = olson["mean_accuracy_n_sets"]["bayesvm"]
            rows.append(("olson: accuracy", f"{olson['mean_accuracy']['bayesvm']:.4f} on {n_sets} sets"))
    for name, part in (("paper", paper), ("olson", olson)):
        for what in ("missing", "failed"):
            if part[what]:
                rows.append((f"{name}: {what}", f"on {len(part[what])} sets; --json lists them"))
    return rows
