"""Models of the manifest fields that a simulation reads, with the API server's validation.

The API server has not validated manifests from files. Without these checks, a fault would show up as an odd plan.
"""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from tenon.apis.base import ApiModel
from tenon.apis.validation import FieldError
from tenon.simulation.fields import Amounts, Condition, Metadata, Text, located
from tenon.simulation.pod_manifest import ClaimTemplateSpec, LabelSelector, NodeSelector, PodSpec, RuntimeClass, Taint


class VolumeNodeAffinity(ApiModel):
    required: NodeSelector | None = None


class VolumeSource(ApiModel):
    driver: str = ""


class VolumeSpec(ApiModel):
    csi: VolumeSource | None = None
    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolume(ApiModel):
    metadata: Metadata
    spec: VolumeSpec


class ClaimStatus(ApiModel):
    phase: str = ""


class PersistentVolumeClaim(ApiModel):
    metadata: Metadata
    spec: ClaimTemplateSpec = Field(default_factory=ClaimTemplateSpec)
    status: ClaimStatus = Field(default_factory=ClaimStatus)


class TopologyExpression(ApiModel):
    key: Text
    values: list[str]


class TopologyTerm(ApiModel):
    match_label_expressions: list[TopologyExpression] = []


class StorageClass(ApiModel):
    metadata: Metadata
    provisioner: str = ""
    volume_binding_mode: Literal["Immediate", "WaitForFirstConsumer"] = "Immediate"
    allowed_topologies: list[TopologyTerm] = []


class AttachableCount(ApiModel):
    count: int | None = Field(default=None, ge=0, le=2**31 - 1)


class CsiDriver(ApiModel):
    name: Text
    allocatable: AttachableCount | None = None


class CsiNodeSpec(ApiModel):
    drivers: list[CsiDriver] = []


class CsiNode(ApiModel):
    metadata: Metadata
    spec: CsiNodeSpec = Field(default_factory=CsiNodeSpec)


class CsiDriverSpec(ApiModel):
    prevent_pod_scheduling_if_missing: bool = False


class CsiDriverObject(ApiModel):
    metadata: Metadata
    spec: CsiDriverSpec = Field(default_factory=CsiDriverSpec)


class ContainerStatus(ApiModel):
    name: str = ""
    allocated_resources: Amounts = {}


class PodStatus(ApiModel):
    phase: str = ""
    nominated_node_name: str = ""
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []


class Pod(ApiModel):
    metadata: Metadata
    spec: PodSpec
    status: PodStatus = Field(default_factory=PodStatus)


class Template(ApiModel):
    metadata: Metadata = Field(default_factory=Metadata)
    spec: PodSpec


class PodTemplate(ApiModel):
    metadata: Metadata
    template: Template


class Named(ApiModel):
    name: Text


class StoredTemplate(ApiModel):
    """A volume claim template of a StatefulSet."""

    metadata: Named
    spec: ClaimTemplateSpec = Field(default_factory=ClaimTemplateSpec)


class Ordinals(ApiModel):
    """The number of a StatefulSet's first pod."""

    start: int = Field(default=0, ge=0, le=2**31 - 1)


class WorkloadSpec(ApiModel):
    """``replicas`` applies to Deployments, ReplicaSets and StatefulSets, ``parallelism`` and what follows to Jobs,
    ``ordinals`` to StatefulSets.
    """

    replicas: int | None = Field(default=None, ge=0)
    parallelism: int | None = Field(default=None, ge=0)
    completions: int | None = Field(default=None, ge=0)
    completion_mode: Literal["NonIndexed", "Indexed"] | None = None
    suspend: bool | None = None
    ordinals: Ordinals | None = None
    selector: LabelSelector | None = None
    template: Template
    volume_claim_templates: list[StoredTemplate] = []

    @model_validator(mode="after")
    def _selects_its_pods(self) -> Self:
        if self.selector is None:
            return self
        if not self.selector.match_labels and not self.selector.match_expressions:
            raise ValueError("its selector is empty: name labels of its template in selector.matchLabels")
        pods = self.template.metadata.labels
        for key, value in self.selector.match_labels.items():
            if pods.get(key) != value:
                raise ValueError(f"its selector asks for label {key}={value}, which its template does not set")
        return self


class WorkloadStatus(ApiModel):
    """What a simulation reads of a Job's status."""

    conditions: list[Condition] = []
    succeeded: int | None = Field(default=None, ge=0)
    completed_indexes: str | None = None
    failed_indexes: str | None = None


class Workload(ApiModel):
    metadata: Metadata
    spec: WorkloadSpec
    status: WorkloadStatus = Field(default_factory=WorkloadStatus)

    @model_validator(mode="after")
    def _indexes_are_counted(self) -> Self:
        if self.spec.completion_mode == "Indexed" and self.spec.completions is None:
            raise ValueError("an Indexed Job needs spec.completions")
        return self


class NodeSpec(ApiModel):
    provider_id: str = Field(default="", alias="providerID")
    taints: list[Taint] = []
    unschedulable: bool = False


class NodeStatus(ApiModel):
    capacity: Amounts = {}
    allocatable: Amounts = {}
    conditions: list[Condition] = []


class PriorityClass(ApiModel):
    value: int = Field(ge=-(2**31), le=2**31 - 1)
    global_default: bool = False


class LimitRangeItem(ApiModel):
    type: Text
    default: Amounts = {}
    default_request: Amounts = {}
    min: Amounts = {}
    max: Amounts = {}


class LimitRangeSpec(ApiModel):
    limits: list[LimitRangeItem] = []


class LimitRange(ApiModel):
    metadata: Metadata
    spec: LimitRangeSpec = Field(default_factory=LimitRangeSpec)


class RuntimeClassObject(RuntimeClass):
    metadata: Metadata


class Labelled(ApiModel):
    """An object of which the simulation reads only the metadata."""

    metadata: Metadata


class WithNodeStatus(Labelled):
    """What Nodes and NodeClaims have in common. `tenon.apis.nodeclaim` validates the rest of a NodeClaim."""

    status: NodeStatus = Field(default_factory=NodeStatus)


class Node(WithNodeStatus):
    spec: NodeSpec = Field(default_factory=NodeSpec)


MODELS: dict[str, type[ApiModel]] = {
    "Pod": Pod,
    "Deployment": Workload,
    "ReplicaSet": Workload,
    "StatefulSet": Workload,
    "DaemonSet": Workload,
    "PodTemplate": PodTemplate,
    "Job": Workload,
    "Node": Node,
    "NodeClaim": WithNodeStatus,
    "PriorityClass": PriorityClass,
    "PersistentVolume": PersistentVolume,
    "PersistentVolumeClaim": PersistentVolumeClaim,
    "StorageClass": StorageClass,
    "CSINode": CsiNode,
    "CSIDriver": CsiDriverObject,
    "LimitRange": LimitRange,
    "RuntimeClass": RuntimeClassObject,
}


def problems(kind: str, body: dict[str, Any]) -> list[FieldError]:
    """Return all problems of an object of a built-in Kubernetes kind."""
    try:
        MODELS.get(kind, Labelled).model_validate(body)
    except ValidationError as error:
        return located(error)
    return []
