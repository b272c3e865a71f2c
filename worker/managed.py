"""The nodes that disruption may consider, read once for each version of their objects.

A look at disruption follows nearly every change of a busy cluster, and most nodes are what they were: of a node whose
NodeClaim and Node did not change, only what time and its pods decide is asked again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tenon.apis import labels
from tenon.apis.nodeclaim import INSTANCE_TERMINATING
from tenon.disruption.emptiness import ManagedNode
from tenon.lifecycle.instants import parse_instant
from tenon.lifecycle.protection import protects_node
from worker.cache.cluster import ClusterCache
from worker.cache.moving import leaving
from worker.cache.records import NodeRecord, ObjectRecord


@dataclass(frozen=True, slots=True)
class _Known:
    claim: ObjectRecord
    node: NodeRecord | None
    found: ManagedNode
    """As if pods were on it and nothing but an annotation protected it."""
    keep_until: datetime | None


class ManagedNodes:
    """The nodes of a cache as disruption sees them."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._known: dict[str, _Known] = {}

    def now(self) -> list[ManagedNode]:
        """All nodes whose claim belongs to a NodePool."""
        known: dict[str, _Known] = {}
        found: list[ManagedNode] = []
        for claim in self._cache.claims:
            node = self._cache.node_of(claim)
            one = self._known.get(claim.name)
            if one is None or one.claim is not claim or one.node is not node:
                if not claim.labels.get(labels.NODEPOOL):
                    continue
                one = _read(claim, node)
            known[claim.name] = one
            found.append(self._with_pods(one))
        self._known = known
        return found

    def _with_pods(self, known: _Known) -> ManagedNode:
        found = known.found
        if known.keep_until is not None and known.keep_until > datetime.now(UTC):
            found = replace(found, protected=True)
        if known.node is None or not found.initialized or self._cache.occupied(known.node.name):
            return found
        since = self._cache.empty_since(known.claim)
        if since is None:
            return found
        return replace(found, empty=True, quiet_since=datetime.fromtimestamp(since, UTC))


def _read(claim: ObjectRecord, node: NodeRecord | None) -> _Known:
    protected = protects_node(claim.annotations) or (node is not None and protects_node(node.annotations))
    found = ManagedNode(
        claim=claim.name,
        uid=claim.uid,
        pool=claim.labels[labels.NODEPOOL],
        initialized=claim.condition("Initialized").get("status") == "True",
        ready=node is not None and node.ready,
        leaving=leaving(node, claim),
        empty=False,
        protected=protected,
        quiet_since=None,
        node=node.name if node is not None else "",
        terminating=claim.condition(INSTANCE_TERMINATING).get("status") == "True",
    )
    return _Known(claim, node, found, parse_instant(claim.annotations.get(labels.KEEP_UNTIL)))
