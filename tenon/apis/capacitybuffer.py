"""CapacityBuffer (autoscaling.x-k8s.io/v1beta1): capacity reserved for pods that do not exist yet.

Other autoscalers share this kind and own its CRD.
"""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tenon.apis.base import Amounts, ApiModel, Rule, exactly_one
from tenon.apis.common import Conditions, ObjectMeta

ACTIVE_CAPACITY = "buffer.x-k8s.io/active-capacity"
"""The only strategy that Tenon supports: it creates nodes before the pods exist."""


class PodTemplateRef(ApiModel):
    """A PodTemplate of the same namespace."""

    name: Annotated[str, Field(min_length=1)]
    """The name of the PodTemplate."""


class ScalableRef(ApiModel):
    """A workload of the same namespace."""

    api_group: str = "apps"
    """The API group of the workload."""
    kind: Annotated[str, Field(min_length=1)]
    """The kind of the workload: Deployment, StatefulSet or ReplicaSet; other autoscalers may know more."""
    name: Annotated[str, Field(min_length=1)]
    """The name of the workload."""


class CapacityBufferSpec(ApiModel):
    """Which pods room is kept for, and for how many."""

    rules: ClassVar[tuple[Rule, ...]] = (
        exactly_one("pod_template_ref", "scalable_ref", "exactly one of podTemplateRef and scalableRef must be given"),
        Rule(
            "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
            "podTemplateRef requires replicas or limits",
        ),
    )

    provisioning_strategy: str = ACTIVE_CAPACITY
    """How the room is kept."""
    pod_template_ref: PodTemplateRef | None = None
    """The PodTemplate of the pods."""
    scalable_ref: ScalableRef | None = None
    """The workload whose pods are the model for those of the buffer."""
    replicas: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """How many pods to keep room for."""
    percentage: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """The percentage of the workload's replicas to keep room for."""
    limits: Amounts = {}
    """The most that all pods of the buffer may request."""


class CapacityBufferStatus(ApiModel):
    """The status of the buffer."""

    pod_template_ref: PodTemplateRef | None = None
    """The PodTemplate that the buffer last used."""
    replicas: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """The number of pods that room is kept for."""
    pod_template_generation: int | None = None
    """The generation of that PodTemplate."""
    provisioning_strategy: str | None = None
    """How the room is kept."""
    conditions: Conditions = []
    """Facts about the buffer."""


class CapacityBuffer(ApiModel):
    """Room for pods that do not exist yet."""

    api_version: Literal["autoscaling.x-k8s.io/v1beta1"] = "autoscaling.x-k8s.io/v1beta1"
    kind: Literal["CapacityBuffer"] = "CapacityBuffer"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: CapacityBufferSpec
    status: CapacityBufferStatus = Field(default_factory=CapacityBufferStatus)
