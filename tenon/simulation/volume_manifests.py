"""Models of the manifests about volumes, as in `tenon.simulation.manifests`. Most inputs have none."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from typing import Literal

from pydantic import Field

from tenon.apis.base import ApiModel
from tenon.simulation.fields import Metadata, Text
from tenon.simulation.pod_manifest import ClaimTemplateSpec, NodeSelector


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


VOLUME_MODELS: dict[str, type[ApiModel]] = {
    "PersistentVolume": PersistentVolume,
    "PersistentVolumeClaim": PersistentVolumeClaim,
    "StorageClass": StorageClass,
    "CSINode": CsiNode,
    "CSIDriver": CsiDriverObject,
}
