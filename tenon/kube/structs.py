"""The fields of Kubernetes objects that Tenon reads. The decoder skips everything else.

The JSON of a pod has about seven kilobytes and a cluster holds ten thousand pods, so fields that no struct names cost
neither time nor memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import field

from tenon.kube.taints import Taint, Toleration

Quantities = dict[str, str | int | float]
Object = Mapping[str, Any]
"""A Kubernetes object as JSON."""

Struct = TypeVar("Struct", bound="Wire")


DEFAULT_NAMESPACE = "default"
"""The namespace of an object whose kind has namespaces and whose manifest states none."""


def object_key(name: str, namespace: str = "") -> str:
    """Return ``namespace/name``, or the name of an object that has no namespace."""
    return f"{namespace}/{name}" if namespace else name


class Wire(msgspec.Struct, rename="camel", gc=False):
    """The base of all structs. Field names are camelCase in JSON, and unknown fields are skipped."""


class Present(Wire):
    """A value of which only the presence matters."""


class Owner(Wire):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(Wire):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None

    @property
    def key(self) -> str:
        """``namespace/name``; the name if there is no namespace."""
        return object_key(self.name, self.namespace)

    @property
    def namespaced_key(self) -> str:
        """``namespace/name`` of a kind that has namespaces."""
        return object_key(self.name, self.namespace or DEFAULT_NAMESPACE)


class ResourceNeeds(Wire):
    requests: Quantities | None = None
    limits: Quantities | None = None


class Port(Wire):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(Wire):
    name: str = ""
    resources: ResourceNeeds | None = None
    ports: list[Port] | None = None
    restart_policy: str | None = None


class Expression(Wire):
    key: str
    operator: str
    values: list[str] | None = None


class SelectorTerm(Wire):
    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None


class NodeSelector(Wire):
    node_selector_terms: list[SelectorTerm] | None = None


class PreferredNodes(Wire):
    weight: int = 1
    preference: SelectorTerm = field(default_factory=SelectorTerm)


class NodeAffinity(Wire):
    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[PreferredNodes] | None = field(default=None, name="preferredDuringSchedulingIgnoredDuringExecution")


class Selector(Wire):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Expression] | None = None


class PodAffinityTerm(Wire):
    topology_key: str = ""
    label_selector: Selector | None = None
    namespaces: list[str] | None = None
    namespace_selector: Selector | None = None


class PreferredPods(Wire):
    weight: int = 1
    pod_affinity_term: PodAffinityTerm = field(default_factory=PodAffinityTerm)


class PodAffinity(Wire):
    required: list[PodAffinityTerm] | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[PreferredPods] | None = field(default=None, name="preferredDuringSchedulingIgnoredDuringExecution")


class Affinity(Wire):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Spread(Wire):
    when_unsatisfiable: str = "DoNotSchedule"
    topology_key: str = ""
    max_skew: int = 1
    min_domains: int | None = None
    label_selector: Selector | None = None
    match_label_keys: list[str] | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class PvcName(Wire):
    claim_name: str = ""


class PvcSpec(Wire):
    storage_class_name: str | None = None
    volume_name: str = ""
    access_modes: list[str] | None = None


class PvcTemplate(Wire):
    spec: PvcSpec = field(default_factory=PvcSpec)


class Ephemeral(Wire):
    volume_claim_template: PvcTemplate = field(default_factory=PvcTemplate)


class Volume(Wire):
    name: str = ""
    persistent_volume_claim: PvcName | None = None
    ephemeral: Ephemeral | None = None


class PodSpec(Wire):
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Quantities | None = None
    resources: ResourceNeeds | None = None
    topology_spread_constraints: list[Spread] | None = None
    volumes: list[Volume] | None = None
    host_network: bool = False
    resource_claims: list[Present] | None = None
    scheduling_gates: list[Present] | None = None
    scheduling_group: Present | None = None
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str | None = None
    termination_grace_period_seconds: int | None = None


class Condition(Wire):
    type: str = ""
    status: str = ""
    reason: str | None = None
    last_transition_time: str | None = None


def condition_of(conditions: Sequence[Condition] | None, type_: str) -> Condition | None:
    """Return the condition of this type; None if there is none."""
    return next((condition for condition in conditions or () if condition.type == type_), None)


class ContainerStatus(Wire):
    name: str = ""
    allocated_resources: Quantities | None = None
    resources: ResourceNeeds | None = None


class PodStatus(Wire):
    phase: str = ""
    start_time: str | None = None
    nominated_node_name: str | None = None
    allocated_resources: Quantities | None = None
    resources: ResourceNeeds | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class PodObject(Wire):
    metadata: Metadata
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


class NodeSpec(Wire):
    provider_id: str = field(default="", name="providerID")
    taints: tuple[Taint, ...] | None = None
    unschedulable: bool = False


class NodeInfo(Wire):
    boot_id: str = field(default="", name="bootID")


class NodeStatus(Wire):
    capacity: Quantities | None = None
    allocatable: Quantities | None = None
    conditions: list[Condition] | None = None
    node_info: NodeInfo | None = None


class NodeObject(Wire):
    metadata: Metadata
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


class PodTemplate(Wire):
    metadata: Metadata = field(default_factory=Metadata)
    spec: PodSpec = field(default_factory=PodSpec)


class DaemonSetSpec(Wire):
    template: PodTemplate = field(default_factory=PodTemplate)


class DaemonSetObject(Wire):
    metadata: Metadata
    spec: DaemonSetSpec = field(default_factory=DaemonSetSpec)


def read(part: Object | None, shape: type[Struct]) -> Struct:
    """Convert a part of a JSON object, such as a pod's spec, to its struct. A missing part gives an empty struct.

    Raises:
        ValueError: the part does not have this shape.
    """
    return msgspec.convert(part or {}, shape)
