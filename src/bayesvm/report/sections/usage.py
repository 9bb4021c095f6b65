"""How to load the model and predict with it."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bayesvm.report.wording import quoted

if TYPE_CHECKING:
    from bayesvm.tables import TableFit

__all__ = ["UsageSection", "usage_section"]

# Suffixes of tables that can be read, wherever they stand in a caption.
_SUFFIX = re.compile(r"\.(?:parquet|pq|(?:csv|tsv)(?:\.(?:gz|bz2|xz|zst))?)(?!\w)", re.IGNORECASE)


@dataclass(frozen=True)
class UsageSection:
    """Texts and code of how to use the model."""

    lead: str
    command: str
    python: str


def usage_section(
    fit: TableFit, model_path: str | os.PathLike[str] | None, source: str | None, max_error: float
) -> UsageSection:
    """Commands and code with the names of this fit."""
    model = "model.skops" if model_path is None else Path(model_path).name
    new, out = f"new{_suffix(source or '')}", "predictions.csv"
    saved = f"The model is in the file {quoted(model)}"
    if model_path is None:
        saved = f"The model was not saved with this report; save it as {quoted(model)} first (bayesvm.save)"
    return UsageSection(
        lead=f"{saved}. Give it any table with the same columns; {quoted(fit.target)} is not needed.",
        command=f"bayesvm predict {shlex.quote(model)} {new} --abstain {max_error:g} --output {out}",
        python=(
            "import bayesvm\n"
            "from bayesvm.tables import predict_table, read_table\n\n"
            f"model = bayesvm.load({model!r})\n"
            f"new = read_table({new!r}, model=model)\n"
            f"answers = predict_table(model, new, max_error={max_error:g})\n"
            'answers[["prediction", "probability", "ask_a_person"]]'
        ),
    )


def _suffix(source: str) -> str:
    """The last suffix of a table in a file name or caption, or that of CSV."""
    return (_SUFFIX.findall(source) or [".csv"])[-1].lower()
