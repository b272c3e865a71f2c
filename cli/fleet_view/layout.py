"""Lays rows out in lines of a given width: columns are dropped by priority, and no line is wrapped.

Without a width, as in a file or a pipe, each column is as wide as its longest text, and nothing is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from tenon.apis import labels
from tenon.fleet.disruption_state import DisruptionState
from tenon.fleet.order import GroupBy
from tenon.fleet.rows import NodeRow
from tenon.node.state import Stage

GROUP_TITLES = {GroupBy.POOL: "NodePool", GroupBy.ZONE: "Zone"}
FULL, EMPTY = "█", "░"
MIN_BAR, MAX_BAR = 5, 20
"""Characters of a bar."""
ROOMY = 125
"""From this width on, two spaces separate columns."""
NAME_WIDTH = 14
WHY_WIDTH = 24
"""The fewest characters of these texts."""

CAPACITY_STYLES = {labels.SPOT: "magenta", labels.ON_DEMAND: "cyan", labels.RESERVED: "green"}
STAGE_STYLES = {Stage.LIVE: "green", Stage.REBOOTING: "yellow"}
STARTING, LEAVING = "yellow", "red"
DISRUPTION_STYLES = {
    DisruptionState.LEAVING: LEAVING,
    DisruptionState.IN_COMMAND: "yellow",
    DisruptionState.BLOCKED: "red",
    DisruptionState.PROTECTED: "blue",
    DisruptionState.ASKED: "yellow",
    DisruptionState.FROZEN: "blue",
    DisruptionState.DRIFTED: "yellow",
    DisruptionState.EXPIRING: "yellow",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the view. ``priority``: the column with the lowest one is dropped first."""

    title: str
    priority: int
    cell: Callable[[NodeRow, datetime], str]
    style: Callable[[NodeRow], str] = lambda _: ""
    is_figure: bool = False
    share: Callable[[NodeRow], float] | None = None
    """For a bar: the part of it that is full."""
    least: int = 0
    """The fewest characters that its texts are cut to; 0 if they are not cut."""
    narrow: Callable[[str], str] | None = None
    """Returns the same text in fewer characters, for when it does not fit."""


def append_bar(text: Text, share: float, length: int, style: str) -> None:
    """Append a bar of this length."""
    full = min(length, max(0, round(share * length)))
    text.append(FULL * full, style)
    text.append(EMPTY * (length - full), "bright_black")


def share_style(share: float) -> str:
    """Return the color of a bar: little used, well used, nearly full."""
    return "red" if share < 0.3 else "yellow" if share < 0.6 else "green"


def percent(share: float) -> str:
    """Return a share in at most four characters."""
    return f"{min(share, 9.99):.0%}"


def price_cell(price: float | None) -> str:
    """Return dollars an hour; '-' if the price is not known."""
    return "-" if price is None else f"{price:.4f}" if price < 100 else f"{price:.2f}"


def age_text(row: NodeRow, now: datetime) -> str:
    """Return the age in one unit, in at most four characters."""
    if row.created is None:
        return "-"
    seconds = row.age_seconds(now)
    unit, size = next((unit, size) for unit, size in _AGES if seconds < 2 * _LARGER[unit])
    return f"{seconds // size:.0f}{unit}"


_AGES = (("s", 1), ("m", 60), ("h", 3600), ("d", 86400))
_LARGER = {"s": 60.0, "m": 3600.0, "h": 86400.0, "d": float("inf")}


def stage_text(row: NodeRow) -> str:
    """Return the stage, and whether the node needs attention."""
    return f"{row.stage.value}!" if row.is_blocked else row.stage.value


def stage_style(row: NodeRow) -> str:
    """Return the color of the stage."""
    if row.is_blocked:
        return "bold red"
    return STAGE_STYLES.get(row.stage, LEAVING if row.stage.leaving else STARTING)


def _capacity_style(row: NodeRow) -> str:
    return CAPACITY_STYLES.get(row.capacity_type, "")


def _cpu_text(row: NodeRow) -> str:
    return f"{row.cpu_requests / 1000:.4g}/{row.cpu / 1000:.4g}"


def _memory_text(row: NodeRow) -> str:
    return f"{row.memory_requests / 2**30:.1f}/{row.memory / 2**30:.1f}"


def short_name(name: str) -> str:
    """Return the name of a Node without its domain."""
    return name.partition(".")[0]


def _short_zone(zone: str) -> str:
    return zone.rpartition("-")[2]


COLUMNS = (
    Column("Node", 100, lambda row, _: row.name, least=NAME_WIDTH, narrow=short_name),
    Column("CPU", 95, lambda row, _: percent(row.cpu_share), is_figure=True, share=lambda row: row.cpu_share),
    Column("Memory", 94, lambda row, _: percent(row.memory_share), is_figure=True, share=lambda row: row.memory_share),
    Column("Cores", 45, lambda row, _: _cpu_text(row), is_figure=True),
    Column("GiB", 44, lambda row, _: _memory_text(row), is_figure=True),
    Column("Pods", 75, lambda row, _: str(row.pods), is_figure=True),
    Column("$/h", 90, lambda row, _: price_cell(row.price), is_figure=True),
    Column("Type", 85, lambda row, _: row.instance_type or "-", _capacity_style),
    Column("Capacity", 70, lambda row, _: row.capacity_type or "-", _capacity_style),
    Column("Zone", 60, lambda row, _: row.zone or "-", narrow=_short_zone),
    Column("NodePool", 65, lambda row, _: row.pool or "-", least=8),
    Column("Age", 78, age_text, is_figure=True),
    Column("Stage", 88, lambda row, _: stage_text(row), stage_style),
    Column("Ready", 50, lambda row, _: "yes" if row.ready else "no", lambda row: "" if row.ready else "red"),
    Column("NodeClaim", 30, lambda row, _: row.claim or "-"),
    Column(
        "Disruption", 56, lambda row, _: row.disruption.value, lambda row: DISRUPTION_STYLES.get(row.disruption, "")
    ),
    Column("Why", 54, lambda row, _: row.why, lambda _: "dim", least=WHY_WIDTH),
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A column with its width, and the length of its bar."""

    column: Column
    width: int
    bar: int = 0
    is_narrow: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns that fit."""

    columns: Sequence[Shown]
    gap: int
    width: int | None

    def header(self) -> Text:
        """Return the line with the titles."""
        return self._line([(shown, shown.column.title, "bold") for shown in self.columns])

    def line(self, row: NodeRow, now: datetime) -> Text:
        """Return the line of a row."""
        return self._line(
            [(shown, shown.column.cell(row, now), shown.column.style(row)) for shown in self.columns], row
        )

    def _line(self, cells: Sequence[tuple[Shown, str, str]], row: NodeRow | None = None) -> Text:
        text = Text(no_wrap=True, end="")
        for number, (shown, cell, style) in enumerate(cells):
            last = number == len(cells) - 1
            if number:
                text.append(" " * self.gap)
            if shown.bar and row is not None and shown.column.share is not None:
                share = shown.column.share(row)
                append_bar(text, share, shown.bar, share_style(share) if row.stage is Stage.LIVE else "bright_black")
                text.append(cell.rjust(shown.width - shown.bar), style)
                continue
            narrowed = shown.column.narrow(cell) if shown.is_narrow and shown.column.narrow is not None else cell
            fitted = fit(narrowed, shown.width)
            padding = " " * (shown.width - cell_len(fitted))
            if shown.column.is_figure and not shown.bar:
                text.append(padding + fitted, style)
            else:
                text.append(fitted if last else fitted + padding, style)
        if self.width is not None:
            text.truncate(self.width)
        return text


def fit(text: str, width: int) -> str:
    """Return the text, cut to this number of cells with an ellipsis."""
    return text if cell_len(text) <= width else set_cell_size(text, max(0, width - 1)) + "…"


def layout(
    rows: Sequence[NodeRow],
    now: datetime,
    width: int | None,
    group_by: GroupBy = GroupBy.NONE,
    columns: Sequence[Column] = COLUMNS,
) -> Layout:
    """Choose the columns for these rows. Without ``width`` all are shown, at full length and without bars.

    The column of what rows are grouped by says nothing that the title of the group does not, so it is left out.
    """
    natural = {
        column.title: max([cell_len(column.title), *(cell_len(column.cell(row, now)) for row in rows)])
        for column in columns
    }
    if width is None:
        columns = [column for column in columns if column.title != "Why" or any(row.why for row in rows)]
        return Layout([Shown(column, natural[column.title]) for column in columns], 3, None)
    gap = 2 if width >= ROOMY else 1
    narrow = {
        column.title: max([cell_len(column.title), *(cell_len(column.narrow(column.cell(row, now))) for row in rows)])
        for column in columns
        if column.narrow is not None
    }
    columns = [column for column in columns if column.title != GROUP_TITLES.get(group_by)]
    least = {column.title: _least(column, narrow.get(column.title, natural[column.title])) for column in columns}
    while len(columns) > 1 and _total(least, columns, gap) > width:
        columns.remove(min(columns, key=lambda column: column.priority))
    room = width - _total(least, columns, gap)
    widths = {column.title: least[column.title] for column in columns}
    for column in columns:  # short texts first: a longer name or reason is worth more than a longer bar
        if column.least and column.title != "Why":
            most = narrow.get(column.title, natural[column.title])
            room -= (more := min(room, max(0, most - widths[column.title])))
            widths[column.title] += more
    bars = [column for column in columns if column.share is not None]
    missing_width = natural["Why"] - widths["Why"] if "Why" in widths else 0  # a reason is worth more than a longer bar
    longer = max(0, min(MAX_BAR - MIN_BAR, room // (2 * len(bars)), (room - missing_width) // len(bars))) if bars else 0
    for column in bars:
        widths[column.title] += longer
        room -= longer
    shown_narrow = _with_full_name(columns, widths, natural, room)
    room = width - _total(widths, columns, gap)
    for column in columns:
        if column.title == "Why":
            widths["Why"] += room
    return Layout(
        [
            Shown(
                column,
                widths[column.title],
                widths[column.title] - 5 if column.share is not None else 0,
                column.title in shown_narrow,
            )
            for column in columns
        ],
        gap,
        width,
    )


def _with_full_name(
    columns: Sequence[Column], widths: dict[str, int], natural: dict[str, int], room: int
) -> frozenset[str]:
    """Give columns with a short form their full width if there is room, and return those that keep the short form."""
    short_titles = set()
    reserved = max(WHY_WIDTH, natural["Why"] - widths["Why"]) if "Why" in widths else 0
    for column in columns:
        if column.narrow is None:
            continue
        more = natural[column.title] - widths[column.title]
        if more <= room - reserved or more <= 0:
            widths[column.title] += max(0, more)
            room -= max(0, more)
        else:
            short_titles.add(column.title)
    return frozenset(short_titles)


def _least(column: Column, natural: int) -> int:
    if column.share is not None:
        return MIN_BAR + 5
    if column.title == "Why":
        return column.least  # not less for short reasons: the column would come and go with them
    return min(natural, max(column.least, len(column.title))) if column.least else natural


def _total(widths: dict[str, int], columns: Sequence[Column], gap: int) -> int:
    return sum(widths[column.title] for column in columns) + gap * (len(columns) - 1)
