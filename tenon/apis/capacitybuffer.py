"""CapacityBuffer (autoscaling.x-k8s.io/v1beta1): room that is kept for pods which are not there yet.

The kind is shared with other autoscalers, which own its CRD.
"""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from tenon.apis.base import ApiModel, ResourceList, Rule
from tenon.apis.common import ObjectMeta

GROUP = "autoscaling.x-k8s.io"
ACTIVE_CAPACITY = "buffer.x-k8s.io/active-capacity"
"""The one strategy that is followed: nodes are there before pods are."""


class PodTemplateRef(ApiModel):
    """A PodTemplate of the same namespace."""

    name: Annotated[str, Field(min_length=1)]


class ScalableRef(ApiModel):
    """A workload of the same namespace."""

    api_group: str = "apps"
    kind: Literal["Deployment", "StatefulSet", "ReplicaSet"]
    name: Annotated[str, Field(min_length=1)]


class CapacityBufferSpec(ApiModel):
    """What pods room is kept for, and for how many of them."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.podTemplateRef) != has(self.scalableRef)",
            "exactly one of podTemplateRef and scalableRef must be given",
            lambda spec: (spec.pod_template_ref is None) != (spec.scalable_ref is None),
        ),
        Rule(
            "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
            "podTemplateRef needs replicas or limits beside it",
            lambda spec: spec.pod_template_ref is None or spec.replicas is not None or bool(spec.limits),
        ),
        Rule(
            "!has(self.limits) || self.limits.all(name, !string(self.limits[name]).startsWith('-'))",
            "limits must not be negative",
            lambda spec: not any(text.startswith("-") for text in spec.limits.values()),
        ),
    )

    provisioning_strategy: str = ACTIVE_CAPACITY
    """How the room is kept."""
    pod_template_ref: PodTemplateRef | None = None
    """The PodTemplate of the pods."""
    scalable_ref: ScalableRef | None = None
    """The workload whose pods they are like."""
    replicas: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """For how many pods."""
    percentage: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """For which part of the workload's replicas."""
    limits: ResourceList = {}
    """The most that all of them may ask for."""


class CapacityBuffer(ApiModel):
    """Room for pods that are not there yet."""

    api_version: Literal["autoscaling.x-k8s.io/v1beta1"] = "autoscaling.x-k8s.io/v1beta1"
    kind: Literal["CapacityBuffer"] = "CapacityBuffer"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: CapacityBufferSpec
    status: dict[str, Any] = {}
