"""All results as one table: a row per fit, a column per fact."""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import Iterable
from typing import Any

from bayesvm_studies.result import Result
from bayesvm_studies.scoring import pool


def tidy_rows(results: Iterable[Result]) -> list[dict[str, Any]]:
    """Rows as dictionaries with the same keys; scores are empty where there are none."""
    return [_row(r) for r in results]


def tidy_csv(results: Iterable[Result]) -> str:
    """The table as comma-separated values."""
    rows = tidy_rows(results)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _row(r: Result) -> dict[str, Any]:
    scores = pool([r]) if r.ok and r.n_test else None
    began = datetime.datetime.fromtimestamp(r.started, datetime.UTC)
    arguments = r.config["arguments"]
    return {
        "protocol": r.protocol,
        "data": r.data,
        "split": r.split,
        "model": r.model,
        "status": r.status,
        "error": r.error,
        "n_train": r.n_train,
        "n_test": r.n_test,
        "n_features": r.n_features,
        "n_classes": r.n_classes,
        "accuracy": "" if scores is None else f"{scores.accuracy:.6g}",
        "log_loss": "" if scores is None else f"{scores.log_loss:.6g}",
        "brier": "" if scores is None else f"{scores.brier:.6g}",
        "ece": "" if scores is None else f"{scores.ece:.6g}",
        "fit_s": r.fit_s if r.ok else "",
        "predict_s": r.predict_s if r.ok else "",
        "peak_mb": "" if r.peak_mb is None else r.peak_mb,
        "estimator": r.config["estimator"],
        "arguments": json.dumps(arguments, sort_keys=True),
        "seed": arguments.get("random_state", ""),
        "shortened": bool(r.config.get("shortened", False)),
        "versions": " ".join(f"{k}={v}" for k, v in sorted({**r.environment, **r.versions}.items())),
        "commit": r.commit,
        "machine": r.machine,
        "jobs": r.jobs,
        "started": began.isoformat(timespec="seconds"),
        "note": r.note,
    }
