"""The columns of ``tenon node list``: those of `tenon top` without bars, in an order for reading once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from rich.text import Text

from cli.fleet_view.layout import COLUMNS, Column, layout
from cli.fleet_view.screen import amounts_line, left_out_lines, totals_line
from tenon.fleet.rows import NodeRow
from tenon.fleet.summary import totals
from tenon.kube.timestamps import format_instant

_OF_TOP = {column.title: replace(column, share=None) for column in COLUMNS}


def _stage_text(row: NodeRow, _: datetime) -> str:
    """The stage, and in a word whether a person must act or has acted: no other column is always shown."""
    return " ".join(
        filter(None, (row.stage.value, "blocked" if row.is_blocked else "", "kept" if row.kept_until else ""))
    )


def _instant_text(instant: datetime | None) -> str:
    return format_instant(instant) if instant is not None else "-"


LIST_COLUMNS: tuple[Column, ...] = (
    _OF_TOP["Node"],
    replace(_OF_TOP["NodeClaim"], priority=62),
    replace(_OF_TOP["Stage"], cell=_stage_text),
    replace(_OF_TOP["Ready"], priority=80),
    _OF_TOP["NodePool"],
    _OF_TOP["Type"],
    _OF_TOP["Capacity"],
    _OF_TOP["Zone"],
    _OF_TOP["$/h"],
    _OF_TOP["Age"],
    _OF_TOP["Pods"],
    replace(_OF_TOP["CPU"], priority=77),
    replace(_OF_TOP["Memory"], priority=76),
    _OF_TOP["Cores"],
    _OF_TOP["GiB"],
    Column("Kept until", 42, lambda row, _: _instant_text(row.kept_until)),
    Column("Expires", 40, lambda row, _: _instant_text(row.expires)),
    _OF_TOP["Disruption"],
    _OF_TOP["Why"],
)


def list_lines(rows: Sequence[NodeRow], now: datetime, width: int | None) -> list[Text]:
    """Return a title, a line for each node, an empty line, and those with the totals.

    Without ``width``, nothing is left out or cut.
    """
    columns = [column for column in LIST_COLUMNS if column.title != "Kept until" or any(row.kept_until for row in rows)]
    chosen_layout = layout(rows, now, width, columns=columns)
    sums = totals(rows)
    lines = [chosen_layout.header(), *(chosen_layout.line(row, now) for row in rows)]
    return [*lines, Text(), totals_line(sums), amounts_line(sums), *left_out_lines(sums)]
