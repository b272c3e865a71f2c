"""Prints a plan as tables.

Important columns keep their width, and the others shrink or are dropped: a terminal truncates every column of a table
that is too wide, including the price.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from itertools import groupby

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from cli.console import indented, output_console
from tenon.apis.reasons import Reason
from tenon.messages.base import REBOOT
from tenon.money import per_hour, price_text
from tenon.resources import CPU, MEMORY
from tenon.sentences import counted, first_few
from tenon.simulation.document import Document
from tenon.simulation.report import NodeReport, PlanReport, before_and_after

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


MAX_ROWS = 60
"""Maximum number of nodes listed one by one. Above it, similar nodes share a row."""
MAX_REASONS = 25
MAX_EXPLANATIONS = 12
"""Maximum number of explanations of instance types that are printed."""


def show(report: PlanReport, console: Console | None = None) -> None:
    """Print the report."""
    console = console or output_console()
    nodes = [node for node in report.nodes if node.price is not None]
    taking = [node for node in report.nodes if node.price is None]
    if nodes:
        console.print(_nodes("New nodes", nodes, console.width))
        console.print(_whys(report.reasons))
        console.print()
    if taking:
        console.print(_nodes("Existing nodes that take pods", taking, console.width))
    _unschedulable(console, report.document["unschedulable"])
    _disruption(console, report.document["disruption"])
    _staying(console, report.document.get("staying", ()))
    _forecast(console, report.document)
    _rollouts(console, report.document.get("rollouts", ()))
    _totals(console, report.document["totals"])
    if nodes:
        console.print(f"[dim]{escape(report.rules)}[/dim]", highlight=False)


def _nodes(title: str, nodes: Sequence[NodeReport], width: int) -> Table:
    rows = _rows(nodes)
    first = [equal_nodes[0] for equal_nodes in rows]
    columns = (
        Column("node", [_name(equal_nodes) for equal_nodes in rows]),
        Column("instance type", [node.instance_type for node in first]),
        Column("offering", [f"{node.zone} {node.capacity_type}" for node in first], give=Shrink.BREAK),
        Column(
            "other types", [str(n.alternatives) if n.alternatives else "" for n in first], figure=True, give=Shrink.GO
        ),
        Column("$/h", [_price(equal_nodes) for equal_nodes in rows], figure=True),
        Column("pods", [str(sum(node.pods for node in equal_nodes)) for equal_nodes in rows], figure=True),
        Column("cpu", [_percent(equal_nodes, CPU) for equal_nodes in rows], figure=True),
        Column("memory", [_percent(equal_nodes, MEMORY) for equal_nodes in rows], figure=True),
        Column("holds", [_holds(equal_nodes) for equal_nodes in rows], give=Shrink.CUT),
    )
    return table(title, columns, width)


def _name(equal_nodes: Sequence[NodeReport]) -> str:
    first, count = equal_nodes[0].name, len(equal_nodes)
    return first if count == 1 else f"{first} .. {equal_nodes[-1].name.rpartition('-')[2]} ({count})"


def _price(equal_nodes: Sequence[NodeReport]) -> str:
    prices = [node.price for node in equal_nodes if node.price is not None]
    return f"{sum(prices):.4f}" if prices else ""


def _whys(reasons: Mapping[str, Sequence[str]]) -> Table:
    """Explanations of instance types, each once for all nodes it applies to. Only the most common ones are shown."""
    shown = Table(title="Why these types", title_justify="left", box=None, show_header=False, pad_edge=False)
    shown.add_column(no_wrap=True)
    shown.add_column(style="dim")
    common = sorted(reasons, key=lambda why: -len(reasons[why]))[:MAX_EXPLANATIONS]
    for why, names in reasons.items():
        if why in common:
            shown.add_row(escape(first_few(names, 1)), escape(why))
    if len(reasons) > MAX_EXPLANATIONS:
        shown.add_row("", f"and {len(reasons) - MAX_EXPLANATIONS} more reasons: see -o json")
    return shown


def _rows(nodes: Sequence[NodeReport]) -> list[list[NodeReport]]:
    if len(nodes) <= MAX_ROWS:
        return [[node] for node in nodes]
    kind = lambda node: (node.pool, node.instance_type, node.zone, node.capacity_type)  # noqa: E731
    return [list(equal_nodes) for _, equal_nodes in groupby(sorted(nodes, key=kind), key=kind)]


def _percent(nodes: Sequence[NodeReport], resource: str) -> str:
    return f"{sum(node.used(resource) for node in nodes) / len(nodes):.0%}"


def _holds(nodes: Sequence[NodeReport]) -> str:
    counts: dict[str, int] = {}
    for node in nodes:
        for share in node.shares:
            name = share.name.removeprefix("default/")
            counts[name] = counts.get(name, 0) + share.count
    texts = [f"{name} x{count}" if count > 1 else name for name, count in counts.items() if count]
    return first_few(texts, 3)


def _unschedulable(console: Console, entries: Sequence[Document]) -> None:
    reasons: dict[str, list[str]] = {}
    for entry in entries:
        reasons.setdefault(entry["reason"], []).append(entry["pod"])
    if not reasons:
        return
    console.print("[bold]Unschedulable[/bold]")
    for reason, pods in list(reasons.items())[:MAX_REASONS]:
        console.print(indented(Text.assemble((first_few(pods, 1), "red"), f": {reason}")))
    if len(reasons) > MAX_REASONS:
        console.print(f"  and {len(reasons) - MAX_REASONS} more reasons: see -o json")
    console.print()


def _disruption(console: Console, entries: Sequence[Document]) -> None:
    for entry in entries:
        _command(console, entry)


def _command(console: Console, entry: Document) -> None:
    names, saving = ", ".join(entry["candidates"]), entry["savingPerHour"]
    money = f"saves {per_hour(saving)}" if saving >= 0 else f"costs {per_hour(-saving)} more"
    outcome = "would reboot" if entry.get("decision") == REBOOT else f"would be removed, which {money}"
    text = f"{entry['reason']}: {names} {outcome}"
    console.print(escape(text))
    for line in entry.get("explanation", ()):
        console.print(indented(line))


def _staying(console: Console, entries: Sequence[Document]) -> None:
    if not entries:
        return
    shown = entries[:MAX_ROWS]
    columns = (
        Column("node", [entry["node"] or entry["nodeClaim"] for entry in shown]),
        Column("$/h", [f"{entry['pricePerHour']:.4f}" for entry in shown], figure=True),
        Column("why", [entry["why"][0] if entry["why"] else "" for entry in shown], give=Shrink.BREAK),
    )
    console.print(table("Nodes that stay", columns, console.width))
    if len(entries) > len(shown):
        console.print(f"and {len(entries) - len(shown)} more nodes: see -o json", highlight=False)
    console.print("[dim]To see everything that keeps one of them: --node NAME[/dim]", highlight=False)
    console.print()


def _acts_now(document: Document) -> bool:
    return any(Reason(entry["reason"]).traits.is_consolidation for entry in document["disruption"])


def _forecast(console: Console, document: Document, node: str = "") -> None:
    """When consolidation may act next, and what it would do then. It says nothing if the commands shown are for now.

    ``node``: the only Node whose commands are shown; the others are counted.
    """
    if "forecast" not in document or _acts_now(document):
        return
    if elsewhere := document.get("consolidatedElsewhere", ()):
        console.print("Next consolidation: now", highlight=False)
        console.print(escape(f"  {node} stays; {first_few(elsewhere, 3)} would be removed"), highlight=False)
        return
    from tenon.disruption.commands.forecast_page import NOTHING_ENDS, next_consolidation_text  # only disruption has one

    forecast_times = document["forecast"]
    if not forecast_times:
        console.print(NOTHING_ENDS, highlight=False, soft_wrap=True)
        return
    last = forecast_times[-1]
    text = next_consolidation_text(
        datetime.fromisoformat(last["at"]),
        timedelta(seconds=last["inSeconds"]),
        acts=bool(last["commands"]),
        at_the_latest=last.get("atTheLatest", False),
    )
    console.print(text, highlight=False, soft_wrap=True)
    if last["commands"]:
        own = [entry for entry in last["commands"] if not node or node in entry["candidates"]]
        for entry in own:
            _command(console, entry)
        if not own:
            others = sorted(name for entry in last["commands"] for name in entry["candidates"])
            console.print(escape(f"  {node} stays; {first_few(others, 3)} would be removed"), highlight=False)


def _rollouts(console: Console, entries: Sequence[Document]) -> None:
    for entry in entries:
        waves = entry["waves"]
        columns = (
            Column("wave", [str(wave["wave"]) for wave in waves], figure=True),
            Column("zone", [wave["zone"] for wave in waves], give=Shrink.GO),
            Column("goal", [wave["goal"] for wave in waves], figure=True),
            Column("replaces", [str(len(wave["nodeClaims"])) for wave in waves], figure=True),
            Column("nodes", [first_few(wave["nodeClaims"], 3) for wave in waves], give=Shrink.BREAK),
        )
        title = f"NodeRollout {entry['nodeRollout']}, NodePool {entry['nodePool']} ({entry['phase']})"
        text = f"{title}, if every gate holds and no node comes or goes:"
        console.print(escape(text), highlight=False, soft_wrap=True)
        console.print(table("Waves", columns, console.width))
        console.print()


def show_node(document: Document, name: str) -> None:
    """Print why one Node would be removed, or why it stays. The document has the entries of that Node only."""
    console = output_console()
    for entry in document["disruption"]:
        _command(console, entry)
    for entry in document["staying"]:
        console.print(escape(f"{name}:"), highlight=False)
        for line in entry["why"]:
            console.print(indented(line))
        _forecast(console, document, entry["node"])


def _totals(console: Console, totals: Document) -> None:
    if "nodesBeforeDisruption" in totals:
        console.print(f"[bold]{escape(before_and_after(totals))}[/bold]", highlight=False)
    placed = totals["pods"] - totals["unschedulable"]
    new_nodes = f"{counted(totals['nodes'], 'new node')} for {per_hour(totals['pricePerHour'])}"
    text = f"{placed} of {totals['pods']} pods placed; {new_nodes}"
    bound = totals["lowerBoundPricePerHour"]
    if bound:
        text += f" (lower bound {price_text(bound)})"
    console.print(f"[bold]{text}[/bold]; decided in {totals['solveSeconds']} s", highlight=False)
