"""Fits a table to the terminal: important columns keep their width, and the others shrink or are dropped.

Without this, a table that is too wide truncates every column a little, including the price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from rich import box
from rich.markup import escape
from rich.table import Table

GAP = 2
"""Spaces between two columns, and around the table."""
LETTERS = 10
"""Minimum number of letters of a truncated text."""


class Shrink(IntEnum):
    """How a column reacts to a table that is too wide, in the order in which columns are dropped."""

    NEVER = 0
    GO = 1
    """The column cannot shrink."""
    CUT = 2
    """The text can be truncated, down to ``LETTERS``."""
    BREAK = 3
    """The text can wrap between words."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column. Its cells are plain text."""

    name: str
    cells: Sequence[str]
    figure: bool = False
    give: Shrink = Shrink.NEVER

    @property
    def width(self) -> int:
        """Width of the longest text."""
        return max(map(len, (self.name, *self.cells)))

    @property
    def least(self) -> int:
        """Minimum readable width."""
        if self.give is Shrink.CUT:
            return min(self.width, LETTERS)
        if self.give is Shrink.BREAK:
            return max(len(word) for text in (self.name, *self.cells) for word in text.split() or [""])
        return self.width


def table(title: str, columns: Sequence[Column], width: int) -> Table:
    """Build a table of the columns that fit the width."""
    shown = _fitting([column for column in columns if any(column.cells)], width)
    rich_table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column, wide in shown:
        rich_table.add_column(
            column.name,
            justify="right" if column.figure else "left",
            no_wrap=column.figure or column.give is Shrink.CUT,
            overflow="ellipsis" if column.give is Shrink.CUT else "fold",
            min_width=wide if column.figure else 1,
            max_width=wide,
        )
    for cells in zip(*(column.cells for column, _ in shown), strict=True):
        rich_table.add_row(*map(escape, cells))
    return rich_table


def _fitting(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """Return the columns with their widths.

    All columns that can shrink do so, from the right, before one is dropped.
    """
    remaining_columns = list(columns)
    while True:
        wide = [column.width for column in remaining_columns]
        excess = sum(wide) + GAP * len(remaining_columns) - width
        for number in reversed(range(len(remaining_columns))):
            kept_width = max(remaining_columns[number].least, wide[number] - max(0, excess))
            excess -= wide[number] - kept_width
            wide[number] = kept_width
        willing = [column for column in remaining_columns if column.give]
        if excess <= 0 or not willing:
            return list(zip(remaining_columns, wide, strict=True))
        remaining_columns.remove(min(willing, key=lambda column: column.give))
