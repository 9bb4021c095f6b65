"""``bayesvm report``: summary, page and figures from the results of the experiments."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bayesvm._cli import DONE
from bayesvm._cli.terminal import Row, Section, print_sections, shown_progress

if TYPE_CHECKING:
    from bayesvm_studies import Result


@dataclass(frozen=True)
class ReportOptions:
    """Arguments of the command."""

    results: Path
    output: Path | None
    figures: Path | None
    json: Path | None
    table: Path | None


def report_command(options: ReportOptions) -> int:
    """Report on structured data."""
    return write_report(options, "structured", _structured)


def report_images_command(options: ReportOptions) -> int:
    """Report on images."""
    return write_report(options, "images", _images)


class Findings(NamedTuple):
    """What a report is made of: numbers, lines for the terminal, and ways to draw, to write and to list.

    Without ``table`` there is a row for each fit.
    """

    numbers: dict[str, Any]
    facts: list[Row]
    draw: Callable[[Path], list[Path]]
    write: Callable[[Path], Path]
    table: Callable[[], str] | None = None


def _structured(results: list[Result]) -> Findings:
    from bayesvm_studies import save_figures, summarise, write_page

    summary = summarise(results)
    numbers = summary.as_dict()
    return Findings(numbers, _facts(numbers), partial(save_figures, summary), partial(write_page, summary))


def _images(results: list[Result]) -> Findings:
    from bayesvm_studies.images import save_image_figures, summarise_images, write_image_page

    summary = summarise_images(results)
    numbers = summary.as_dict()
    draw, write = partial(save_image_figures, summary), partial(write_image_page, summary)
    return Findings(numbers, _image_facts(numbers), draw, write)


def write_report(options: ReportOptions, name: str, find: Callable[[list[Result]], Findings]) -> int:
    """Read the results and write what was asked for; the page if nothing was."""
    with shown_progress() as steps:
        steps.start("Reading the results")
        from bayesvm._files import replacing
        from bayesvm_studies import read_results, tidy_csv

        results = read_results(options.results, name)
        if not results:
            raise ValueError(f"{options.results} holds no results")
        found = find(results)
        written: list[Row] = []
        if options.json is not None:
            content = json.dumps(found.numbers, indent=2) + "\n"
            with replacing(options.json) as part:
                part.write_text(content, encoding="utf-8")
            written.append(("summary", str(options.json)))
        if options.table is not None:
            with replacing(options.table) as part:
                content = tidy_csv(results) if found.table is None else found.table()
                part.write_text(content, encoding="utf-8")
            written.append(("table", str(options.table)))
        if options.figures is not None:
            steps.start("Drawing")
            names = found.draw(options.figures)
            written.append(("figures", f"{len(names)} in {options.figures}"))
        output = options.output
        if output is None and len(written) == 0:
            output = options.results.with_suffix(".html")
        if output is not None:
            steps.start("Writing the page")
            found.write(output)
            written.append(("page", str(output)))
    print_sections([Section("Results", found.facts), Section("Written", written)])
    return DONE


def _image_facts(numbers: dict[str, Any]) -> list[Row]:
    """The figures of the summary of images in a few lines."""
    rows: list[Row] = [("runs", str(numbers["n_runs"]))]
    for name, ece in numbers["ece"].items():
        accuracy, log_loss = numbers[name]["accuracy"], numbers[name]["log_loss"]
        for model in ("softmax", "softmax_tempered", "bayesvm", "bayesvm_tempered"):
            if model in accuracy:
                words = (
                    f"accuracy {accuracy[model]:.4f}  log-loss {log_loss[model]:.4f}  ECE {ece[model]:.4f}"
                )
                rows.append((f"{name}: {model}", words))
        rows += [(f"{name}: failed", f"{model}: {why[0]}") for model, why in numbers[name]["failed"].items()]
    ratios = {k: v for k, v in numbers["epoch_time_ratio"].items() if v is not None}
    if numbers["epoch_time_ratio_1000_classes"] is not None:
        ratios["1000 classes"] = numbers["epoch_time_ratio_1000_classes"]
    if ratios:
        rows.append(("epoch / softmax", ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())))
    return rows


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
        on = f" on {olson['n_sets']} sets"
        if len(best) > 1:
            rows += [
                ("olson: mean rank", ", ".join(f"{name} {rank:.2f}" for name, rank in best[:4]) + on),
                ("olson: log-loss rank", ", ".join(f"{name} {rank:.2f}" for name, rank in losses[:4]) + on),
            ]
        for key, what in (("small_sets", "small sets"), ("every_model", "every model")):
            part = olson[key]
            if len(part["mean_rank"]) > len(best) and part["n_sets"]:
                order = sorted(part["mean_rank"].items(), key=lambda item: item[1])
                words = ", ".join(f"{name} {rank:.2f}" for name, rank in order[:4])
                rows.append((f"olson: {what}", f"{words} on {part['n_sets']} sets"))
        if "bayesvm" in olson["mean_accuracy"]:
            n_sets = olson["mean_accuracy_n_sets"]["bayesvm"]
            rows.append(("olson: accuracy", f"{olson['mean_accuracy']['bayesvm']:.4f} on {n_sets} sets"))
    if olson["fewer_folds"]:
        n = len(olson["fewer_folds"])
        rows.append(("olson: folds", f"fewer than ten on {n} set{'s' if n > 1 else ''}; --json lists them"))
    for name, part in (("paper", paper), ("olson", olson)):
        for what in ("missing", "failed"):
            if part[what]:
                n = len(part[what])
                rows.append((f"{name}: {what}", f"on {n} set{'s' if n > 1 else ''}; --json lists them"))
    versions, notes = summary["versions"], summary["notes"]
    assert isinstance(versions, dict)
    assert isinstance(notes, list)
    for name, found in versions.items():
        if len(found) > 1:
            rows.append((f"{name}: versions", f"{len(found)} of bayesvm are mixed; the newest fit counts"))
    return rows + [("note", str(note)) for note in notes]
