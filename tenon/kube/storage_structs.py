"""The fields of PVCs, volumes, classes, CSI nodes and namespaces that Tenon reads, as in `tenon.kube.structs`."""

from __future__ import annotations

from msgspec import field

from tenon.kube.structs import Metadata, NodeSelector, Present, PvcSpec, Wire


class PvcStatus(Wire):
    phase: str = ""


class PvcObject(Wire):
    metadata: Metadata
    spec: PvcSpec = field(default_factory=PvcSpec)
    status: PvcStatus = field(default_factory=PvcStatus)


class CsiSource(Wire):
    driver: str = ""


class VolumeNodeAffinity(Wire):
    required: NodeSelector | None = None


class VolumeSpec(Wire):
    csi: CsiSource | None = None
    aws_elastic_block_store: Present | None = None
    azure_disk: Present | None = None
    azure_file: Present | None = None
    cinder: Present | None = None
    gce_persistent_disk: Present | None = None
    portworx_volume: Present | None = None
    vsphere_volume: Present | None = None
    local: Present | None = None
    host_path: Present | None = None
    node_affinity: VolumeNodeAffinity | None = None


class VolumeObject(Wire):
    metadata: Metadata
    spec: VolumeSpec = field(default_factory=VolumeSpec)


class TopologyExpression(Wire):
    key: str
    values: list[str] | None = None


class TopologyTerm(Wire):
    match_label_expressions: list[TopologyExpression] | None = None


class ClassObject(Wire):
    metadata: Metadata
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class AttachableCount(Wire):
    count: int | None = None


class CsiDriver(Wire):
    name: str
    allocatable: AttachableCount | None = None


class CsiNodeSpec(Wire):
    drivers: list[CsiDriver] | None = None


class CsiNodeObject(Wire):
    metadata: Metadata
    spec: CsiNodeSpec = field(default_factory=CsiNodeSpec)


class NamespaceObject(Wire):
    metadata: Metadata
