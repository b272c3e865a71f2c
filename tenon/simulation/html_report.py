"""Renders a plan as one self-contained HTML page, with a bar of pods for each node and resource."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from zlib import crc32

from tenon.resources import CPU
from tenon.simulation.document import Document
from tenon.simulation.report import SHOWN, NodeReport, Report, before_and_after

_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1c2430; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem 2.2rem; margin: 1rem 0; }
.figures div b { display: block; font-size: 1.5rem; font-weight: 600; }
.node { border-top: 1px solid #d9dfe7; padding: .6rem 0; }
.node header { display: flex; justify-content: space-between; gap: 1rem; flex-wrap: wrap; }
.bar { display: grid; grid-template-columns: 4.5rem 1fr 11rem; align-items: center; gap: .6rem; margin-top: .25rem; }
.room { display: flex; height: 1.25rem; background: #eef1f5; border-radius: 3px; overflow: hidden; }
.room span { border-right: 1px solid #fff; font-size: 11px; line-height: 1.25rem; overflow: hidden; white-space: nowrap;
  padding-left: 3px; box-sizing: border-box; min-width: 1px; color: #14202e; }
.quiet, .why { color: #5d6b7c; } .why { font-size: 12px; margin: .3rem 0 0 5.1rem; }
li { margin: .3rem 0; } code { font-size: .92em; }
.scale { position: relative; height: 1.1rem; background: #e3ecf7; border-radius: 3px; max-width: 40rem; }
.scale i { display: block; height: 100%; background: #7ba7d9; border-radius: 3px; }
"""


def to_html(report: Report) -> str:
    """Return the page."""
    totals = report.document["totals"]
    figures = [
        (f"{totals['pods']}", "pods"),
        (f"{totals['unschedulable']}", "unschedulable"),
        (f"{totals['nodes']}", "new nodes"),
        (f"${totals['pricePerHour']:.3f}", "an hour"),
    ]
    shown = "".join(f"<div><b>{escape(value)}</b>{name}</div>" for value, name in figures)
    parts = [
        "<!doctype html>\n<html lang=en><meta charset=utf-8><title>tenon simulate</title>",
        f"<style>{_STYLE}</style>\n<h1>What the autoscaler would do</h1>\n<div class=figures>{shown}</div>",
        _bound(totals["pricePerHour"], totals["lowerBoundPricePerHour"]),
        f"<p class=quiet>{escape(report.rules)}.</p>",
        *_section("New nodes", map(_node, (node for node in report.nodes if node.price is not None))),
        *_section("Existing nodes that take pods", map(_node, (n for n in report.nodes if n.price is None))),
        *_section("Unschedulable pods", map(_refusal, report.document["unschedulable"])),
        f"<p>{escape(before_and_after(totals))}.</p>" if "nodesBeforeDisruption" in totals else "",
        *_section("Nodes that would be removed", map(_removal, report.document["disruption"])),
        *_section("Nodes that stay", map(_stay, report.document.get("staying", ()))),
    ]
    return "\n".join(part for part in parts if part) + "\n</html>\n"


def _bound(price: float, bound: float | None) -> str:
    if not bound or not price:
        return ""
    return (
        f"<p class=quiet>Proven lower bound: ${bound:.3f} an hour. This plan is at {price / bound:.2f} times that.</p>"
        f'<div class=scale title="lower bound ${bound:.3f} of ${price:.3f}">'
        f'<i style="width:{100 * min(1.0, bound / price):.1f}%"></i></div>'
    )


def _section(title: str, entries: Iterable[str]) -> list[str]:
    shown = list(entries)
    return [f"<h2>{title} ({len(shown)})</h2>", *shown] if shown else []


def _node(node: NodeReport) -> str:
    price = f"${node.price:.4f} an hour" if node.price is not None else "there already"
    where = ", ".join(part for part in (node.zone, node.capacity_type) if part)
    others = f", {node.alternatives} other types would also fit" if node.alternatives else ""
    bars = "".join(_bar(node, resource) for resource in SHOWN)
    if node.why:
        bars += f"<p class=why>{escape(node.why)}</p>"
    return (
        f"<section class=node><header><span><b>{escape(node.name)}</b> "
        f"<span>{escape(node.instance_type)}</span> "
        f"<span class=quiet>{escape(where + others)}</span></span>"
        f"<span>{price}, {node.pods} {'pod' if node.pods == 1 else 'pods'}</span></header>{bars}</section>"
    )


def _bar(node: NodeReport, resource: str) -> str:
    room = node.allocatable.get(resource, 0)
    requested = node.requested.get(resource, 0)
    spans = []
    for share in node.shares:
        part = share.requests.get(resource, 0)
        if room and part > 0:
            label = f"{share.name} x{share.count}" if share.count > 1 else share.name
            title = f"{label}: {_amount(resource, part)}"
            spans.append(
                f'<span style="width:{100 * part / room:.2f}%;background:{_colour(share.name)}" '
                f'title="{escape(title)}">{escape(label)}</span>'
            )
    figures = f"{_amount(resource, requested)} of {_amount(resource, room)} ({node.used(resource):.0%})"
    return (
        f"<div class=bar><span class=quiet>{resource}</span><div class=room>{''.join(spans)}</div>"
        f"<span>{figures}</span></div>"
    )


def _amount(resource: str, units: int) -> str:
    """Format an amount in the same units as the explanations of instance types."""
    if resource == CPU:
        return f"{round(units / 1000, 2):g} CPU"
    return f"{units / 2**30:.1f}".removesuffix(".0") + "Gi"


def _colour(name: str) -> str:
    """Color of a workload, the same on every node and in every run."""
    return f"hsl({crc32(name.encode()) % 360} 62% 76%)"


def _refusal(entry: Document) -> str:
    return f"<li><code>{escape(entry['pod'])}</code>: {escape(entry['reason'])}</li>"


def _removal(entry: Document) -> str:
    names = ", ".join(entry["candidates"])
    money = entry["savingPerHour"]
    saving = f"saves ${money} an hour" if money >= 0 else f"costs ${-money} more an hour"
    lines = "".join(f"<br><span class=quiet>{escape(line)}</span>" for line in entry.get("explanation", ()))
    return f"<li>{escape(entry['reason'])}: <code>{escape(names)}</code>, {saving}{lines}</li>"


def _stay(entry: Document) -> str:
    why = "<br>".join(f"<span class=quiet>{escape(line)}</span>" for line in entry["why"])
    return f"<li><code>{escape(entry['node'] or entry['nodeClaim'])}</code><br>{why}</li>"
