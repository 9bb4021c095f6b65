"""``bayesvm evaluate``: how a model does on a table whose labels are known."""

from __future__ import annotations

from pathlib import Path

from bayesvm.cli.notes import collected_notes, print_notes
from bayesvm.cli.options import check_share
from bayesvm.cli.progress import shown_progress
from bayesvm.cli.sections import Row, Section, print_json, print_sections
from bayesvm.cli.status import DONE
from bayesvm.cli.wording import count_of

__all__ = ["evaluate_command"]


def evaluate_command(model: Path, table: Path | None, max_error: float, as_json: bool) -> int:
    """Judge and print."""
    check_share("--max-error", max_error)
    with collected_notes() as notes, shown_progress() as steps:
        steps.start("Loading the model")
        from bayesvm.cli.figures import abstention, confusions, quality
        from bayesvm.cli.models import open_model, open_table
        from bayesvm.tables import evaluate_table

        loaded = open_model(model)
        if loaded.columns is None or loaded.columns.target is None:
            raise ValueError(f"{str(model)!r} does not know its target; only models of 'bayesvm fit' do")
        steps.start("Reading the table")
        rows = open_table(loaded, table)
        steps.start("Predicting")
        evaluation = evaluate_table(loaded.estimator, rows)
    threshold = float(loaded.model.abstention_threshold(max_error))
    if as_json:
        handed_over = abstention(evaluation, threshold, max_error)
        print_json({**evaluation.as_dict(), "abstention": handed_over, "notes": notes})
        return DONE
    left_out: list[Row] = [
        (count_of(n, "row"), f"with the label {label!r}, which the model has never seen")
        for label, n in evaluation.unseen.items()
    ]
    if evaluation.n_unlabelled:
        left_out.append((count_of(evaluation.n_unlabelled, "row"), f"without {loaded.columns.target}"))
    quality_section = quality([evaluation], [threshold], max_error)
    print_sections([quality_section, confusions(evaluation), Section("Left out", left_out)])
    print_notes(notes)
    return DONE
