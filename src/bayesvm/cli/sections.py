"""What a command has to say, as sections of short rows: pleasant on a terminal, plain in a pipe."""

from __future__ import annotations

import json
import math
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Row", "Section", "print_json", "print_json_list", "print_sections"]

Row = tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """A heading and rows of cells; the first cell of a row names it.

    Attributes
    ----------
    title : str
    rows : sequence of tuple of str
    header : tuple of str
        Names of the columns after the first, if they need any.
    """

    title: str
    rows: Sequence[Row]
    header: Row = ()

    @property
    def lines(self) -> list[Row]:
        """The rows, below the header if there is one."""
        return [("", *self.header), *self.rows] if self.header else list(self.rows)

    @property
    def n_columns(self) -> int:
        """Cells of the longest row."""
        return max(map(len, self.lines))


def print_sections(sections: Sequence[Section]) -> None:
    """Write the sections that have rows to standard output."""
    shown = [section for section in sections if section.rows]
    if sys.stdout.isatty():
        _print_pleasantly(shown)
    else:
        sys.stdout.write("\n".join(map(_plain, shown)))


def print_json(value: Any) -> None:
    """Write JSON to standard output, numbers that are not finite as null."""
    sys.stdout.write(_json(value) + "\n")


def print_json_list(values: Iterable[Any]) -> None:
    """The same for a list whose values come one by one, and need not be there all at once."""
    before = "[\n"
    for value in values:
        sys.stdout.write(before + textwrap.indent(_json(value), "  "))
        before = ",\n"
    sys.stdout.write("[]\n" if before == "[\n" else "\n]\n")


def _json(value: Any) -> str:
    return json.dumps(_finite(value), indent=2, default=str)


def _plain(section: Section) -> str:
    lines = section.lines
    width = [max(len(line[i]) for line in lines if len(line) > i) for i in range(section.n_columns)]
    cells = ("  ".join(cell.ljust(width[i]) for i, cell in enumerate(line)) for line in lines)
    return "\n".join([section.title, *(f"  {line}".rstrip() for line in cells)]) + "\n"


def _print_pleasantly(sections: Sequence[Section]) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    for section in sections:
        grid = Table.grid(padding=(0, 2))
        for i in range(section.n_columns):
            # A single column is a line to copy, not the name of something.
            grid.add_column(style="dim" if i == 0 < section.n_columns - 1 else "", overflow="fold")
        for number, line in enumerate(section.lines):
            style = "dim" if number == 0 and section.header else ""
            grid.add_row(*(Text(cell, style=style) for cell in line))
        console.print(Text(section.title, style="bold cyan"))
        console.print(Padding(grid, (0, 0, 1, 2)))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
