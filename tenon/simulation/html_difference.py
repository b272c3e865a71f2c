"""Renders two plans and what differs between them: figures, kinds of nodes, pods, and the bars of both side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tenon.money import per_hour, price_text
from tenon.page.markup import Content, Markup, joined, tag
from tenon.page.table import side_by_side, table
from tenon.sentences import counted
from tenon.simulation.difference import NodeKind, PlanDifference, PodChange, difference
from tenon.simulation.document import Document
from tenon.simulation.html_report import plan_sections
from tenon.simulation.report import PlanReport

DIFFERENCE_STYLE = """
.columns{columns:34rem 2;column-gap:2.5rem} .columns>div{break-inside:avoid;padding-top:.4rem}.columns h3{margin-top:0}
.columns table{min-width:100%} .less{color:var(--good)} .more{color:var(--bad)}
.sum{font-size:1.05rem;margin:.2rem 0 .8rem}
"""
MOST_DRAWN = 60
"""How many nodes and pods of a section of each plan are drawn."""
MOST_NAMED = 20
"""How many workloads with the same reason are named."""
_FIGURES: Sequence[tuple[str, str, Callable[[float], str]]] = (
    ("price of new nodes an hour", "pricePerHour", price_text),
    ("proven lower bound an hour", "lowerBoundPricePerHour", price_text),
    ("new nodes", "nodes", lambda value: f"{value}"),
    ("pods", "pods", lambda value: f"{value}"),
    ("unschedulable pods", "unschedulable", lambda value: f"{value}"),
    ("nodes of NodePools after the disruption", "nodesAfterDisruption", lambda value: f"{value}"),
    ("their price an hour", "pricePerHourAfterDisruption", price_text),
)
"""Title, the member of `totals`, and how it is written."""


def compared_content(before: PlanReport, after: PlanReport) -> Content:
    """Return what differs between two plans, and both plans."""
    change = difference(before.document, after.document)
    return (
        tag("p", _summary(before.document["totals"], after.document["totals"], change), class_="sum"),
        _in_columns(
            _figures(before.document["totals"], after.document["totals"]),
            _reasons("Pods that find no node any more", change.unschedulable),
            _nodes(change),
            _moves(change.moves),
            _reasons("Pods that find a node now, and why they had none", change.schedulable),
            _counts("Pods that are new", change.added),
            _counts("Pods that are gone", change.removed),
        ),
        tag("h2", "Both plans"),
        side_by_side(
            (tag("h3", "Before"), plan_sections(before, "h4", MOST_DRAWN)),
            (tag("h3", "Now"), plan_sections(after, "h4", MOST_DRAWN)),
        ),
    )


def _in_columns(*parts: Content) -> Markup:
    """Return parts of different heights in as many columns as have room, without gaps."""
    return tag("div", (tag("div", part) for part in parts if part), class_="columns")


def _summary(before: Document, after: Document, change: PlanDifference) -> Markup:
    if change.is_empty:
        return joined("Both plans buy the same nodes at the same prices for the same pods.")
    cost = round(after["pricePerHour"] - before["pricePerHour"], 6)
    if cost:
        share = f" ({cost / before['pricePerHour']:+.1%})" if before["pricePerHour"] else ""
        text = f"The new nodes cost {per_hour(abs(cost))} {'more' if cost > 0 else 'less'}{share}"
        is_good = cost < 0 and not change.unschedulable  # nodes that were not bought are no saving
        price = tag("b", text, class_="more" if cost > 0 else "less" if is_good else None)
    else:
        price = tag("b", "The new nodes cost the same")
    moved_pods = sum(move.count for move in change.moves)
    stranded_pods = sum(pods.count for pods in change.unschedulable)
    return joined(
        price,
        f"; {counted(moved_pods, 'pod')} {'comes' if moved_pods == 1 else 'come'} to other nodes"
        if moved_pods
        else None,
        "; " if stranded_pods else None,
        tag("b", f"{counted(stranded_pods, 'pod')} can no longer be scheduled", class_="more")
        if stranded_pods
        else None,
        ".",
    )


def _figures(before: Document, after: Document) -> Content:
    figures = table(
        ("", "before", "now", "difference"),
        [
            (
                title,
                text(before.get(key, 0)),
                text(after.get(key, 0)),
                _signed(after.get(key, 0) - before.get(key, 0), text),
            )
            for title, key, text in _FIGURES
            if key in before or key in after
        ],
        figures=(1, 2, 3),
    )
    return (tag("h3", "In all"), figures)


def _signed(value: float, text: Callable[[float], str]) -> str:
    rounded = round(value, 4)
    return f"{'+' if rounded > 0 else '−'}{text(abs(rounded))}" if rounded else "="


def _nodes(change: PlanDifference) -> Content:
    if not change.nodes:
        return None
    rows = [
        (
            _place(nodes.kind),
            _number_and_price(nodes.count_before, nodes.price_before),
            _number_and_price(nodes.count_after, nodes.price_after),
        )
        for nodes in change.nodes
    ]
    return (
        tag("h3", "New nodes that differ, with their price an hour"),
        table(("", "before", "now"), rows, figures=(1, 2)),
    )


def _number_and_price(count: int, price: float) -> str:
    return f"{count} for {price_text(price)}" if count else "none"


def _moves(moves: Sequence[PodChange]) -> Content:
    if not moves:
        return None
    rows = [(tag("code", move.workload), str(move.count), _place(move.before), _place(move.after)) for move in moves]
    heading = tag("h3", f"Pods that come to other nodes ({sum(move.count for move in moves)})")
    return (heading, table(("workload", "pods", "before", "now"), rows, figures=(1,)))


def _reasons(title: str, changes: Sequence[PodChange]) -> Content:
    """Return the workloads of pods with and without a node, by the reason for which they have or had none."""
    if not changes:
        return None
    counts: dict[str, Counter[str]] = {}
    for change in changes:
        counts.setdefault(change.reason, Counter())[change.workload] += change.count
    heading = tag("h3", f"{title} ({sum(change.count for change in changes)})")
    return (heading, [tag("p", _workloads(by_workload), f": {reason}") for reason, by_workload in counts.items()])


def _workloads(counts: Mapping[str, int]) -> Markup:
    names = list(counts)
    more = len(names) - MOST_NAMED
    return joined(
        [("" if name == names[0] else ", ", tag("code", name), f" x{counts[name]}") for name in names[:MOST_NAMED]],
        f" and {more} more" if more > 0 else None,
    )


def _place(kind: NodeKind | None) -> Content:
    assert kind is not None  # of pods that move
    details = f"{kind.capacity_type}, {kind.zone}, NodePool {kind.pool}" if kind.pool else "existing node"
    return (kind.instance_type, tag("br"), tag("span", details, class_="quiet"))


def _counts(title: str, counts: Mapping[str, int]) -> Content:
    if not counts:
        return None
    rows = [(tag("code", workload), str(count)) for workload, count in counts.items()]
    return (tag("h3", f"{title} ({sum(counts.values())})"), table(("workload", "pods"), rows, figures=(1,)))
