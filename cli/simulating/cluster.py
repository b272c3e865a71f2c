"""Loads a simulation's objects into the worker's own cluster cache, so that both read a cluster in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from tenon.apis.labels import NODEPOOL
from tenon.apis.structural import without_nulls
from tenon.kube import object_json
from tenon.kube.decode import decode_node, decode_nodeclaim, decode_object
from tenon.kube.limit_ranges import decode_limit_range
from tenon.kube.pod import Pod
from tenon.kube.pod_decode import decode_daemonset, decode_pod
from tenon.kube.pod_disruption_budgets import PodDisruptionBudget, decode_pdb
from tenon.kube.records import PodRecord, ValueRecord
from tenon.kube.scheduler_config import NOTHING, DefaultSpread
from tenon.kube.selector_decode import decode_replication_controller, decode_service, decode_workload
from tenon.kube.storage_decode import decode_class, decode_csi_driver, decode_csi_node, decode_pvc, decode_volume
from tenon.manifests.faults import ManifestError
from tenon.provisioning.buffer_status import ResolvedBuffer
from tenon.provisioning.buffers import buffer_of
from tenon.simulation.defaults import namespace_labels
from tenon.simulation.objects import Objects, SourcedObject
from tenon.simulation.workloads import replica_set
from worker.cache.buffer_pods import BufferPods
from worker.cache.cluster import ClusterCache
from worker.cache.node_versions import decode_revision
from worker.cache.planned_places import planned_places
from worker.cache.state import ClusterState


class FiledCache(ClusterCache):
    """A cluster cache without an API server. It is complete from the start, and its clock does not advance."""

    def __init__(self, now: float, default_spread: DefaultSpread = NOTHING) -> None:
        ClusterState.__init__(self, lambda: now)
        self.spreading.defaults = default_spread
        self._reflectors = []
        self._by_plural = {}
        self._synced_at = 0.0


@dataclass(frozen=True, slots=True)
class Pending:
    """Pods that have no node or must leave theirs: those to place, and those that are excluded, with the reason."""

    pods: list[Pod]
    refused: dict[str, str]
    nominated_pods: dict[str, list[Pod]]
    """Pods that a starting node was launched for, by node name."""


def fill(cache: FiledCache, objects: Objects, *, moving: bool = False) -> tuple[Pending, list[ManifestError]]:
    """Load all objects into the cache. Return the pending pods and the objects that cannot be decoded.

    Args:
        cache: the cache to fill.
        objects: the objects of the input, without faults.
        moving: include pods whose node is terminating, as a worker does.
    """
    faults: list[ManifestError] = []
    pending = Pending([], {}, {})
    for name, labels in namespace_labels(objects).items():
        cache.namespaces.on_event(name, ValueRecord(name, "", "", labels))
    for kind, decode, table in (
        ("StorageClass", decode_class, cache.storage.classes),
        ("PersistentVolume", decode_volume, cache.storage.volumes),
        ("PersistentVolumeClaim", decode_pvc, cache.storage.pvcs),
        ("CSINode", decode_csi_node, cache.csi.nodes),
        ("CSIDriver", decode_csi_driver, cache.csi.drivers),
        ("PodDisruptionBudget", _decode_pdb, cache.moving.pdbs),
        ("EC2NodeClass", decode_object, cache.nodeclasses),
        ("NodePool", decode_object, cache.pools),
        ("NodeRepairPolicy", decode_object, cache.repair_policies),
        ("DisruptionFreeze", decode_object, cache.freezes),
        ("NodeSchedule", decode_object, cache.schedules),
        ("NodeRollout", decode_object, cache.versions.rollouts),
        ("ControllerRevision", decode_revision, cache.versions.revisions),
        ("NodeClaim", decode_nodeclaim, cache.claims),
        ("Node", decode_node, cache.nodes),
        ("LimitRange", decode_limit_range, cache.limit_ranges),
        ("DaemonSet", decode_daemonset, cache.daemonsets),
        ("Service", decode_service, cache.spreading.services),
        ("ReplicationController", decode_replication_controller, cache.spreading.owners["replicationcontrollers"]),
        ("ReplicaSet", decode_workload, cache.spreading.owners["replicasets"]),
        ("StatefulSet", decode_workload, cache.spreading.owners["statefulsets"]),
        ("Pod", decode_pod, cache.pods),
    ):
        for item in _of(objects, kind):
            record = _decoded(item, decode, faults)
            if isinstance(record, PodRecord) and (buffer := buffer_of(item.body)):
                record = replace(record, pod=replace(record.pod, buffer=buffer))
            if isinstance(record, PodRecord) and not record.node_name:
                record = replace(record, unschedulable=True)
                if reason := why_not_placed(record):
                    pending.refused[record.key] = reason
                else:
                    pending.pods.append(cache.scheduling_pod(record))
            if record is not None:
                table.on_event(record.key, record)
    if moving:
        pending.pods.extend(cache.planned_pod(record) for record in cache.moving_pods())
    return _without_promised(pending, cache), faults


def _decode_pdb(raw: bytes) -> ValueRecord[PodDisruptionBudget]:
    """Decode a PodDisruptionBudget. A manifest that no API server has seen has no status: its spec alone counts."""
    return decode_pdb(raw, unstated=1)


def _of(objects: Objects, kind: str) -> Iterator[SourcedObject]:
    """Yield the objects of a kind. ReplicaSets include those that the Deployment controller would create."""
    if kind == "ControllerRevision":  # those of DaemonSets and StatefulSets are no versions of nodes
        yield from (item for item in objects.of(kind) if NODEPOOL in object_json.labels(item.body))
        return
    yield from objects.of(kind)
    yield from (item for (followed, _), item in objects.followed.items() if followed == kind)
    if kind == "ReplicaSet":
        for item in objects.of("Deployment"):
            yield SourcedObject(kind, replica_set(item), item.source)


def floor_pods(floors: Mapping[str, ResolvedBuffer]) -> Iterator[Pod]:
    """Yield the pods that stand for the floors of NodePools."""
    pods = BufferPods()
    for key, resolved_floor in floors.items():
        yield from pods.of(key, key, resolved_floor)


def _without_promised(pending: Pending, cache: FiledCache) -> Pending:
    planned = planned_places(cache)
    nominated_pods: dict[str, list[Pod]] = {}
    for pod in pending.pods:
        claim = cache.claims.get(planned.get(pod.uid, ""))
        if claim is not None:
            node = cache.node_of(claim)
            nominated_pods.setdefault(node.name if node else claim.name, []).append(pod)
    return replace(pending, pods=[pod for pod in pending.pods if pod.uid not in planned], nominated_pods=nominated_pods)


def why_not_placed(record: PodRecord) -> str:
    """Why the planner does not launch capacity for a pod without a node; empty if it does."""
    if record.gated:
        return "it has scheduling gates: remove spec.schedulingGates when it may start"
    if record.terminal:
        return f"it has ended (phase {record.phase})"
    if record.deleting:
        return "it is being deleted"
    if record.nominated_node:
        return "kube-scheduler makes room for it on an existing node (status.nominatedNodeName)"
    if record.daemon:
        return "a DaemonSet owns it, whose pods come with each node"
    if record.mirror:
        return "a kubelet owns it (a mirror pod)"
    if record.opted_out:
        return "its node affinity asks for nodes of no NodePool"
    return ""


def _decoded(item: SourcedObject, decode: Callable[[Any], Any], faults: list[ManifestError]) -> Any:
    try:
        return decode(msgspec.json.encode(without_nulls(item.body)))
    except (ValueError, OverflowError) as error:  # found by no manifest check
        faults.append(item.fault("", str(error)))
        return None
