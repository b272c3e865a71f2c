"""The state of the cluster: tables and the indexes between them, updated change by change."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from tenon.apis import labels
from tenon.apis.managed import manages_claim, manages_pool
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.pod import Pod
from tenon.kube.records import DaemonRecord, NamespacedRecord, NodeRecord, ObjectRecord, PodRecord, ValueRecord
from tenon.provisioning.buffer_status import BUFFER_TARGETS
from tenon.resources import Resources, total
from tenon.scheduling.model import Node
from worker.cache.buying import ClaimedPods, still_needs
from worker.cache.changes import Changes, Subscription, Topic
from worker.cache.csi_drivers import CsiDrivers
from worker.cache.default_topology_spread import DefaultTopologySpread
from worker.cache.evacuating_pods import EvacuatingPods, leaving
from worker.cache.listeners import essences_published, published, specs_published, targets_published
from worker.cache.node_memo import NodeMemo
from worker.cache.node_versions import NodeVersions
from worker.cache.provider_ids import ProviderIds
from worker.cache.record_changes import (
    became_sized,
    cost_annotations,
    freeze_essence,
    is_pod_event,
    only_pod_event_noted,
    released_protection,
    schedule_essence,
    what_matters,
)
from worker.cache.storage import CachedStorage
from worker.cache.table import Table
from worker.cache.untried_pods import UntriedPods
from worker.cache.vpa_predictions import VpaPredictions

if TYPE_CHECKING:
    from tenon.disruption.nodes import NodeDetail

_NO_PODS: Mapping[str, PodRecord] = {}


class ClusterState:
    """The cluster's tables, the indexes between them, and lookups over them.

    The tables are ``pods``, ``nodes``, ``claims``, ``pools``, ``nodeclasses``, ``daemonsets``, ``limit_ranges``,
    ``namespaces``, ``overlays``, ``repair_policies``, ``freezes``, ``schedules``, ``buffers``, and those of
    ``versions``, ``csi``, ``storage``, ``moving``, ``spreading`` and ``predictions``.

    ``claims`` and ``pools`` hold only objects that Tenon manages (`tenon.apis.managed`), so their readers may act on
    all of them. The Node of another controller's NodeClaim appears here as a Node without a NodeClaim.

    Use it in one event loop. Callers own the collections that methods return; the records in them are shared and
    immutable. ``clock`` returns seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float] = time.time, *, every_claim: bool = False) -> None:
        """Make empty tables.

        Args:
            clock: returns seconds since the epoch.
            every_claim: whether ``claims`` also holds those that Tenon does not manage. Only for readers that act on
                none.
        """
        self.clock = clock
        self.changes = Changes()
        self.pods: Table[PodRecord] = Table(self._pod_changed)
        self.nodes: Table[NodeRecord] = Table(self._node_changed)
        self.claims: Table[ClaimRecord] = Table(
            self._claim_changed, keeps=None if every_claim else lambda claim: manages_claim(claim.body)
        )
        self.pools: Table[ObjectRecord] = Table(
            published(self.changes, Topic.POOL), keeps=lambda pool: manages_pool(pool.body)
        )
        self.nodeclasses: Table[ObjectRecord] = Table(published(self.changes, Topic.NODECLASS))
        self.daemonsets: Table[DaemonRecord] = Table(published(self.changes, Topic.DAEMON))
        self.limit_ranges: Table[ValueRecord[Resources]] = Table(published(self.changes, Topic.DAEMON))
        self.namespaces: Table[ValueRecord[Mapping[str, str]]] = Table(self._namespace_changed)
        self.overlays: Table[ObjectRecord] = Table(specs_published(self.changes, Topic.OVERLAY))
        self.repair_policies: Table[ObjectRecord] = Table(specs_published(self.changes, Topic.REPAIR_POLICY))
        self.freezes: Table[ObjectRecord] = Table(essences_published(self.changes, Topic.FREEZE, freeze_essence))
        self.schedules: Table[ObjectRecord] = Table(essences_published(self.changes, Topic.SCHEDULE, schedule_essence))
        self.versions = NodeVersions(lambda key: self.changes.publish(Topic.ROLLOUT, key))
        self.buffers: Table[NamespacedRecord] = Table(specs_published(self.changes, Topic.BUFFER))
        self.buffer_targets: dict[str, Table[ValueRecord[int]]] = {
            kind: Table(targets_published(self.changes, kind, self.buffers)) for kind in BUFFER_TARGETS
        }
        """By kind, the generations of the objects that CapacityBuffers may refer to."""
        self.csi, self.storage = CsiDrivers(), CachedStorage(self._requests_changed)
        self.moving, self.predictions = EvacuatingPods(clock), VpaPredictions()
        self.spreading = DefaultTopologySpread(self._requests_changed)
        self.deletion_costs_managed = False
        """The gate PodDeletionCostManagement: Tenon writes pod-deletion-cost, and never reads it as a cost."""
        self.usage_parts: Mapping[str, object] = {}
        """The usage of each node, which `worker.cache.usage` caches here."""
        self.kept_nodes: NodeMemo[Node] = NodeMemo()
        """The nodes as scheduling sees them, which `worker.cache.capacity` keeps here."""
        self.kept_details: NodeMemo[NodeDetail] = NodeMemo()
        """What disruption knows of each node, which `worker.cache.node_details` keeps here."""
        self.node_changes = 0
        """Number of changes of Nodes and NodeClaims that were published to `changes`."""
        self.empty_nodes: set[str] = set()
        """The Nodes that have no pod that would need another node."""
        self.pods_released: Counter[str] = Counter()
        """By Node, how often a pod that may not be evicted ended, went away or lost the annotation do-not-disrupt."""
        self.namespace_changes = 0
        """Number of changes of namespaces' labels."""
        self._pods_by_node: dict[str, Mapping[str, PodRecord]] = {}
        """By Node name and key. The pods of a node are replaced and never changed, so that snapshots share them."""
        self._pending: dict[str, PodRecord] = {}
        self._untried = UntriedPods()
        self.unbound: dict[str, PodRecord] = {}
        """Pods without a node that are neither terminated nor terminating."""
        self._used: dict[str, Resources] = {}
        self._last_pod_event: dict[str, float] = {}
        self._provider_ids = ProviderIds()
        self.bought = ClaimedPods()
        self.limits_eased: Counter[str] = Counter()
        """By NodePool: how often its limits may have got room, because a claim went away or its instance type became
        known.
        """

    def adopt(self, other: ClusterState) -> None:
        """Take over another state's current content. The indexes are copied, but the records are shared, so this is
        fast.

        A copy has no listeners. A listener refers to its state, and copies with such cycles would stay in memory until
        the garbage collector looks at its oldest generation, which may be never.
        """
        for table in (
            self.pools,
            self.nodeclasses,
            self.overlays,
            self.repair_policies,
            self.freezes,
            self.schedules,
            self.buffers,
        ):
            table.disconnect()
        self.versions.disconnect()
        for targets in self.buffer_targets.values():
            targets.disconnect()
        self.pods.adopt(other.pods)
        self.nodes.adopt(other.nodes)
        self.claims.adopt(other.claims)
        self.daemonsets.adopt(other.daemonsets)
        self.limit_ranges.adopt(other.limit_ranges)
        self.namespaces.adopt(other.namespaces)
        self.csi.adopt(other.csi)
        self.storage.adopt(other.storage)
        self.moving.adopt(other.moving)
        self.spreading.adopt(other.spreading)
        self.predictions.adopt(other.predictions)
        self.bought = other.bought.copy()
        self.deletion_costs_managed = other.deletion_costs_managed
        self.usage_parts = other.usage_parts
        self.kept_nodes, self.kept_details = other.kept_nodes, other.kept_details
        self._pods_by_node = other._pods_by_node.copy()
        self._pending, self.unbound = other._pending.copy(), other.unbound.copy()
        self._used = other._used.copy()
        self._last_pod_event = other._last_pod_event.copy()
        self._provider_ids = other._provider_ids.snapshot()

    def subscribe(self, topics: Collection[Topic]) -> Subscription:
        """Subscribe to these topics. A key that changes often is reported once."""
        return self.changes.subscribe(topics)

    def has_claims(self, claim_names: Iterable[str]) -> bool:
        """Whether the cache holds all these NodeClaims."""
        return all(name in self.claims for name in claim_names)

    def pods_by_key(self, node_name: str) -> Mapping[str, PodRecord]:
        """The pods of a node, including terminated ones. It is another object whenever one of them changes."""
        return self._pods_by_node.get(node_name, _NO_PODS)

    def pods_on(self, node_name: str) -> list[PodRecord]:
        """The pods of a node, including terminated ones, sorted by key."""
        pods = self.pods_by_key(node_name)
        return [pods[key] for key in sorted(pods)]

    def occupied(self, node_name: str) -> bool:
        """Whether this node has a pod that would need another node."""
        return any(pod.reschedulable for pod in self.pods_by_key(node_name).values())

    def pending(self) -> list[PodRecord]:
        """Pods that wait for capacity, whether or not a plan covers them, sorted by key."""
        return [self._pending[key] for key in sorted(self._pending)]

    def nominated_pods(self) -> dict[str, list[PodRecord]]:
        """Pods for which kube-scheduler makes room on a node, by that node's name."""
        nominated: dict[str, list[PodRecord]] = {}
        for key in sorted(self.unbound):
            if node_name := self.unbound[key].nominated_node:
                nominated.setdefault(node_name, []).append(self.unbound[key])
        return nominated

    def moving_pods(self) -> list[PodRecord]:
        """Pods that must move because their node is leaving, sorted by key."""
        moving = (pod for name in self.moving.nodes() for pod in self.pods_by_key(name).values())
        return sorted(filter(self.moving.must_move, moving), key=lambda pod: pod.key)

    def pods_to_move(self) -> list[PodRecord]:
        """Running pods for which their next node keeps room: of nodes that are leaving, and of candidates of an open
        disruption command.
        """
        leaving = (pod for name in self.moving.nodes_to_leave() for pod in self.pods_by_key(name).values())
        return sorted(filter(self.moving.keeps_place, leaving), key=lambda pod: pod.key)

    def scheduling_pod(self, record: PodRecord) -> Pod:
        """A pod as scheduling sees it, with the requirements of its volumes and its default topology spread."""
        return self.spreading.scheduling_pod(record, self.storage.scheduling_pod(record))

    def recreated_pod(self, record: PodRecord) -> Pod:
        """A pod as scheduling sees it after its eviction: with new ephemeral volumes, and the requests of its VPA."""
        pod = self.spreading.scheduling_pod(record, self.storage.recreated_pod(record))
        return self.predictions.created_again(record, pod)

    def planned_pod(self, record: PodRecord) -> Pod:
        """A pod as scheduling sees it on a node that it is to get: one that waits, or that must leave its node."""
        if record.node_name:
            return self.recreated_pod(record)
        return self.predictions.waiting(record, self.scheduling_pod(record))

    def eviction_terms(self, record: PodRecord) -> tuple[int, int]:
        """The priority of a pod and the cost that it states, from which the cost of its eviction follows."""
        return record.pod.priority, record.stated_cost(deletion_costs_managed=self.deletion_costs_managed)

    def node_of(self, claim: ClaimRecord) -> NodeRecord | None:
        """The Node of a NodeClaim, found by provider ID, or else by the name in the claim's status."""
        return self.nodes.get(self._provider_ids.node(claim.provider_id) or claim.node_name)

    def has_several_nodes(self, claim: ClaimRecord) -> bool:
        """Whether several Nodes have the provider ID of a NodeClaim, so that a user must resolve the conflict."""
        return len(self._provider_ids.nodes(claim.provider_id)) > 1

    def claim_of(self, node: NodeRecord) -> ClaimRecord | None:
        """The NodeClaim of a Node. None if Tenon did not launch the node."""
        return self.claims.get(self._provider_ids.claim(node.provider_id)) if node.provider_id else None

    def claim_of_instance(self, instance_id: str) -> ClaimRecord | None:
        """The NodeClaim of an EC2 instance. None if Tenon did not launch the instance for this cluster."""
        return self.claims.get(self._provider_ids.claim_of_instance(instance_id))

    def used(self, node_name: str) -> Resources:
        """The requests of all pods on a node, without terminated pods."""
        node_usage = self._used.get(node_name)
        if node_usage is None:
            pods = self.pods_by_key(node_name).values()
            node_usage = self._used[node_name] = total(pod.pod.requests for pod in pods if not pod.terminal)
        return node_usage

    def last_pod_event(self, node_name: str) -> float | None:
        """When a pod last came to this node, terminated or left it, as seen by this cache.

        A pod that leaves another node to move to this one, which was bought for it, counts too. DaemonSet and mirror
        pods do not count.
        """
        return self._last_pod_event.get(node_name)

    def _pod_changed(self, key: str, before: PodRecord | None, after: PodRecord | None) -> None:
        if after is None:
            self.storage.forget(key)
            self.spreading.forget(key)
        for replica in self._untried.changed(key, after):
            self._note_pending(replica.key, replica)
            self.changes.publish(Topic.PENDING, replica.key)
        waited, waits = key in self._pending, self._note_pending(key, after)
        if after is not None and not (after.node_name or after.terminal or after.deleting):
            self.unbound[key] = after
        else:
            self.unbound.pop(key, None)
        moved = any(pod.node_name in self.moving.nodes() for pod in (before, after) if pod and pod.node_name)
        if waited != waits or moved or (before and after and before.uid != after.uid and waits):
            self.changes.publish(Topic.PENDING, key)
        for node_name in {pod.node_name for pod in (before, after) if pod and pod.node_name}:
            self._replace_pod(node_name, key, after if after is not None and after.node_name == node_name else None)
            self._note_empty(node_name)
        if before is not None and before.node_name in self.nodes and released_protection(before, after):
            self.pods_released[before.node_name] += 1
        concerned: set[str] = set()
        if what_matters(before) != what_matters(after):
            if is_pod_event(before, after):
                self._note_pod_event(before, after)
            concerned = {pod.node_name for pod in (before, after) if pod and pod.node_name}
            concerned |= self._note_released(before, after)
        elif before is not None and after is not None and after.node_name and self._states_other_cost(before, after):
            concerned = {after.node_name}  # no pod event, which would postpone consolidation
        for node_name in sorted(concerned):
            self.changes.publish(Topic.NODE_PODS, node_name)

    def _states_other_cost(self, before: PodRecord, after: PodRecord) -> bool:
        """Whether annotations of a pod state its eviction's cost otherwise than before, readable or not."""
        managed = self.deletion_costs_managed
        return cost_annotations(before, deletion_costs_managed=managed) != cost_annotations(
            after, deletion_costs_managed=managed
        )

    def _note_pending(self, key: str, record: PodRecord | None) -> bool:
        """Record whether a pod waits for capacity, and return it."""
        if record is not None and (record.provisionable or self._untried.fits_nowhere(key)):
            self._pending[key] = record
            return True
        self._pending.pop(key, None)
        return False

    def _replace_pod(self, node_name: str, key: str, pod: PodRecord | None) -> None:
        """Change one pod of a node, or remove it if ``pod`` is None."""
        pods = dict(self.pods_by_key(node_name))
        if pod is not None:
            pods[key] = pod
        else:
            pods.pop(key, None)
        if pods:
            self._pods_by_node[node_name] = pods
        else:
            self._pods_by_node.pop(node_name, None)
        self._used.pop(node_name, None)
        self.kept_nodes.forget(node_name)
        self.kept_details.forget(node_name)

    def _note_pod_event(self, before: PodRecord | None, after: PodRecord | None) -> None:
        pod = after or before
        if pod is None or pod.daemon or pod.mirror or not pod.node_name:
            return
        if after is None and pod.node_name not in self.nodes:
            return  # the node was deleted first
        if before is not None:
            now = self.clock()
        elif pod.bound_at and not pod.terminal and not pod.deleting:
            # Seen for the first time, but it may have been there for a long time. Its kubelet may write a later time.
            now = min(pod.bound_at, self.clock())
        else:
            return
        self._last_pod_event[pod.node_name] = max(self._last_pod_event.get(pod.node_name, 0.0), now)

    def _note_released(self, before: PodRecord | None, after: PodRecord | None) -> set[str]:
        """The nodes that were bought for a pod that its old node has just released. They count it as a pod event."""
        if before is None or not before.node_name or not before.reschedulable:
            return set()
        if after is not None and after.uid == before.uid and after.reschedulable:
            return set()
        waited = set()
        for name in self.bought.claims_for(before.uid):
            claim = self.claims.get(name)
            if claim is None or not still_needs(claim, before):
                continue
            node = self.node_of(claim)
            if node is not None and node.name != before.node_name:
                self._last_pod_event[node.name] = max(self._last_pod_event.get(node.name, 0.0), self.clock())
                waited.add(node.name)
        return waited

    def _node_changed(self, key: str, before: NodeRecord | None, after: NodeRecord | None) -> None:
        earlier, later = (record.provider_id if record else "" for record in (before, after))
        self._provider_ids.node_changed(key, earlier, later)
        self.node_changes += 1
        self.kept_nodes.forget(key)
        self.kept_details.forget(key)
        self._note_empty(key)
        self._note_leaving(key)
        if after is None:
            self._last_pod_event.pop(key, None)
            self.pods_released.pop(key, None)
        self.changes.publish(Topic.NODE, key)
        for record in (before, after):
            claim = self.claim_of(record) if record else None
            if claim is not None:
                self.changes.publish(Topic.CLAIM, claim.name)
                break

    def _claim_changed(self, key: str, before: ClaimRecord | None, after: ClaimRecord | None) -> None:
        if before is not None and (node := self.node_of(before)) is not None:
            self.kept_details.forget(node.name)  # which would keep the old record in memory
        if before is not None and after is not None and only_pod_event_noted(before, after):
            self._pod_event_noted(after)
            return
        earlier, later = (record.provider_id if record else "" for record in (before, after))
        self._provider_ids.claim_changed(key, earlier, later)
        self.node_changes += 1
        self.bought.claim_changed(key, after)
        self.versions.refusals.claim_changed(before, after)
        if before is not None and (after is None or after.uid != before.uid or became_sized(before, after)):
            self.limits_eased[before.pool] += 1
        for provider_id in {earlier, later}:
            for node_name in self._provider_ids.nodes(provider_id):
                self._note_leaving(node_name)
        if before is not None and after is None and not before.deleting:
            self.changes.publish(Topic.VANISHED_CLAIM, key)
        self.changes.publish(Topic.CLAIM, key)

    def _pod_event_noted(self, claim: ClaimRecord) -> None:
        """Publish a pod event that the claim's status records, if another process saw it and this one did not."""
        node, noted = self.node_of(claim), claim.last_pod_event
        if node is None or noted is None:
            return
        if noted.timestamp() > (self.last_pod_event(node.name) or 0.0):
            self.changes.publish(Topic.NODE_PODS, node.name)

    def _note_empty(self, node_name: str) -> None:
        if node_name in self.nodes and not self.occupied(node_name):
            self.empty_nodes.add(node_name)
        else:
            self.empty_nodes.discard(node_name)

    def _note_leaving(self, node_name: str) -> None:
        """Record whether Tenon must move the pods of a node. Another controller moves the pods of its own nodes."""
        node = self.nodes.get(node_name)
        claim = self.claim_of(node) if node is not None else None
        theirs = node is not None and claim is None and labels.NODEPOOL in node.labels
        self.moving.set_leaving(node_name, leaves=node is not None and not theirs and leaving(node, claim))
        self.moving.set_candidate(
            node_name, of_command=node is not None and claim is not None and bool(claim.disrupted_by)
        )

    def _namespace_changed(
        self, key: str, before: ValueRecord[Mapping[str, str]] | None, after: ValueRecord[Mapping[str, str]] | None
    ) -> None:
        if before is None or after is None or before.value != after.value:
            self.namespace_changes += 1
            self.changes.publish(Topic.NAMESPACE, key)

    def _requests_changed(self, pod_key: str) -> None:
        if pod_key in self._pending:
            self.changes.publish(Topic.PENDING, pod_key)
