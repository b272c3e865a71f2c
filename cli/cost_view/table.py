"""The table that a person reads: rows with bars, the total, and what belongs to it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from cli.cost_view.report import CostReport
from cli.fleet_view.layout import append_bar
from tenon.cost.rows import Dimension, share
from tenon.cost.split import ConsumerKind
from tenon.kube.timestamps import time_text
from tenon.money import HOURS_A_MONTH, dollars, per_hour
from tenon.sentences import counted

TITLES = {
    Dimension.POOL: "NodePool",
    Dimension.NAMESPACE: "Namespace",
    Dimension.WORKLOAD: "Workload",
    Dimension.TYPE: "Type",
    Dimension.ZONE: "Zone",
    Dimension.CAPACITY_TYPE: "Capacity type",
}
MIN_BAR, MAX_BAR = 5, 30
"""Characters of a bar."""
ROOM = 60
"""Characters that a line needs for all that is no bar."""


def table(report: CostReport, width: int | None, *, is_wide: bool = False) -> Table:
    """Return the rows and the total. Bars are only for a terminal, whose ``width`` is given."""
    kinds = [kind for kind in ConsumerKind if any(kind in row.parts for row in report.rows)] if is_wide else []
    bar = max(MIN_BAR, min(MAX_BAR, width - ROOM - 11 * len(kinds))) if width is not None else 0
    lines = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    lines.add_column(TITLES.get(report.grouping.dimension, report.grouping.label), overflow="fold")
    for title in ("$/h", "$/month") if report.since is None else ("$", "$/h"):
        lines.add_column(title, justify="right", no_wrap=True)
    lines.add_column("Share", justify="right", no_wrap=True)
    for kind in kinds:
        lines.add_column(kind.value.capitalize(), justify="right", no_wrap=True)
    if bar:
        lines.add_column("", no_wrap=True)
    for row in report.rows:
        style = "dim" if row.overhead is not None else ""
        part = share(row, report.total)
        cells: list[Text | str] = [Text(row.name, style), *_amounts(report, row.amount), f"{part:.1%}"]
        cells += [_money(row.parts[kind]) if kind in row.parts else "" for kind in kinds]
        if bar:
            text = Text()
            append_bar(text, part, bar, "bright_black" if row.overhead is not None else "cyan")
            cells.append(text)
        lines.add_row(*cells)
    sums = [_money(sum(row.parts.get(kind, 0) for row in report.rows)) for kind in kinds]
    lines.add_row("Total", *_amounts(report, report.total), "", *sums, *([""] if bar else []), style="bold")
    return lines


def lines_below(report: CostReport) -> Iterator[str]:
    """Yield what belongs to the table, a sentence a line."""
    if report.since is not None:
        yield f"From {time_text(report.since)} to {time_text(report.until)}: {_nodes(report)}."
    else:
        yield f"{_nodes(report)}."
    if text := _bound(report):
        yield f"{text}."
    for saving in report.savings:
        verb = ("save" if saving.price >= 0 else "cost") + ("s" if saving.commands == 1 else "")
        amount = per_hour(abs(dollars(saving.price)))
        yield f"{counted(saving.commands, 'command')} for {saving.reason} {verb} {amount}."
    for note in report.notes:
        yield f"{note}."


def _bound(report: CostReport) -> str:
    """Say how far the cost is above the least that any nodes could cost; empty if that is not known."""
    if report.lower_bound is None:
        return ""
    cost = dollars(report.total) / report.hours if report.hours else 0.0
    times = f"; these cost {cost / report.lower_bound:.2f} times that" if report.lower_bound else ""
    when = f" at {time_text(report.bound_at)}" if report.bound_at is not None else " on average"
    return f"Lower bound{when}: any nodes for these pods cost at least {per_hour(report.lower_bound)}{times}"


def _nodes(report: CostReport) -> str:
    unpriced = f", {report.unpriced} without a price" if report.unpriced else ""
    return f"{counted(report.nodes, 'node')}{unpriced}; {report.spot_share:.0%} of the cost is for spot capacity"


def _amounts(report: CostReport, amount: int) -> tuple[str, str]:
    if report.since is None:
        return _money(amount), f"{dollars(amount) * HOURS_A_MONTH:,.2f}"
    return _money(amount), f"{dollars(amount) / report.hours:,.4f}" if report.hours else "-"


def _money(amount: int) -> str:
    return f"{dollars(amount):,.4f}"
