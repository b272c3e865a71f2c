"""Which nodes a page draws: by NodePool, equal nodes of a large cluster once, and not more than a browser can show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tenon.fleet.order import SortKey, ordered
from tenon.fleet.summary import Totals, totals
from tenon.page.style import OTHERS, PALETTE
from tenon.report.live import LiveNode
from tenon.resources import CPU, MEMORY

COLLAPSE_FROM = 40
"""The number of nodes from which on equal nodes are drawn once."""
MOST = 600
"""How many bars for nodes a page has."""
NO_POOL = "Nodes without a NodePool"


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node, or several that look the same: type, price, stage, what keeps them, what their workloads request."""

    nodes: Sequence[LiveNode]

    @property
    def first(self) -> LiveNode:
        """The node that is drawn for all."""
        return self.nodes[0]


@dataclass(frozen=True, slots=True)
class PoolGroup:
    """The nodes of a NodePool."""

    name: str
    totals: Totals
    drawn_nodes: Sequence[DrawnNode]
    other_nodes: Sequence[LiveNode]
    """Those that are only counted."""


def pool_groups(nodes: Sequence[LiveNode], most: int = MOST) -> list[PoolGroup]:
    """Return the nodes by NodePool: the most expensive pool first, in it the fullest node first."""
    by_row = {id(live.row): live for live in nodes}
    by_pool: dict[str, list[LiveNode]] = {}
    for row in ordered([live.row for live in nodes], SortKey.CPU):
        by_pool.setdefault(row.pool or NO_POOL, []).append(by_row[id(row)])
    sums = {name: totals(live.row for live in members) for name, members in by_pool.items()}
    groups = []
    for name in sorted(by_pool, key=lambda name: (name == NO_POOL, -sums[name].cost, name)):
        drawn_nodes = _alike(by_pool[name]) if len(nodes) >= COLLAPSE_FROM else [DrawnNode([n]) for n in by_pool[name]]
        others = [live for drawn_node in drawn_nodes[most:] for live in drawn_node.nodes]
        groups.append(PoolGroup(name, sums[name], drawn_nodes[:most], others))
        most = max(0, most - len(drawn_nodes))
    return groups


def _alike(nodes: Iterable[LiveNode]) -> list[DrawnNode]:
    groups: dict[tuple[object, ...], list[LiveNode]] = {}
    for live in nodes:
        row = live.row
        looks = (row.instance_type, row.capacity_type, row.price, row.stage, row.ready, row.disruption, row.is_blocked)
        loads = Counter(
            (pod.pod.namespace, pod.pod.workload_or_name, pod.pod.requests.get(CPU, 0), pod.pod.requests.get(MEMORY, 0))
            for pod in live.running_pods
        )
        groups.setdefault((*looks, frozenset(loads.items())), []).append(live)
    return [DrawnNode(members) for members in groups.values()]


def namespace_colors(nodes: Iterable[LiveNode]) -> Mapping[str, str]:
    """Return a color for each namespace: the namespaces that request most have colors of their own."""
    requests: Counter[str] = Counter()
    for live in nodes:
        cpu, memory = live.row.cpu or 1, live.row.memory or 1
        for pod in live.running_pods:
            share = max(pod.pod.requests.get(CPU, 0) / cpu, pod.pod.requests.get(MEMORY, 0) / memory)
            requests[pod.pod.namespace] += round(share * 1_000_000)
    ranked = sorted(requests, key=lambda name: (-requests[name], name))
    return {name: PALETTE[rank] if rank < len(PALETTE) else OTHERS for rank, name in enumerate(ranked)}
