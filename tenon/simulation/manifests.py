"""Models of the manifest fields that a simulation reads, with the API server's validation.

The API server has not validated manifests from files. Without these checks, a fault would show up as an odd plan.
"""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from tenon.apis.base import ApiModel
from tenon.apis.common import Taint
from tenon.apis.validation import FieldError
from tenon.simulation.fields import Amounts, Condition, Metadata, Text, located
from tenon.simulation.pod_manifest import ClaimTemplateSpec, LabelSelector, PodSpec, RuntimeClass


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


class NamedMetadata(ApiModel):
    name: Text


class StoredTemplate(ApiModel):
    """A volume claim template of a StatefulSet."""

    metadata: NamedMetadata
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
        _check_selected(self.template, self.selector.match_labels)
        return self


def _check_selected(template: Template, selector: Mapping[str, str]) -> None:
    for key, value in selector.items():
        if template.metadata.labels.get(key) != value:
            raise ValueError(f"its selector asks for label {key}={value}, which its template does not set")


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


class ReplicationControllerSpec(ApiModel):
    """Its selector is a plain map of labels, which the API server takes from the template if it is empty."""

    replicas: int | None = Field(default=None, ge=0)
    selector: dict[str, str] = {}
    template: Template

    @model_validator(mode="after")
    def _selects_its_pods(self) -> Self:
        _check_selected(self.template, self.selector)
        return self


class ReplicationController(ApiModel):
    metadata: Metadata
    spec: ReplicationControllerSpec


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


VOLUME_KINDS = {"PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode", "CSIDriver"}
MODELS: dict[str, type[ApiModel]] = {
    "Pod": Pod,
    "Deployment": Workload,
    "ReplicaSet": Workload,
    "ReplicationController": ReplicationController,
    "StatefulSet": Workload,
    "DaemonSet": Workload,
    "PodTemplate": PodTemplate,
    "Job": Workload,
    "Node": Node,
    "NodeClaim": WithNodeStatus,
    "PriorityClass": PriorityClass,
    "LimitRange": LimitRange,
    "RuntimeClass": RuntimeClassObject,
}


def problems(kind: str, body: dict[str, Any]) -> list[FieldError]:
    """Return all problems of an object of a built-in Kubernetes kind."""
    try:
        _model_of(kind).model_validate(body)
    except ValidationError as error:
        return located(error)
    return []


def _model_of(kind: str) -> type[ApiModel]:
    if kind in VOLUME_KINDS:
        from tenon.simulation.volume_manifests import VOLUME_MODELS

        return VOLUME_MODELS[kind]
    return MODELS.get(kind, Labelled)
