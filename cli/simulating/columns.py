"""Fit a table to a terminal: what a row is read for stays whole, what only adds to it shrinks and then goes.

Left alone, a table that is too wide cuts every column a little, the price as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from rich import box
from rich.markup import escape
from rich.table import Table

GAP = 2
"""Blanks between two columns, and beside all of them together."""
LETTERS = 10
"""Of a text that is cut these stay at least."""


class Give(IntEnum):
    """What a column does where the table is too wide, in the order in which they go when shrinking is not enough."""

    NEVER = 0
    GO = 1
    """It cannot shrink."""
    CUT = 2
    """Its end can be cut, down to some letters."""
    BREAK = 3
    """Its words can stand below one another."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its cells are plain text."""

    name: str
    cells: Sequence[str]
    figure: bool = False
    give: Give = Give.NEVER

    @property
    def width(self) -> int:
        """What its longest text takes."""
        return max(map(len, (self.name, *self.cells)))

    @property
    def least(self) -> int:
        """What it can shrink to and still be read."""
        if self.give is Give.CUT:
            return min(self.width, LETTERS)
        if self.give is Give.BREAK:
            return max(len(word) for text in (self.name, *self.cells) for word in text.split() or [""])
        return self.width


def table(title: str, columns: Sequence[Column], width: int) -> Table:
    """The table of the columns that have room in the width."""
    shown = _fitting([column for column in columns if any(column.cells)], width)
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column, wide in shown:
        made.add_column(
            column.name,
            justify="right" if column.figure else "left",
            no_wrap=column.figure or column.give is Give.CUT,
            overflow="ellipsis" if column.give is Give.CUT else "fold",
            min_width=wide if column.figure else 1,
            max_width=wide,
        )
    for cells in zip(*(column.cells for column, _ in shown), strict=True):
        made.add_row(*map(escape, cells))
    return made


def _fitting(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """Columns with their widths: all that can shrink, from the right, do so before one goes."""
    left = list(columns)
    while True:
        wide = [column.width for column in left]
        excess = sum(wide) + GAP * len(left) - width
        for number in reversed(range(len(left))):
            kept = max(left[number].least, wide[number] - max(0, excess))
            excess -= wide[number] - kept
            wide[number] = kept
        willing = [column for column in left if column.give]
        if excess <= 0 or not willing:
            return list(zip(left, wide, strict=True))
        left.remove(min(willing, key=lambda column: column.give))
