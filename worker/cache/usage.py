"""What NodePools use of their limits: all of them in one walk over the nodes.

What one node takes is read once for each version of its objects, since quantities are texts and a walk over thousands
of them follows each change.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenon.apis import labels
from tenon.kube.records import NodeRecord, ObjectRecord
from tenon.provisioning.claims import largest_capacity
from tenon.resources import Resources
from worker.cache.evacuating_pods import leaving
from worker.cache.quantities import claimed, requested, stated
from worker.cache.state import ClusterState

NODES = "nodes"
"""The pseudo-resource that counts nodes."""


@dataclass(frozen=True, slots=True)
class _Part:
    claim: ObjectRecord | None
    node: NodeRecord | None
    usage: Resources
    at_most: Resources


def pool_usages(state: ClusterState, *, with_leaving: bool = False, at_most: bool = False) -> dict[str, Resources]:
    """By NodePool: the capacity of its nodes and claims, and their number as ``nodes``; without those that are leaving.

    A claim that has no instance yet counts with what its pods request; or, ``at_most``, with the most that it may take.
    A Node without a claim counts for the pool that its label names, which must be one of Tenon's.
    """
    known: dict[str, _Part] = {}
    usages: dict[str, Resources] = {}

    def add(key: str, claim: ObjectRecord | None, node: NodeRecord | None) -> None:
        pool = _pool_of(state, claim, node)
        if not pool:
            return
        part = state.usage_parts.get(key)
        if not isinstance(part, _Part) or part.claim is not claim or part.node is not node:
            part = _read(claim, node)
        known[key] = part
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
    state.usage_parts = known
    return usages


def _pool_of(state: ClusterState, claim: ObjectRecord | None, node: NodeRecord | None) -> str:
    """The NodePool that is charged; empty for none. NodePools of other controllers are not in ``state``."""
    if claim is not None:
        return claim.labels.get(labels.NODEPOOL, "")
    named = node.labels.get(labels.NODEPOOL, "") if node is not None else ""
    return named if named in state.pools else ""


def _read(claim: ObjectRecord | None, node: NodeRecord | None) -> _Part:
    capacity = claimed(claim, "capacity") if claim is not None else {}
    if node is not None:
        usage = {**capacity, **stated(node.capacity), NODES: 1}
        return _Part(claim, node, usage, usage)
    assert claim is not None
    if capacity:
        usage = {**capacity, NODES: 1}
        return _Part(claim, None, usage, usage)
    asked = requested(claim)
    return _Part(claim, None, {**asked, NODES: 1}, {**asked, **largest_capacity(claim.annotations), NODES: 1})
