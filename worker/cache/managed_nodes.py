"""The nodes that disruption may consider, converted once for each version of their objects.

Disruption reads the nodes after nearly every change of a busy cluster, and most of them have not changed. If no Node
and no NodeClaim changed, only nodes without pods and nodes with a keep-until annotation are evaluated again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from tenon.apis import labels
from tenon.apis.nodeclaim import DRIFTED
from tenon.apis.shortage_price import usual_price
from tenon.disruption.history.arrivals import read_arrivals
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.repair.breaker import veto
from tenon.disruption.rules.held_pods import held_until, holder
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.protection import node_protected_until, node_protection
from tenon.kube.records import NodeRecord
from tenon.kube.timestamps import clock_instant, from_epoch
from tenon.resources import CPU
from worker.cache.cluster import ClusterCache
from worker.cache.evacuating_pods import leaving


@dataclass(frozen=True, slots=True)
class _CachedNode:
    claim: ClaimRecord
    node: NodeRecord | None
    managed_node: ManagedNode
    """The node as if it had pods. What protects it may have ended since, if it has a keep-until annotation."""


class ManagedNodes:
    """The nodes of a cache as disruption sees them."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._entries: dict[str, _CachedNode] = {}
        self._version = -1
        self._places: dict[str, list[int]] = {}
        """By Node name: its positions in the list of known nodes."""
        self._kept_entries: list[tuple[int, _CachedNode]] = []
        """The nodes with a keep-until annotation, which protects for a while, and their positions."""

    def now(self) -> list[ManagedNode]:
        """All nodes whose NodeClaim belongs to a NodePool."""
        time = clock_instant(self._cache.clock())
        if self._version != self._cache.node_changes:
            self._read(time)
        managed = [entry.managed_node for entry in self._entries.values()]
        for place, entry in self._kept_entries:
            managed[place] = replace(managed[place], protected_by=protection_of(entry.claim, entry.node, time))
        for node_name in self._cache.empty_nodes:
            for place in self._places.get(node_name, ()):
                managed[place] = self._empty(managed[place], time)
        return managed

    def without_pool(self) -> list[ManagedNode]:
        """All nodes whose NodeClaim belongs to no NodePool. There are few, so they are converted each time."""
        time = clock_instant(self._cache.clock())
        alone = (claim for claim in self._cache.claims if not claim.pool)
        return [_known(claim, self._cache.node_of(claim), time).managed_node for claim in alone]

    def _read(self, now: datetime) -> None:
        """Convert the nodes whose objects changed."""
        entries: dict[str, _CachedNode] = {}
        for claim in self._cache.claims:
            node = self._cache.node_of(claim)
            entry = self._entries.get(claim.name)
            if entry is None or entry.claim is not claim or entry.node is not node:
                if not claim.pool:
                    continue
                entry = _known(claim, node, now)
            entries[claim.name] = entry
        self._entries, self._version, self._places = entries, self._cache.node_changes, {}
        self._kept_entries = [
            (n, entry) for n, entry in enumerate(entries.values()) if entry.claim.keep_until is not None
        ]
        for place, entry in enumerate(entries.values()):
            if entry.node is not None:
                self._places.setdefault(entry.node.name, []).append(place)

    def _empty(self, managed: ManagedNode, now: datetime) -> ManagedNode:
        """Mark a node without reschedulable pods as empty, unless a pod is on its way to it."""
        claim = self._cache.claims.get(managed.claim)
        since = self._cache.empty_since(claim) if claim is not None else None
        if since is None:
            return managed
        pods = [(pod, self._cache.moving.budgets_of(pod)) for pod in self._cache.pods_on(managed.node)]
        held_by = holder(pods, now)
        return replace(
            managed,
            empty=True,
            quiet_since=clock_instant(since),
            held_by=held_by,
            held_until=held_until(pods, now) if held_by else None,
        )


def protection_of(claim: ClaimRecord, node: NodeRecord | None, now: datetime) -> str:
    """Return which annotation of the NodeClaim or its Node protects it (`node_protection`); empty if none does."""
    return node_protection(claim.annotations, node.annotations if node is not None else {}, claim.keep_until, now)


def _known(claim: ClaimRecord, node: NodeRecord | None, now: datetime) -> _CachedNode:
    managed = ManagedNode(
        claim=claim.name,
        uid=claim.uid,
        pool=claim.pool,
        initialized=claim.initialized,
        ready=node is not None and (node.ready or bool(claim.warm)),  # a stopped node is not broken
        leaving=leaving(node, claim),
        empty=False,
        protected_by=protection_of(claim, node, now),
        protected_until=node_protected_until(
            claim.annotations, node.annotations if node is not None else {}, claim.keep_until
        ),
        quiet_since=None,
        node=node.name if node is not None else "",
        terminating=claim.terminating,
        drifted=claim.is_true(DRIFTED),
        disrupted_by=claim.disrupted_by,
        replacement_for=claim.replacement_for,
        created_for=claim.annotations.get(labels.CREATED_FOR, ""),
        arrivals=read_arrivals(claim.annotations.get(labels.MOVED_HERE, "[]")),
        bought_in_shortage=labels.BOUGHT_IN_SHORTAGE in claim.annotations,
        usual_price=usual_price(claim.annotations),
        expires_at=_expires_at(claim),
        registered=claim.registered,
        cpu=node.allocatable.get(CPU, 0) if node is not None else 0,
        warm=bool(claim.warm),
        **_of_repair(claim, node),
    )
    return _CachedNode(claim, node, managed)


def _of_repair(claim: ClaimRecord, node: NodeRecord | None) -> dict[str, Any]:
    """What node repair needs to know. Most nodes have no fault, and keep nothing."""
    reboots = {"rebooting": claim.rebooting, "reboots": claim.reboots, "rebooted_at": claim.rebooted_at}
    if node is None or not node.unhealthy or claim.warm:
        return reboots
    return {
        **reboots,
        "unhealthy": node.unhealthy,
        "node_created_at": from_epoch(node.created),
        "repair_veto": veto(node.annotations, claim.annotations),
    }


def _expires_at(claim: ClaimRecord) -> datetime | None:
    """When the claim expires. An operator's keep request postpones it, as in the claim's workflow."""
    if claim.created_at is None or claim.expire_after_seconds is None:
        return None
    expires_at = claim.created_at + timedelta(seconds=claim.expire_after_seconds)
    return expires_at if claim.keep_until is None else max(expires_at, claim.keep_until)
