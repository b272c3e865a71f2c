"""Renders a plan as one self-contained HTML page, with a bar of pods for each node and resource."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tenon.money import per_hour, price_text
from tenon.page.markup import Content, Markup, joined, page, tag
from tenon.page.packed_bar import BarPart, amount_text, packed_bar, share_text
from tenon.page.style import STYLE, color_of_name
from tenon.sentences import counted
from tenon.simulation.document import Document
from tenon.simulation.report import SHOWN, NodeReport, PlanReport, WorkloadShare, before_and_after

_Entry = TypeVar("_Entry")


def to_html(report: PlanReport) -> str:
    """Return the page."""
    return page("tenon simulate", STYLE, tag("h1", "What the autoscaler would do"), plan_content(report))


def plan_content(report: PlanReport, most: int | None = None) -> Content:
    """Return what the page says below its title: the figures of the plan, and its nodes and pods.

    ``most``: how many entries of each section are shown; None for all.
    """
    totals = report.document["totals"]
    figures = [
        (f"{totals['pods']}", "pods"),
        (f"{totals['unschedulable']}", "unschedulable"),
        (f"{totals['nodes']}", "new nodes"),
        (price_text(totals["pricePerHour"]), "an hour"),
    ]
    return (
        tag("div", (tag("div", tag("b", value), name) for value, name in figures), class_="figures"),
        _bound(totals["pricePerHour"], totals["lowerBoundPricePerHour"]),
        tag("p", f"{report.rules}.", class_="quiet"),
        plan_sections(report, most=most),
    )


def plan_sections(report: PlanReport, heading: str = "h2", most: int | None = None) -> Content:
    """Return a plan's nodes and pods.

    Args:
        report: the plan.
        heading: the element of the sections' titles.
        most: how many entries of each section are shown, the others are counted; None for all.
    """
    totals = report.document["totals"]

    def section(title: str, entries: Sequence[_Entry], shown_as: Callable[[_Entry], Markup]) -> Content:
        if not entries:
            return None
        more = len(entries) - most if most is not None else 0
        return (
            tag(heading, f"{title} ({len(entries)})"),
            map(shown_as, entries[:most]),
            tag("p", f"and {more} more", class_="quiet") if more > 0 else None,
        )

    return (
        section("New nodes", [node for node in report.nodes if node.price is not None], _node),
        section("Existing nodes that take pods", [node for node in report.nodes if node.price is None], _node),
        section("Unschedulable pods", report.document["unschedulable"], _refusal),
        tag("p", f"{before_and_after(totals)}.") if "nodesBeforeDisruption" in totals else None,
        section("Nodes that would be removed", report.document["disruption"], _removal),
        section("Nodes that stay", report.document.get("staying", ()), _stay),
    )


def _bound(price: float, bound: float | None) -> Content:
    if not bound or not price:
        return None
    return (
        tag(
            "p",
            f"Proven lower bound: {per_hour(bound)}. This plan is at {price / bound:.2f} times that.",
            class_="quiet",
        ),
        tag(
            "div",
            tag("i", style=f"width:{100 * min(1.0, bound / price):.1f}%"),
            class_="scale",
            title=f"lower bound {price_text(bound)} of {price_text(price)}",
        ),
    )


def _node(node: NodeReport) -> Markup:
    price = f"{per_hour(node.price)}" if node.price is not None else "there already"
    where = ", ".join(part for part in (node.zone, node.capacity_type) if part)
    others = f", {node.alternatives} other types would also fit" if node.alternatives else ""
    head = tag(
        "div",
        tag("span", tag("b", node.name), " ", node.instance_type, " ", tag("span", where + others, class_="quiet")),
        tag("span", f"{price}, {counted(node.pods, 'pod')}"),
        class_="head",
    )
    why = tag("p", node.why, class_="why") if node.why else None
    return tag("section", head, (_bar(node, resource) for resource in SHOWN), why, class_="node")


def _bar(node: NodeReport, resource: str) -> Markup:
    room, requested = node.allocatable.get(resource, 0), node.requested.get(resource, 0)
    figures = f"{amount_text(resource, requested)} of {amount_text(resource, room)} ({share_text(requested, room)})"
    return packed_bar(resource, (_part(share, resource) for share in node.shares), room, figures)


def _part(share: WorkloadShare, resource: str) -> BarPart:
    amount = share.requests.get(resource, 0)
    label = f"{share.name} x{share.count}" if share.count > 1 else share.name
    return BarPart(amount, f"{label}: {amount_text(resource, amount)}", color_of_name(share.name), label)


def _refusal(entry: Document) -> Markup:
    return tag("li", tag("code", entry["pod"]), f": {entry['reason']}")


def _removal(entry: Document) -> Markup:
    money = entry["savingPerHour"]
    saving = f"saves {per_hour(money)}" if money >= 0 else f"costs {per_hour(-money)} more"
    names = tag("code", ", ".join(entry["candidates"]))
    return tag("li", f"{entry['reason']}: ", names, f", {saving}", map(_line, entry.get("explanation", ())))


def _stay(entry: Document) -> Markup:
    return tag("li", tag("code", entry["node"] or entry["nodeClaim"]), map(_line, entry["why"]))


def _line(text: str) -> Markup:
    return joined(tag("br"), tag("span", text, class_="quiet"))
