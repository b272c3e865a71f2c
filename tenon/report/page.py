"""Writes the report as one HTML file that loads nothing, for a screen, a phone or paper."""

from __future__ import annotations

from collections.abc import Sequence

from tenon.fleet.summary import Totals, totals
from tenon.kube.timestamps import format_instant
from tenon.money import per_hour, price_text, sum_text
from tenon.page.charts import CHART_STYLE
from tenon.page.markup import Content, Markup, joined, page, tag, with_code
from tenon.page.packed_bar import amount_text
from tenon.page.style import STYLE
from tenon.page.table import TABLE_STYLE
from tenon.report.advice.base import Advice
from tenon.report.report import Report
from tenon.report.sections.coming import coming_section, waiting_section
from tenon.report.sections.nodes import NODES_STYLE, nodes_section
from tenon.report.sections.past import PAST, cost_section
from tenon.report.sections.texts import window_text
from tenon.resources import CPU, MEMORY
from tenon.sentences import counted, first_few

NAMES = 6
_STYLE = """
.tiles{display:grid;grid-template-columns:repeat(5,1fr);gap:.7rem;margin:1rem 0}
.tiles div{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.55rem .75rem}
.tiles b{display:block;font-size:1.45rem;font-weight:600;line-height:1.25;font-variant-numeric:tabular-nums}
.tiles span{display:block;color:var(--quiet);font-size:12px}
.advice{list-style:none;padding:0;margin:0}.advice li{border-left:3px solid var(--accent);background:var(--card);
padding:.5rem .8rem;margin:.5rem 0;border-radius:0 6px 6px 0}.advice p,.advice summary{margin:.2rem 0;font-size:13px}
nav{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:13px;margin:.6rem 0} a{color:var(--accent)}
summary{cursor:pointer}
@media (max-width:50rem){.tiles{grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr))}}
@media print{nav{display:none}.tiles{grid-template-columns:repeat(4,1fr)}}
"""
NO_RECORD = "No record was read, so this page does not say what happened before: --record names one."


def to_html(report: Report) -> str:
    """Return the page."""
    cluster, past = report.cluster, report.past
    fleet = cluster.fleet
    sections: list[tuple[str, Content]] = [("What to change", _advice(report))]
    if past is not None:
        sections.append(("Cost", cost_section(past)))
    sections += [("Nodes", nodes_section(cluster)), ("Waiting and leaving", waiting_section(cluster))]
    if past is not None:
        sections += [(title, section(past)) for title, section in PAST]
    sections.append(("Ahead", coming_section(cluster, report.ahead)))
    name = f"Cluster {cluster.name}" if cluster.name else "Cluster"
    window = f", and the {window_text(past.whole.length)} before" if past is not None else ""
    left_out = totals(fleet.rows).left_out
    notes = [
        *fleet.notes,
        *([f"Not counted: {left_out}"] if left_out else []),
        *([] if past is not None else [NO_RECORD.rstrip(".")]),
    ]
    return page(
        f"{name}: tenon report",
        STYLE + CHART_STYLE + TABLE_STYLE + NODES_STYLE + _STYLE,
        tag("h1", name),
        tag("p", f"{format_instant(fleet.now)}{window}. All times are UTC.", class_="quiet"),
        tag("nav", (tag("a", title, href=f"#{_anchor(title)}") for title, _ in sections)),
        _tiles(report),
        (tag("p", f"{note}.", class_="quiet") for note in notes),
        (tag("section", tag("h2", title, id=_anchor(title)), content) for title, content in sections),
    )


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _tiles(report: Report) -> Markup:
    fleet = report.cluster.fleet
    sums = totals(fleet.rows)
    pending = len(fleet.pending_pods)
    on_the_way = sum(bool(pod.claim) for pod in fleet.pending_pods)
    tiles = [
        (f"{sums.nodes}", f"nodes, {sums.ready} ready"),
        (price_text(sums.cost), _price_note(sums)),
        (sum_text(sums.monthly_cost), "a month of 730 hours"),
        (f"{sums.spot_share:.0%}", f"spot: {counted(sums.spot, 'node')}, {per_hour(sums.spot_cost)}"),
        (f"{sums.cpu_share:.0%}", f"of {amount_text(CPU, sums.cpu)} requested"),
        (f"{sums.memory_share:.0%}", f"of {amount_text(MEMORY, sums.memory)} memory requested"),
        (f"{sums.pods}", "pods on nodes"),
        (f"{pending}", f"pods without a node{f', {on_the_way} on their way' if on_the_way else ''}"),
    ]
    past = report.past
    if past is not None:
        tiles.append((sum_text(past.cost(past.day.since)), f"spent in the last {window_text(past.day.length)}"))
    bound = past.lower_bound if past is not None else None
    if bound:
        times = f"; the nodes cost {sums.cost / bound:.2f} times that"
        tiles.append((price_text(bound), f"an hour is the lower bound{times}"))
    return tag("div", (tag("div", tag("b", value), tag("span", text)) for value, text in tiles), class_="tiles")


def _price_note(sums: Totals) -> str:
    return f"an hour, without {counted(sums.unpriced, 'node')}" if sums.unpriced else "an hour"


def _advice(report: Report) -> Content:
    if not report.advice:
        return tag("p", "Nothing stands out.", class_="quiet")
    return tag("ul", map(_item, report.advice), class_="advice")


def _item(advice: Advice) -> Markup:
    return tag(
        "li",
        tag("b", f"{advice.sentence}."),
        tag("p", with_code(f"{advice.action}.")),
        _names("Nodes", advice.nodes),
        _names("Pods", advice.pods),
    )


def _names(title: str, names: Sequence[str]) -> Content:
    if not names:
        return None
    if len(names) <= NAMES:
        return tag("p", joined(f"{title}: ", ", ".join(names)), class_="quiet")
    summary = tag("summary", f"{title}: {first_few(names, NAMES)}", class_="quiet")
    return tag("details", summary, tag("p", ", ".join(names), class_="quiet"))
