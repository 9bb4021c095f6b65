"""``bayesvm evaluate`` and ``bayesvm info``: how good a model is on a table, and what a model file holds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesvm._cli import DONE
from bayesvm._cli.app import check_share
from bayesvm._cli.terminal import (
    Row,
    Section,
    abstention,
    class_counts,
    collected_notes,
    confusions,
    count_of,
    interval,
    kinds_in_words,
    percent,
    print_json,
    print_notes,
    print_sections,
    quality,
    relevance_rows,
    shortened,
    shown_progress,
)

if TYPE_CHECKING:
    from bayesvm._cli.models import ModelFile
    from bayesvm.tables._columns import TableColumns


def evaluate_command(model: Path, table: Path | None, max_error: float, as_json: bool) -> int:
    """Evaluate a model on a table and print the figures."""
    check_share("--abstain", max_error)
    with collected_notes() as notes, shown_progress() as steps:
        steps.start("Loading the model")
        from bayesvm._cli.models import open_model, open_table
        from bayesvm.tables import evaluate_table
        from bayesvm.tables._predictions import abstention_threshold, cannot_promise

        loaded = open_model(model)
        if loaded.columns is None or loaded.columns.target is None:
            raise ValueError(f"{str(model)!r} records no target column; use a model from 'bayesvm fit'")
        steps.start("Reading the table")
        rows = open_table(loaded, table)
        steps.start("Predicting")
        evaluation = evaluate_table(loaded.estimator, rows)
        threshold = abstention_threshold(loaded.estimator, max_error)
        if not evaluation.gain.is_certain:
            notes.append(evaluation.gain.doubt(evaluation.rows_in_words))
        notes += filter(None, [cannot_promise(loaded.estimator, max_error)])
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
    quality_section = quality([evaluation], threshold, max_error)
    print_sections([quality_section, confusions(evaluation), Section("Left out", left_out)])
    print_notes(notes)
    return DONE


# --- ``bayesvm info``.


def info_command(path: Path, as_json: bool) -> int:
    """Print what is in a model file."""
    with collected_notes() as notes, shown_progress() as steps:
        steps.start("Loading the model")
        from bayesvm._cli.models import open_model
        from bayesvm.tables import column_relevance

        loaded = open_model(path)
        relevance = None if loaded.columns is None else column_relevance(loaded.estimator)
    if as_json:
        shares = None if relevance is None else relevance.to_dict()
        print_json({**_facts(loaded), "relevance": shares, "notes": notes})
        return DONE
    columns = loaded.columns
    print_sections(
        [
            Section(f"Model {path}", _origin(loaded)),
            Section("Fit", _fit(loaded)),
            Section("Columns", [] if columns is None else _columns(columns)),
            Section("What matters", [] if relevance is None else relevance_rows(relevance)),
            Section("Made with", [] if columns is None else list(columns.versions_.items())),
            Section("In Python", _usage(loaded)),
        ]
    )
    print_notes(notes)
    return DONE


def _facts(loaded: ModelFile) -> dict[str, Any]:
    model, columns = loaded.model, loaded.columns
    facts: dict[str, Any] = {
        "model": str(loaded.path),
        "classes": model.classes_.tolist(),
        "features": model.n_features_in_,
        "inducing_points": len(model.inducing_points_),
        "kernel": str(model.kernel),
        "leave_one_out": {"accuracy": model.loo_score_, "log_loss": model.loo_log_loss_},
        "interrupted": bool(model.interrupted_),
    }
    if columns is not None:
        facts |= {
            "target": columns.target,
            "rows": columns.n_rows_,
            "class_counts": columns.class_counts_,
            "columns": columns.kinds_,
            "ignored": columns.ignored_,
            "held_out": columns.held_out_,
            "versions": columns.versions_,
        }
    return facts


def _origin(loaded: ModelFile) -> list[Row]:
    columns = loaded.columns
    if columns is None:
        return [("classes", shortened(map(str, loaded.model.classes_)))]
    return [
        ("predicts", str(columns.target)),
        ("classes", class_counts(columns.classes_, columns.class_counts_)),
        ("rows", str(columns.n_rows_)),
        ("columns", f"{len(columns.names_)}: {kinds_in_words(columns.kinds_)}"),
    ]


def _fit(loaded: ModelFile) -> list[Row]:
    model, columns = loaded.model, loaded.columns
    rows: list[Row] = []
    if columns is not None and columns.held_out_ is not None:
        figures = columns.held_out_
        accuracy = interval(**figures["accuracy"], rows=figures["rows"], share=True)
        log_loss = interval(**figures["log_loss"], rows=figures["rows"])
        rows.append(("held out", f"accuracy {accuracy}, log-loss {log_loss}"))
    known = math.isfinite(model.loo_score_)
    loo = f"accuracy {percent(model.loo_score_)}, log-loss {model.loo_log_loss_:.3f}"
    rows += [
        ("leave-one-out", loo if known else "none: training ended too far from the optimum"),
        ("kernel", str(model.kernel)),
        ("features", str(model.n_features_in_)),
        ("inducing points", str(len(model.inducing_points_))),
    ]
    if model.interrupted_:
        rows.append(("interrupted", "by Ctrl-C; this is the best state it had reached"))
    return rows


def _columns(columns: TableColumns) -> list[Row]:
    unused = ((name, f"not used: {why}") for name, why in columns.ignored_.items())
    return [*columns.kinds_.items(), *unused]


def _usage(loaded: ModelFile) -> list[Row]:
    load = f"model = bayesvm.load({str(loaded.path)!r})"
    if loaded.columns is None:
        return [("import bayesvm",), (load,), ("model.predict_proba(X)",)]
    return [
        ("import bayesvm",),
        ("from bayesvm.tables import read_table",),
        (load,),
        ("model.predict_proba(read_table('NEW_TABLE.csv', model=model))",),
    ]
