"""The figures as files."""

from __future__ import annotations

import os
from pathlib import Path

from bayesvm_studies.drawings import drawings
from bayesvm_studies.rendering import save_drawings
from bayesvm_studies.summary import Summary


def save_figures(summary: Summary, folder: str | os.PathLike[str]) -> list[Path]:
    """Write every figure as SVG and as PNG.

    Parameters
    ----------
    summary : Summary
    folder : path-like
        Made if it is not there.

    Returns
    -------
    list of Path
    """
    return save_drawings(drawings(summary), folder)
