"""The figures as files."""

from __future__ import annotations

import os
from pathlib import Path

from bayesvm.experiments.drawings import drawings
from bayesvm.experiments.summary import Summary
from bayesvm.report.svg import WIDTH_INCHES, drawing

__all__ = ["save_figures"]

_DPI = 200


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
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    written = []
    with drawing():
        for name, drawn in drawings(summary).items():
            figure = drawn.draw(WIDTH_INCHES)
            for ending in ("svg", "png"):
                path = place / f"{name}.{ending}"
                options = {"metadata": {"Date": None}} if ending == "svg" else {"dpi": _DPI}
                figure.savefig(path, facecolor="white", **options)
                written.append(path)
    return written
