"""From figures and a template to a page or to files: what the experiments share."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bayesvm._files import replacing
from bayesvm._version import __version__
from bayesvm.report._figures import WIDTH_INCHES, drawing, inline_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_DPI = 200


class Drawing(NamedTuple):
    """A figure to be drawn at some width in inches, and what it shows."""

    draw: Callable[[float], Figure]
    label: str


def inline_figures(drawings: Mapping[str, Drawing]) -> dict[str, str]:
    """Every figure as an element of a page."""
    with drawing():
        return {
            name: inline_svg(drawn.draw(WIDTH_INCHES), name, drawn.label) for name, drawn in drawings.items()
        }


def save_drawings(drawings: Mapping[str, Drawing], folder: str | os.PathLike[str]) -> list[Path]:
    """Write every figure as SVG and as PNG.

    Parameters
    ----------
    drawings : mapping of str to Drawing
    folder : path-like
        Made if it is not there.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    written = []
    with drawing():
        for name, drawn in drawings.items():
            figure = drawn.draw(WIDTH_INCHES)
            for ending in ("svg", "png"):
                path = place / f"{name}.{ending}"
                options = {"metadata": {"Date": None}} if ending == "svg" else {"dpi": _DPI}
                figure.savefig(path, facecolor="white", **options)
                written.append(path)
    return written


def render_page(template: str, context: Mapping[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write a page: one file that needs nothing else; never half-written.

    Parameters
    ----------
    template : str
        Name of a template of this package.
    context : mapping
        What it shows; the date and the version are added.
    path : path-like
    """
    now = datetime.datetime.now()
    made = {"made": f"{now.day} {now:%B %Y, %H:%M}", "version": __version__}
    page = _environment().get_template(template).render({**context, **made})
    with replacing(path) as part:
        part.write_text(page, encoding="utf-8")
    return Path(path)


def _environment() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise ImportError("the page needs jinja2: pip install 'bayesvm[cli]'") from error
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader("bayesvm_studies"), jinja2.PackageLoader("bayesvm.report")]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
