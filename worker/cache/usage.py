"""The usage of NodePools' limits, computed for all pools in one pass over the nodes.

The usage of each node is parsed once for each version of its objects. Quantities are strings, and a pass over thousands
of nodes follows each change.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.records import NodeRecord
from tenon.provisioning.claims import largest_capacity
from tenon.resources import NODES, Resources
from worker.cache.evacuating_pods import leaving
from worker.cache.quantities import claimed, credible, requested, stated
from worker.cache.state import ClusterState


@dataclass(frozen=True, slots=True)
class _Part:
    claim: ClaimRecord | None
    node: NodeRecord | None
    usage: Resources
    at_most: Resources


def pool_usages(state: ClusterState, *, with_leaving: bool = False, at_most: bool = False) -> dict[str, Resources]:
    """By NodePool: the capacity of its nodes and claims, and their number as ``nodes``.

    Nodes that are leaving count only with ``with_leaving``. A claim without an instance counts with the requests of its
    pods, or with the most that it may use if ``at_most`` is set. A Node without a claim counts for the pool that its
    label names, if Tenon manages that pool.
    """
    parts: dict[str, _Part] = {}
    usages: dict[str, Resources] = {}

    def add(key: str, claim: ClaimRecord | None, node: NodeRecord | None) -> None:
        pool = _pool_of(state, claim, node)
        if not pool:
            return
        part = state.usage_parts.get(key)
        if not isinstance(part, _Part) or part.claim is not claim or part.node is not node:
            part = _read(claim, node)
        parts[key] = part
        if not with_leaving and leaving(node, claim):
            return
        usage = usages.setdefault(pool, {})
        for name, units in (part.at_most if at_most else part.usage).items():
            usage[name] = usage.get(name, 0) + units

    paired: set[str] = set()
    for record in state.nodes:
        claim = state.claim_of(record)
        if claim is not None:
            paired.add(claim.name)
        add(f"node/{record.name}", claim, record)
    for claim in state.claims:
        if claim.name not in paired:
            add(claim.name, claim, None)
    state.usage_parts = parts
    return usages


def _pool_of(state: ClusterState, claim: ClaimRecord | None, node: NodeRecord | None) -> str:
    """The NodePool that the node or claim counts for. Empty if there is none. ``state`` has only the NodePools of
    Tenon.
    """
    if claim is not None:
        return claim.pool
    pool_label = node.labels.get(labels.NODEPOOL, "") if node is not None else ""
    return pool_label if pool_label in state.pools else ""


def _read(claim: ClaimRecord | None, node: NodeRecord | None) -> _Part:
    capacity = claimed(claim, "capacity") if claim is not None else {}
    if node is not None:
        usage = {**capacity, **stated(credible(node.capacity, capacity)), NODES: 1}
        return _Part(claim, node, usage, usage)
    assert claim is not None
    if capacity:
        usage = {**capacity, NODES: 1}
        return _Part(claim, None, usage, usage)
    requests = requested(claim)
    return _Part(claim, None, {**requests, NODES: 1}, {**requests, **largest_capacity(claim.annotations), NODES: 1})
