"""The HTML file: the contents of the sections go into the templates."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesvm._files import replacing
from bayesvm._formatting import plural
from bayesvm.report._overview import headline, training_section, usage_section
from bayesvm.report._pitfall import Pitfall
from bayesvm.report._pitfalls import find_pitfalls
from bayesvm.report._quality import (
    abstention_section,
    confusion_section,
    quality_section,
    reliability_section,
)
from bayesvm.report._table import data_section, relevance_section, rows_section

if TYPE_CHECKING:
    from bayesvm.tables import TableFit


# Each has a template of the same name.
CONTENTS = (
    ("data", "The data and its pitfalls"),
    ("quality", "How good it is"),
    ("reliability", "Are the probabilities right?"),
    ("confusion", "What it mixes up"),
    ("abstention", "What if it may abstain?"),
    ("relevance", "What it looks at"),
    ("rows", "Rows to look at"),
    ("training", "How training went"),
    ("usage", "How to use the model"),
    ("smallprint", "Small print"),
)
SEVERITY_WORDS = {"alarm": "Alarm", "caution": "Caution", "note": "Good to know"}


def write_report(
    fit: TableFit,
    path: str | os.PathLike[str],
    *,
    model_path: str | os.PathLike[str] | None = None,
    source: str | None = None,
    max_error: float = 0.05,
    pitfalls: Sequence[Pitfall] | None = None,
) -> Path:
    """Write one HTML file that says what was fitted, how good it is and what to watch out for.

    The file needs nothing else: style and figures are inside, and it asks no
    server for anything. It contains rows of the table.

    Parameters
    ----------
    fit : TableFit
        From :func:`bayesvm.tables.fit_table`.
    path : str or path-like
        The file to write; never half-written.
    model_path : str, path-like or None
        Where the model was saved, for the instructions.
    source : str or None
        Name of the table's file, for the reader.
    max_error : float, default=0.05
        Error rate at which abstention is shown.
    pitfalls : sequence of Pitfall or None
        From :func:`find_pitfalls`; None: they are looked for.

    Returns
    -------
    Path
        Where it was written.
    """
    if not 0.0 < max_error < 1.0:
        raise ValueError(f"max_error={max_error!r} is not valid; it must lie between 0 and 1")
    template = _environment().get_template("report.html")
    if pitfalls is None:
        unwanted = list(fit.pipeline["columns"].ignore)
        pitfalls = find_pitfalls(fit.table.drop(columns=unwanted), fit.target)
    page = template.render(_context(fit, pitfalls, model_path, source, max_error))
    with replacing(path) as part:
        part.write_text(page, encoding="utf-8", errors="replace")
    return Path(path)


def _context(
    fit: TableFit,
    pitfalls: Sequence[Pitfall],
    model_path: str | os.PathLike[str] | None,
    source: str | None,
    max_error: float,
) -> dict[str, Any]:
    """What the templates are filled in with, by the names of the sections."""
    relevance = relevance_section(fit)
    return {
        "contents": CONTENTS,
        "severities": SEVERITY_WORDS,
        "top": headline(fit, pitfalls, source, max_error),
        "data": data_section(fit, pitfalls),
        "quality": quality_section(fit),
        "reliability": reliability_section(fit),
        "confusion": confusion_section(fit),
        "abstention": abstention_section(fit, max_error),
        "relevance": relevance,
        "rows": rows_section(fit, relevance.names),
        "training": training_section(fit),
        "usage": usage_section(fit, model_path, source, max_error),
        "refitted": fit.pipeline is not fit.heldout_pipeline and not fit.interrupted,
        "promises": fit.promises,
        "heldout": None if fit.heldout is None else plural(len(fit.heldout.labels), "row"),
    }


def _environment() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise ImportError("the report needs jinja2: pip install 'bayesvm[cli]'") from error
    return jinja2.Environment(
        loader=jinja2.PackageLoader("bayesvm.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
