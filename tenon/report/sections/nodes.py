"""The nodes as packed bars, by NodePool."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from tenon.fleet.disruption_state import DisruptionState
from tenon.kube.records import PodRecord
from tenon.money import per_hour
from tenon.node.state import Stage
from tenon.page.markup import Content, Markup, joined, tag
from tenon.page.packed_bar import BarPart, amount_text, figure_text, packed_bar, share_text
from tenon.page.style import OTHERS
from tenon.report.drawn_nodes import DrawnNode, PoolGroup, namespace_colors, pool_groups
from tenon.report.live import LiveCluster, LiveNode
from tenon.resources import CPU, MEMORY, total
from tenon.sentences import counted, first_few, lasting

SHOWN = (CPU, MEMORY)
NODES_STYLE = """
.nodes{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,25rem),1fr));gap:0 2rem}
details.node summary{cursor:pointer;list-style:none} details.node summary::-webkit-details-marker{display:none}
details.node .bar{grid-template-columns:3.2rem 1fr 9.4rem;font-size:12px;margin-top:.15rem}
details.node .room{height:.95rem} details.node p{font-size:12px;margin:.25rem 0 0}
.pool{display:flex;flex-wrap:wrap;gap:0 1.2rem;align-items:baseline;margin-top:1.6rem}.pool h3{margin:0;font-size:1rem}
.chip{border-radius:3px;padding:0 .35rem;margin-right:.15rem;background:var(--room);font-size:11px;white-space:nowrap}
.chip.bad{color:var(--bad);font-weight:600}.chip.new{color:var(--accent)}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:12px;margin:.4rem 0}
.legend i{display:inline-block;width:.75rem;height:.75rem;border-radius:2px;margin-right:.35rem;vertical-align:-1px}
@media (max-width:40rem){details.node .bar{grid-template-columns:3.2rem 1fr 8.6rem;font-size:11px}
details.node .bar>:last-child{grid-column:3;font-size:11px}}
@media print{.nodes{grid-template-columns:1fr 1fr}
details.node .bar{grid-template-columns:2.9rem 1fr 8rem;font-size:10px}
details.node .bar>:last-child{grid-column:3;font-size:10px}}
"""
_ALARMING = frozenset(
    {DisruptionState.BLOCKED, DisruptionState.LEAVING, DisruptionState.DRIFTED, DisruptionState.ASKED}
)


def nodes_section(cluster: LiveCluster) -> Content:
    """Return a card for each node, or for equal nodes."""
    if not cluster.nodes:
        return tag("p", "The cluster has no nodes.", class_="quiet")
    colors = namespace_colors(cluster.nodes)
    now = cluster.fleet.now
    return (
        tag("p", "Open a node for its pods. Each color is a namespace.", class_="quiet"),
        _legend(colors),
        (_pool(group, colors, now) for group in pool_groups(cluster.nodes)),
    )


def _legend(colors: Mapping[str, str]) -> Markup:
    own = [(name, color) for name, color in colors.items() if color != OTHERS]
    others = sorted(name for name, color in colors.items() if color == OTHERS)
    entries = [*own, *([(f"{first_few(others, 3)}", OTHERS)] if others else [])]
    return legend(entries)


def legend(entries: Iterable[tuple[str, str]]) -> Markup:
    """Return what each color means."""
    return tag("div", (tag("span", tag("i", style=f"background:{c}"), name) for name, c in entries), class_="legend")


def _pool(group: PoolGroup, colors: Mapping[str, str], now: datetime) -> Content:
    sums = group.totals
    price = "no known price" if sums.unpriced and not sums.cost else f"{per_hour(sums.cost)}"
    figures = (
        f"{counted(sums.nodes, 'node')}, {price}, {sums.spot_share:.0%} spot, "
        f"CPU {sums.cpu_share:.0%}, memory {sums.memory_share:.0%}, {counted(sums.pods, 'pod')}"
    )
    if sums.left_out:
        figures = f"{figures}; not counted: {sums.left_out}" if sums.nodes else f"not counted: {sums.left_out}"
    return (
        tag("div", tag("h3", group.name), tag("span", figures, class_="quiet"), class_="pool"),
        tag("div", (_card(drawn_node, colors, now) for drawn_node in group.drawn_nodes), class_="nodes"),
        _rest(group.other_nodes),
    )


def _rest(nodes: Iterable[LiveNode]) -> Content:
    rows = [live.row for live in nodes]
    if not rows:
        return None
    cost = sum(row.price or 0.0 for row in rows)
    return tag("p", f"and {counted(len(rows), 'more node')} for {per_hour(cost)}: see tenon top", class_="quiet")


def _card(drawn_node: DrawnNode, colors: Mapping[str, str], now: datetime) -> Markup:
    live, row = drawn_node.first, drawn_node.first.row
    count = len(drawn_node.nodes)
    name = live.name if count == 1 else f"{count} equal nodes"
    parts_of = _parts_by_pod if count == 1 else _parts_by_workload
    bars = [
        packed_bar(resource, parts_of(live, resource, colors), room, _figures(resource, requested, room))
        for resource, room, requested in zip(
            SHOWN, (row.cpu, row.memory), (row.cpu_requests, row.memory_requests), strict=True
        )
        if room
    ]
    summary = tag("summary", _head(drawn_node, name, now), bars, _chips(live), _why(live))
    return tag("details", summary, _inside(drawn_node, now), class_="node")


def _figures(resource: str, requested: int, room: int) -> str:
    """The figures of a narrow bar, which names their unit once."""
    return f"{figure_text(resource, requested)} of {amount_text(resource, room)} ({share_text(requested, room)})"


def _head(drawn_node: DrawnNode, name: str, now: datetime) -> Markup:
    row = drawn_node.first.row
    zones = sorted({live.row.zone for live in drawn_node.nodes if live.row.zone})
    kind = ", ".join(filter(None, (row.instance_type, row.capacity_type, first_few(zones, 3))))
    ages = sorted(live.row.age_seconds(now) for live in drawn_node.nodes)
    age = _age(ages[0]) if len(ages) == 1 else f"{_age(ages[0])} to {_age(ages[-1])}"
    price = "price unknown" if row.price is None else f"{per_hour(row.price)}{' each' if len(ages) > 1 else ''}"
    return tag(
        "div",
        tag("span", tag("b", name), " ", tag("span", kind, class_="quiet")),
        tag("span", f"{price}, {age}, {counted(row.pods, 'pod')}"),
        class_="head",
    )


def _age(seconds: float) -> str:
    return lasting(timedelta(seconds=seconds))


def _chips(live: LiveNode) -> Content:
    row = live.row
    chips: list[Markup] = []
    if row.stage is not Stage.LIVE:
        chips.append(tag("span", row.stage.value, class_="chip new"))
    if not row.ready and row.node:
        chips.append(tag("span", "not ready", class_="chip bad"))
    if row.is_blocked:
        chips.append(tag("span", "needs attention", class_="chip bad"))
    is_alarming = row.disruption in _ALARMING
    chips.append(tag("span", row.disruption.value, class_="chip bad" if is_alarming else "chip"))
    return [joined(chip, " ") for chip in chips]


def _why(live: LiveNode) -> Content:
    return tag("span", live.row.why, class_="why") if live.row.why else None


def _inside(drawn_node: DrawnNode, now: datetime) -> Content:
    live = drawn_node.first
    if len(drawn_node.nodes) == 1:
        return (*_facts(live, now), *_pods(live))
    return (
        tag(
            "p", tag("b", member.name), f" {member.row.zone}, {_age(member.row.age_seconds(now))}: ", _pod_names(member)
        )
        for member in drawn_node.nodes
    )


def _facts(live: LiveNode, now: datetime) -> Iterable[Content]:
    row, claim = live.row, live.claim
    texts = [f"NodeClaim {row.claim}" if row.claim else "no NodeClaim", row.instance]
    expires_at = row.expires
    if expires_at is not None:
        texts.append(f"expires in {lasting(expires_at - now)}" if expires_at > now else "expired")
    elif claim is not None:
        texts.append("never expires")
    yield tag("p", ", ".join(filter(None, texts)), class_="quiet")


def _pods(live: LiveNode) -> Iterable[Content]:
    by_namespace: dict[str, list[str]] = defaultdict(list)
    for pod in live.running_pods:
        by_namespace[pod.pod.namespace].append(pod.pod.name)
    for namespace, names in sorted(by_namespace.items()):
        yield tag("p", tag("b", namespace), " ", ", ".join(names))


def _pod_names(live: LiveNode) -> str:
    return ", ".join(pod.key for pod in live.running_pods) or "no pods"


def _parts_by_pod(live: LiveNode, resource: str, colors: Mapping[str, str]) -> list[BarPart]:
    ranks = {name: rank for rank, name in enumerate(colors)}

    def order(pod: PodRecord) -> tuple[int, int, str]:
        return ranks[pod.pod.namespace], -pod.pod.requests.get(CPU, 0), pod.key

    return [
        BarPart(amount, f"{pod.key}: {amount_text(resource, amount)}", colors[pod.pod.namespace])
        for pod in sorted(live.running_pods, key=order)
        if (amount := pod.pod.requests.get(resource, 0))
    ]


def _parts_by_workload(live: LiveNode, resource: str, colors: Mapping[str, str]) -> list[BarPart]:
    by_workload: dict[tuple[str, str], list[PodRecord]] = defaultdict(list)
    for pod in live.running_pods:
        by_workload[pod.pod.namespace, pod.pod.workload_or_name].append(pod)
    ranks = {name: rank for rank, name in enumerate(colors)}
    parts = []
    for (namespace, workload), pods in sorted(by_workload.items(), key=lambda item: (ranks[item[0][0]], item[0])):
        amount = total(pod.pod.requests for pod in pods).get(resource, 0)
        title = f"{namespace} {workload}: {counted(len(pods), 'pod')}, {amount_text(resource, amount)}"
        parts.append(BarPart(amount, title, colors[namespace]))
    return parts
