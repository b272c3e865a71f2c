"""Provisioner and Machine of karpenter.sh/v1alpha5, which convert to NodePool and NodeClaim."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from tenon.apis.base import ApiModel, ResourceList, Rule, not_both
from tenon.apis.common import LabelValue, NodeResources, ObjectMeta, Taint
from tenon.apis.legacy.kinds.shared_types import OldConditions, OldKubelet, OldRequirement

Seconds = Annotated[int, Field(ge=0, le=2**31)]


class Reference(ApiModel):
    """The object with the cloud's part of the description."""

    api_version: str | None = None
    """The API version of the object, such as karpenter.k8s.aws/v1alpha1."""
    kind: str | None = None
    """The kind of the object, such as AWSNodeTemplate."""
    name: Annotated[str, Field(min_length=1)]
    """The name of the object."""


class Consolidation(ApiModel):
    """Whether nodes are removed to save money."""

    enabled: bool | None = None
    """Turns consolidation on."""


class Limits(ApiModel):
    """The most that all nodes may have together."""

    resources: ResourceList = {}
    """The most of each resource."""


class NodeSpec(ApiModel):
    """What Provisioners and Machines say of a node."""

    taints: list[Taint] = []
    """Taints of the nodes for all their life."""
    startup_taints: list[Taint] = []
    """Taints that something else removes before a node counts as initialized."""
    requirements: list[OldRequirement] = []
    """Rules on the labels of the nodes."""


class ProvisionerSpec(NodeSpec):
    """The desired state of the Provisioner."""

    rules: ClassVar[tuple[Rule, ...]] = (
        not_both("provider", "provider_ref", "provider and providerRef exclude each other: keep one of them"),
        Rule(
            "!has(self.ttlSecondsAfterEmpty) || !has(self.consolidation) || !has(self.consolidation.enabled) || "
            "!self.consolidation.enabled",
            "ttlSecondsAfterEmpty and consolidation.enabled exclude each other: keep one of them",
        ),
    )

    annotations: dict[str, str] = {}
    """Annotations of the nodes."""
    labels: dict[str, LabelValue] = {}
    """Labels of the nodes; they are requirements as well."""
    kubelet_configuration: OldKubelet | None = None
    """Settings of the nodes' kubelet."""
    provider: Annotated[
        dict[str, Any] | None, Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})
    ] = None
    """The cloud's part of the description, inline."""
    provider_ref: Reference | None = None
    """The object with the cloud's part of the description."""
    ttl_seconds_after_empty: Seconds | None = None
    """How long an empty node is kept; unset keeps it."""
    ttl_seconds_until_expired: Seconds | None = None
    """How old a node may become; unset means any age."""
    consolidation: Consolidation | None = None
    """Whether nodes are removed to save money."""
    limits: Limits | None = None
    """The most that all nodes of the Provisioner may have together."""
    weight: Annotated[int, Field(ge=1, le=100)] | None = None
    """Provisioners of a higher weight are tried first; unset is the lowest."""


class ProvisionerStatus(ApiModel):
    """The status of the Provisioner."""

    last_scale_time: str | None = None
    """When the number of nodes last changed."""
    resources: ResourceList = {}
    """The capacity of all nodes of the Provisioner together."""
    conditions: OldConditions = []
    """Facts about the Provisioner."""


class Provisioner(ApiModel):
    """Which nodes may be launched, and when they may be removed; Tenon creates a NodePool from it."""

    api_version: Literal["karpenter.sh/v1alpha5"] = "karpenter.sh/v1alpha5"
    kind: Literal["Provisioner"] = "Provisioner"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: ProvisionerSpec = Field(default_factory=ProvisionerSpec)
    status: ProvisionerStatus = Field(default_factory=ProvisionerStatus)


class MachineSpec(NodeSpec):
    """What the node must be like."""

    resources: NodeResources = Field(default_factory=NodeResources)
    """What the node must offer."""
    kubelet: OldKubelet | None = None
    """Settings of the node's kubelet."""
    machine_template_ref: Reference | None = None
    """The object with the cloud's part of the description."""


class MachineStatus(ApiModel):
    """The status of the node."""

    node_name: str | None = None
    """The name of the Node."""
    provider_id: str | None = None
    """The instance."""
    capacity: ResourceList = {}
    """All resources of the node."""
    allocatable: ResourceList = {}
    """The resources that the node offers to pods."""
    conditions: OldConditions = []
    """Facts about the node."""


class Machine(ApiModel):
    """One node, requested or running: what it must be like, and its status; NodeClaims took its place."""

    api_version: Literal["karpenter.sh/v1alpha5"] = "karpenter.sh/v1alpha5"
    kind: Literal["Machine"] = "Machine"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: MachineSpec = Field(default_factory=MachineSpec)
    status: MachineStatus = Field(default_factory=MachineStatus)
