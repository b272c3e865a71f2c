"""The records in the cache: a small immutable record for each object.

Two records of an object are equal if their content is equal, regardless of the resource version.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, Self, TypeVar

from tenon.kube import object_json
from tenon.kube.conditions import condition, is_true, true_since
from tenon.kube.owners import DAEMONSET, STATEFULSET
from tenon.kube.pod import Pod
from tenon.kube.structs import DEFAULT_NAMESPACE, PodSpec, object_key
from tenon.kube.taints import DISRUPTED, Taint, tolerate
from tenon.kube.timestamps import parse_instant
from tenon.kube.volumes import VolumeUse
from tenon.resources import Resources

V_co = TypeVar("V_co", covariant=True)


class CachedRecord(Protocol):
    """The properties of a record that the reflector and the tables need."""

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone."""

    @property
    def uid(self) -> str:
        """The object's UID."""

    @property
    def resource_version(self) -> str:
        """The resource version of the object that the record was decoded from."""


DEFAULT_GRACE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Deletion:
    """The deletion of a pod that is in progress."""

    end: datetime
    """When its grace period ends."""
    grace_seconds: int
    """How long the grace period is."""
    finalizers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod: what scheduling sees, and what only the cache, its views and the activities need."""

    pod: Pod
    resource_version: str = field(compare=False)
    node_name: str = ""
    phase: str = ""
    ready: bool = False
    """It serves, so a PodDisruptionBudget that spares only pods that do not serve protects it."""
    owner_kind: str = ""
    owner_uid: str = ""
    selector_owner: tuple[str, str] = ("", "")
    """The resource (plural) and key of the controller whose selector matches similar pods; empty if there is none."""
    scheduler: str = ""
    mirror: bool = False
    """It mirrors a static pod, which no API call can remove from its node."""
    critical: bool = False
    """Its priority class marks it as critical for the cluster or its node."""
    grace_seconds: int = DEFAULT_GRACE_SECONDS
    """Its own termination grace period."""
    deletion: Deletion | None = None
    unschedulable: bool = False
    """The scheduler reported that the pod fits on no node."""
    untried: bool = False
    """The scheduler has not reported yet whether it can place the pod."""
    nominated_node: str = ""
    """The node on which the scheduler is making room for the pod by preemption; empty if there is none."""
    gated: bool = False
    grouped: bool = False
    """It belongs to a PodGroup."""
    opted_out: bool = False
    """The pod requires nodes that belong to no NodePool."""
    do_not_disrupt: str = ""
    """The value of the do-not-disrupt annotation; empty if absent."""
    do_not_evict: bool = False
    """That annotation has its old name do-not-evict."""
    started_at: float = 0.0
    """When the kubelet started it, in seconds since the epoch; 0 if it has not started."""
    surges: bool = False
    """A disruption command starts its new pod before it stops."""
    disruption_cost: str | None = None
    """The value of the annotation disruption-cost; None if absent."""
    deletion_cost: str | None = None
    """The value of the annotation pod-deletion-cost; None if absent."""
    containers: bytes = b""
    """What its requests depend on (`vertical_pod_autoscalers.container_requests`); empty without VPAPredictions."""
    volumes: tuple[VolumeUse, ...] = ()
    """Its volumes that use claims. The cache resolves what they require of a node, which changes with the claims."""
    bound_at: float = 0.0
    """When the pod was bound to its node, in seconds since the epoch; 0 if unknown."""
    ready_at: float = 0.0
    """Since when it serves, in seconds since the epoch; 0 if it does not."""
    unready_at: float = 0.0
    """Since when it does not serve, in seconds since the epoch; 0 if it does, or if that is unknown."""
    limits: Resources = field(default_factory=dict)
    owner_path: str = ""
    """The path of its first owner on the API server, as metrics name owners."""
    has_resource_claims: bool = False

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return self.pod.key

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.pod.uid

    def stated_cost(self, *, deletion_costs_managed: bool) -> int:
        """Return the cost that the pod states for its eviction. A value that cannot be read is 0.

        ``deletion_costs_managed``: Tenon writes pod-deletion-cost itself, so that it is no wish of the pod's owner.
        """
        if self.disruption_cost is not None:
            return whole_number(self.disruption_cost) or 0
        return 0 if deletion_costs_managed else self.scale_in_cost

    @property
    def scale_in_cost(self) -> int:
        """What pod-deletion-cost says. Its ReplicaSet deletes the pods with the lowest one first."""
        return whole_number(self.deletion_cost or "") or 0

    @property
    def daemon(self) -> bool:
        """Whether a DaemonSet owns the pod and would replace it only on the same node."""
        return self.owner_kind == DAEMONSET

    @property
    def terminal(self) -> bool:
        """Whether the pod has terminated and no longer holds resources on its node."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def deleting(self) -> bool:
        """Whether the pod's deletion has been requested."""
        return self.deletion is not None

    @property
    def stays(self) -> bool:
        """Whether a drain leaves the pod on its node: it is a mirror pod, or it tolerates the taint of such a node."""
        return self.mirror or tolerate(self.pod.tolerations, DISRUPTED)

    @property
    def protected_for_a_time(self) -> bool:
        """Whether the annotation do-not-disrupt may protect the pod now and not later."""
        return self.do_not_disrupt not in ("", "true")

    @property
    def provisionable(self) -> bool:
        """Whether the scheduler found no node for the pod, and it waits for capacity that Tenon may buy."""
        return self.unschedulable and self.awaits_node

    @property
    def awaits_node(self) -> bool:
        """Whether the pod has no node, and Tenon may buy one for it if the scheduler finds none."""
        return (
            not self.node_name
            and not self.nominated_node
            and not self.daemon
            and not self.mirror
            and not self.gated
            and not self.deleting
            and not self.terminal
            and not self.opted_out
        )

    @property
    def reschedulable(self) -> bool:
        """Whether the pod makes its node non-empty: it is running and would need another node.

        A terminating pod counts only if it belongs to a StatefulSet, which starts the same pod again.
        """
        if self.terminal or self.mirror or self.daemon:
            return False
        return not self.deleting or self.owner_kind == STATEFULSET


def whole_number(text: str) -> int | None:
    """Parse a whole number of 32 bits as Go does; None if the text is not one."""
    if re.fullmatch(r"[+-]?[0-9]{1,20}", text) is None:
        return None
    number = int(text)
    return number if -(2**31) <= number < 2**31 else None


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """A condition of a Node, and since when it has its status, in seconds since the epoch (0: unknown)."""

    type: str
    status: str
    since: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    name: str
    uid: str
    resource_version: str = field(compare=False)
    provider_id: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[Taint, ...]
    capacity: Resources
    allocatable: Resources
    ready: bool = False
    deleting: bool = False
    created: float = 0.0
    unhealthy: tuple[NodeCondition, ...] = ()
    """Its conditions such as Ready and StorageReady that are not True. Most nodes have none."""
    boot_id: str = ""
    """Another one after each boot of the machine."""
    deleted_at: float = 0.0
    """When its deletion was requested, in seconds since the epoch; 0 if it was not."""
    conditions: tuple[NodeCondition, ...] = field(default=(), compare=False)
    """All conditions. Those that matter for decisions are in ``ready`` and ``unhealthy``, which are compared."""

    @property
    def key(self) -> str:
        """The name."""
        return self.name


@dataclass(frozen=True, slots=True)
class ObjectRecord:
    """A custom resource as JSON, without managedFields. Never change ``body``."""

    name: str
    uid: str
    resource_version: str = field(compare=False)
    body: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """The record of an object as JSON.

        Raises:
            ValueError: the object has no name.
        """
        metadata = body.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise ValueError("the object has no metadata.name")
        uid, version = metadata.get("uid"), metadata.get("resourceVersion")
        return cls(sys.intern(metadata["name"]), str(uid or ""), str(version or ""), body)

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def metadata(self) -> Mapping[str, Any]:
        metadata: Mapping[str, Any] = self.body["metadata"]
        return metadata

    @property
    def created_at(self) -> datetime | None:
        return parse_instant(self.metadata.get("creationTimestamp"))

    @property
    def deleting(self) -> bool:
        """Whether the object's deletion has been requested."""
        return object_json.is_deleting(self.body)

    @property
    def deleted_at(self) -> datetime | None:
        """When the object's deletion was requested; None if it was not."""
        return object_json.deletion_instant(self.body)

    @property
    def version_of_spec(self) -> tuple[object, ...]:
        """Changes whenever a user changes the object or requests its deletion, but not when the status changes."""
        return self.uid, self.metadata.get("generation"), self.deleting

    @property
    def finalizers(self) -> Sequence[str]:
        return object_json.finalizers(self.body)

    @property
    def labels(self) -> Mapping[str, str]:
        return object_json.labels(self.body)

    @property
    def annotations(self) -> Mapping[str, str]:
        return object_json.annotations(self.body)

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.body.get("spec") or {}

    @property
    def status(self) -> Mapping[str, Any]:
        return self.body.get("status") or {}

    def condition(self, type_: str) -> Mapping[str, Any]:
        """Return the status condition of a type; empty if the object does not have it."""
        return condition(self.body, type_)

    def is_true(self, type_: str) -> bool:
        """Whether the object has a status condition of this type that is True."""
        return is_true(self.body, type_)

    def true_since(self, type_: str) -> datetime | None:
        """When the status condition became True; None if it is not True."""
        return true_since(self.body, type_)


@dataclass(frozen=True, slots=True)
class NamespacedRecord(ObjectRecord):
    """An `ObjectRecord` for an object in a namespace."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return object_key(self.name, self.metadata.get("namespace") or DEFAULT_NAMESPACE)


@dataclass(frozen=True, slots=True)
class DaemonRecord:
    """A DaemonSet, represented by the pod that it would create on a node."""

    pod: Pod
    spec: PodSpec
    """The spec of that pod, as in the template."""
    resource_version: str = field(compare=False)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return self.pod.key

    @property
    def uid(self) -> str:
        """The DaemonSet's UID."""
        return self.pod.uid


@dataclass(frozen=True, slots=True)
class ValueRecord(Generic[V_co]):
    """An object of which Tenon needs a single value, such as the labels of a Namespace."""

    key: str
    uid: str
    resource_version: str = field(compare=False)
    value: V_co
