"""The report in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tenon.money import per_hour
from tenon.sentences import counted
from tenon.shadow.report import Document, nodes_text, types_text

SHOWN = 10
FEWER = (5, 3, 2, 1, 0)
REASON_WIDTH = len("99 Underutilized")


def show(report: Document, console: Console) -> None:
    """Print the report."""
    console.print(Group(*_parts(report, SHOWN)))


def fitting(report: Document, console: Console) -> RenderableType:
    """Return the report with as many purchases and commands as the screen has room for, so that risks and notes below
    them are not cut off.
    """
    for shown in (SHOWN, *FEWER):
        view = Group(*_parts(report, shown))
        if len(console.render_lines(view, pad=False)) < console.height:
            break
    return view


def _parts(report: Document, shown: int) -> Iterator[RenderableType]:
    purchases = report["purchases"]
    day = f"{report['at']}".partition("T")[0]
    yield Text(f"{report['verdict']}.")
    yield _both(report)
    if purchases["compared"]:
        yield Text(
            f"{counted(purchases['compared'], 'purchase')} of {counted(purchases['pods'], 'pod')} compared: Karpenter "
            f"{per_hour(purchases['karpenterPricePerHour'])}, Tenon {per_hour(purchases['tenonPricePerHour'])}"
            + (f"; {purchases['notComparable']} not comparable" if purchases["notComparable"] else "")
        )
        if shown:
            yield _purchases(purchases["differMost"][:shown], day)
    if report["commands"] and shown:
        yield _commands(report["commands"][:shown])
    hidden = [
        counted(len(entries) - shown, name)
        for entries, name in ((purchases["differMost"], "more purchase"), (report["commands"], "more command"))
        if shown < min(len(entries), SHOWN)
    ]
    if hidden:
        yield Text(f"Ctrl-C prints {' and '.join(hidden)}, for which the screen has no room")
    risks = report["risks"]
    texts = [*risks["leftOut"], *risks["refused"], *(f"pod {key}: {why}" for key, why in risks["unplaced"].items())]
    if texts:
        yield Text("risks:")
        yield from (Text(f"- {text}") for text in texts[:SHOWN])
        if len(texts) > SHOWN:
            yield Text(f"- and {len(texts) - SHOWN} more: -o json has them")
    for note in report["notes"]:
        yield Text(f"note: {note}")


def _both(report: Document) -> Table:
    rates, cost, disturbance = report["now"], report["cost"], report["disturbance"]
    has_reasons = any(disturbance[key]["byReason"] for key in disturbance)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", "$/h now", "$ so far", "nodes", "waiting pods", "pods moved"):
        table.add_column(name, justify="right" if name else "left", overflow="fold")
    table.add_column("nodes removed", justify="right", overflow="fold", min_width=REASON_WIDTH if has_reasons else None)
    for title, key in (("Karpenter", "karpenter"), ("Tenon", "tenon")):
        moves = disturbance[key]
        reasons = ", ".join(f"{count} {reason}" for reason, count in moves["byReason"].items())
        table.add_row(
            title,
            f"{rates[f'{key}PricePerHour']:.4f}",
            f"{cost[f'{key}Dollars']:.4f}",
            f"{rates[f'{key}Nodes']}",
            f"{rates[f'{key}WaitingPods']}",
            f"{moves['podsMoved']}",
            reasons or "0",
        )
    if rates["lowerBoundPricePerHour"] is not None:
        table.add_row("lower bound", f"{rates['lowerBoundPricePerHour']:.4f}")
    return table


def _purchases(entries: Sequence[Document], day: str) -> Table:
    table = _titled("purchases that differ most", ("time", "pods", "Karpenter", "Tenon", "saves $/h", "why"))
    for entry in entries:
        saving = entry["savedPricePerHour"]
        sides = (nodes_text(entry["karpenter"]), nodes_text(entry["tenon"]))
        time = f"{entry['at']}".removeprefix(f"{day}T")
        table.add_row(time, f"{entry['pods']}", *sides, "?" if saving is None else f"{saving:.4f}", entry["why"])
    return table


def _commands(entries: Sequence[Document]) -> Table:
    table = _titled("disruption by Tenon that saves most", ("reason", "removes", "buys", "pods", "saves $/h"))
    for entry in entries:
        removed, bought = (types_text(entry[side]) for side in ("removed", "bought"))
        table.add_row(entry["reason"], removed, bought, f"{entry['pods']}", f"{entry['savedPricePerHour']:.4f}")
    return table


def _titled(title: str, names: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for name in names:
        table.add_column(
            name, overflow="fold", justify="right" if name in ("pods", "saves $/h") else "left", no_wrap=name == "time"
        )
    return table
