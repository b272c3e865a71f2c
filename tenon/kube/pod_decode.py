"""Decodes Pods, and DaemonSets as the pods that they create.

Pods of one workload have much in common, so records share strings, label sets, requests and tolerations: a cluster of
ten thousand pods then takes a few megabytes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from tenon.apis import labels
from tenon.apis.shortage_price import buys_in_shortage
from tenon.kube.default_spread import OWNERS
from tenon.kube.host_ports import host_ports
from tenon.kube.node_affinity import required_terms
from tenon.kube.owners import NODE, controller, deciding_owner, surges, workload
from tenon.kube.pod import Pod
from tenon.kube.pod_rules import NO_RULES, pod_rules
from tenon.kube.records import DEFAULT_GRACE_SECONDS, DaemonRecord, Deletion, PodRecord
from tenon.kube.requests import effective_limits, effective_requests
from tenon.kube.requirements import DOES_NOT_EXIST, Requirements
from tenon.kube.sharing import share, share_texts, share_value
from tenon.kube.structs import (
    DEFAULT_NAMESPACE,
    DaemonSetObject,
    Metadata,
    Object,
    Owner,
    PodObject,
    PodSpec,
    PodStatus,
    condition_of,
    read,
)
from tenon.kube.taints import UNSCHEDULABLE, Toleration
from tenon.kube.timestamps import epoch_seconds, parse_instant
from tenon.kube.volumes import PersistentVolumeClaim, VolumeUse, ephemeral_pvc

NO_OWNER = ("", "")
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
CRITICAL_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})
MAX_GRACE_SECONDS = 2**31
"""The API server accepts a grace period that is longer than any calendar, and no time can be computed with it."""
_pods = msgspec.json.Decoder(PodObject)
_daemons = msgspec.json.Decoder(DaemonSetObject)


def decode_pod(raw: bytes | msgspec.Raw) -> PodRecord:
    """Decode a Pod.

    Raises:
        ValueError: the bytes are not a Pod, or contain a malformed quantity.
    """
    return pod_record(_pods.decode(raw))


def pod_of(body: Object) -> PodRecord:
    """Decode a Pod in JSON that is parsed already.

    Raises:
        ValueError: it is not a Pod, or contains a malformed quantity.
    """
    return pod_record(read(body, PodObject))


def pod_record(wire: PodObject) -> PodRecord:
    """Return the record of a pod, which is the same for the cache and for activities.

    Raises:
        ValueError: it contains a malformed quantity.
    """
    spec, status, metadata = wire.spec, wire.status, wire.metadata
    pod = scheduling_pod(metadata, spec, status)
    owner = deciding_owner(metadata.owner_references)
    owner_kind = sys.intern(owner.kind) if owner else ""
    scheduled = condition_of(status.conditions, "PodScheduled")
    ready = condition_of(status.conditions, "Ready")
    annotations = metadata.annotations or {}
    do_not_evict = annotations.get(labels.DO_NOT_EVICT) == "true"
    return PodRecord(
        pod=pod,
        resource_version=metadata.resource_version,
        node_name=pod.node_name,
        phase=sys.intern(status.phase),
        ready=ready is not None and ready.status == "True",
        owner_kind=owner_kind,
        owner_uid=sys.intern(owner.uid) if owner else "",
        selector_owner=_selector_owner(pod.namespace, controller(metadata.owner_references)),
        scheduler=sys.intern(spec.scheduler_name),
        mirror=MIRROR_ANNOTATION in annotations or owner_kind == NODE,
        critical=spec.priority_class_name in CRITICAL_CLASSES,
        grace_seconds=_grace_seconds(spec),
        deletion=_deletion(metadata, spec),
        unschedulable=scheduled is not None and scheduled.status == "False" and scheduled.reason == "Unschedulable",
        untried=scheduled is None,
        nominated_node=sys.intern(status.nominated_node_name or ""),
        gated=bool(spec.scheduling_gates),
        grouped=spec.scheduling_group is not None,
        opted_out=_avoids_nodepools(pod.required_terms),
        volumes=_volumes(metadata, spec),
        do_not_disrupt="true" if do_not_evict else annotations.get(labels.DO_NOT_DISRUPT, ""),
        do_not_evict=do_not_evict,
        started_at=epoch_seconds(status.start_time),
        surges=surges(annotations, pod.workload),
        disruption_cost=_shared(annotations.get(labels.DISRUPTION_COST)),
        deletion_cost=_shared(annotations.get(labels.POD_DELETION_COST)),
        bound_at=epoch_seconds(scheduled.last_transition_time) if scheduled and scheduled.status == "True" else 0.0,
        ready_at=epoch_seconds(ready.last_transition_time) if ready and ready.status == "True" else 0.0,
        unready_at=epoch_seconds(ready.last_transition_time) if ready and ready.status != "True" else 0.0,
        limits=share(effective_limits(spec)),
        owner_path=_owner_path(pod.namespace, metadata.owner_references),
        has_resource_claims=bool(spec.resource_claims),
    )


def _owner_path(namespace: str, references: Sequence[Owner] | None) -> str:
    """The path of the first owner; empty if there is none."""
    if not references:
        return ""
    owner = references[0]
    return sys.intern(f"/apis/{owner.api_version}/namespaces/{namespace}/{owner.kind.lower()}s/{owner.name}")


def _grace_seconds(spec: PodSpec) -> int:
    seconds = spec.termination_grace_period_seconds
    return DEFAULT_GRACE_SECONDS if seconds is None else _bounded(seconds)


def _bounded(seconds: int) -> int:
    return max(0, min(seconds, MAX_GRACE_SECONDS))


def _deletion(metadata: Metadata, spec: PodSpec) -> Deletion | None:
    end = parse_instant(metadata.deletion_timestamp)
    if end is None:
        return None
    seconds = metadata.deletion_grace_period_seconds
    return Deletion(
        end, _grace_seconds(spec) if seconds is None else _bounded(seconds), tuple(metadata.finalizers or ())
    )


OF_EVERY_DAEMON = (
    Toleration(labels.NOT_READY_TAINT, "Exists", effect="NoExecute"),
    Toleration("node.kubernetes.io/unreachable", "Exists", effect="NoExecute"),
    Toleration("node.kubernetes.io/disk-pressure", "Exists", effect="NoSchedule"),
    Toleration("node.kubernetes.io/memory-pressure", "Exists", effect="NoSchedule"),
    Toleration("node.kubernetes.io/pid-pressure", "Exists", effect="NoSchedule"),
    Toleration(UNSCHEDULABLE.key, "Exists", effect="NoSchedule"),
)
"""The tolerations that the DaemonSet controller adds to its pods."""


def decode_daemonset(raw: bytes | msgspec.Raw) -> DaemonRecord:
    """Decode a DaemonSet as the pod that its template creates.

    Raises:
        ValueError: the bytes are not a DaemonSet, or contain a malformed quantity.
    """
    wire = _daemons.decode(raw)
    template = wire.spec.template
    metadata = Metadata(
        name=wire.metadata.name,
        namespace=wire.metadata.namespace,
        uid=wire.metadata.uid,
        labels=template.metadata.labels,
        creation_timestamp=wire.metadata.creation_timestamp,
    )
    pod = scheduling_pod(metadata, template.spec, None)
    pod = replace(pod, tolerations=(*pod.tolerations, *OF_EVERY_DAEMON))
    return DaemonRecord(pod=pod, spec=template.spec, resource_version=wire.metadata.resource_version)


def scheduling_pod(metadata: Metadata, spec: PodSpec, status: PodStatus | None) -> Pod:
    """Build the pod as scheduling sees it. ``unsupported`` says which of its constraints the engine cannot plan."""
    try:
        terms, unsupported = required_terms(spec)
    except ValueError as error:
        terms, unsupported = (), f"its node affinity is malformed: {error}"
    try:
        rules = pod_rules(spec)
    except ValueError as error:
        rules, unsupported = NO_RULES, unsupported or f"its affinity or topology spread is malformed: {error}"
    return Pod(
        namespace=sys.intern(metadata.namespace or DEFAULT_NAMESPACE),
        name=metadata.name,
        uid=metadata.uid,
        requests=share(effective_requests(spec, status)),
        labels=share_texts(metadata.labels),
        required_terms=share_value(terms) if terms else (),
        tolerations=share_value(spec.tolerations or ()),
        host_ports=host_ports(spec),
        created=epoch_seconds(metadata.creation_timestamp),
        priority=spec.priority or 0,
        node_name=sys.intern(spec.node_name),
        unsupported=unsupported or _unsupported(spec),
        rules=share_value(rules) if rules else NO_RULES,
        workload=sys.intern(workload(metadata)),
        buys_in_shortage=buys_in_shortage(metadata.annotations or {}),
    )


def _selector_owner(namespace: str, owner: Owner | None) -> tuple[str, str]:
    plural = OWNERS.get((owner.api_version, owner.kind)) if owner else None
    return share_value((plural, f"{namespace}/{owner.name}")) if owner and plural else NO_OWNER


def _shared(text: str | None) -> str | None:
    return None if text is None else sys.intern(text)


def _unsupported(spec: PodSpec) -> str:
    return "it asks for dynamic resource claims, which Tenon does not support yet" if spec.resource_claims else ""


def _volumes(metadata: Metadata, spec: PodSpec) -> tuple[VolumeUse, ...]:
    """The volumes of the pod that use claims. Kubernetes creates the claim of an ephemeral volume after the pod."""
    namespace = metadata.namespace or DEFAULT_NAMESPACE
    uses = []
    for volume in spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            uses.append(VolumeUse(f"{namespace}/{volume.persistent_volume_claim.claim_name}"))
        elif volume.ephemeral is not None:
            template = volume.ephemeral.volume_claim_template.spec
            claim = PersistentVolumeClaim(template.storage_class_name, template.volume_name)
            uses.append(VolumeUse(f"{namespace}/{ephemeral_pvc(metadata.name, volume.name)}", share_value(claim)))
    return tuple(uses)


def _avoids_nodepools(terms: Sequence[Requirements]) -> bool:
    """Whether every alternative requires a node without a NodePool (or a Provisioner, its name before v1beta1)."""
    return bool(terms) and all(
        any(key in term and term[key].operator == DOES_NOT_EXIST for key in (labels.NODEPOOL, labels.PROVISIONER))
        for term in terms
    )
