"""Decodes volumes, PVCs, storage classes, CSI nodes and the labels of namespaces.

A cluster has many volumes with few different classes and affinities, so records share terms and names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec
from msgspec import field

from tenon.apis import labels
from tenon.kube.node_affinity import requirements
from tenon.kube.records import ValueRecord
from tenon.kube.requirements import IN, Requirement, Requirements
from tenon.kube.sharing import share, share_texts, share_value
from tenon.kube.structs import Metadata, NodeSelector, Present, PvcSpec, SelectorTerm, Wire
from tenon.kube.timestamps import epoch_seconds
from tenon.kube.volumes import (
    BIND_COMPLETED,
    DEFAULT_CLASS,
    EXCLUSIVE,
    IN_TREE,
    SELECTED_NODE,
    WAITS,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)


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


class CsiDriverSpec(Wire):
    prevent_pod_scheduling_if_missing: bool | None = None


class CsiDriverObject(Wire):
    metadata: Metadata
    spec: CsiDriverSpec = field(default_factory=CsiDriverSpec)


class NamespaceObject(Wire):
    metadata: Metadata


T = TypeVar("T")
W = TypeVar("W", PvcObject, VolumeObject, ClassObject, CsiNodeObject, CsiDriverObject, NamespaceObject)

PVC_CLASS = "volume.beta.kubernetes.io/storage-class"
"""The annotation for a PVC's class, older than the field in its spec. It still takes precedence."""
ZONE_LABELS = (
    labels.ZONE,
    labels.REGION,
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
"""Labels of a volume that kube-scheduler's plugin VolumeZone compares with those of the node."""
ZONE_SEPARATOR = "__"
"""Between the zones of a volume that is in several of them."""
IN_TREE_SOURCES = {
    "aws_elastic_block_store": "kubernetes.io/aws-ebs",
    "azure_disk": "kubernetes.io/azure-disk",
    "azure_file": "kubernetes.io/azure-file",
    "cinder": "kubernetes.io/cinder",
    "gce_persistent_disk": "kubernetes.io/gce-pd",
    "portworx_volume": "kubernetes.io/portworx-volume",
    "vsphere_volume": "kubernetes.io/vsphere-volume",
}
"""The fields of in-tree volume sources, and the provisioner of each."""


def _decoder(
    shape: type[W], read: Callable[[W], T], *, namespaced: bool = False
) -> Callable[[bytes | msgspec.Raw], ValueRecord[T]]:
    """Return a decoder from bytes to a record. It raises ValueError if the bytes do not have this shape."""
    decoder = msgspec.json.Decoder(shape)

    def decode(raw: bytes | msgspec.Raw) -> ValueRecord[T]:
        wire = decoder.decode(raw)
        metadata: Metadata = wire.metadata
        key = metadata.namespaced_key if namespaced else metadata.key
        return ValueRecord(sys.intern(key), metadata.uid, metadata.resource_version, read(wire))

    return decode


def _pvc(wire: PvcObject) -> PersistentVolumeClaim:
    annotations = wire.metadata.annotations or {}
    class_name = annotations.get(PVC_CLASS, wire.spec.storage_class_name)
    return PersistentVolumeClaim(
        storage_class=None if class_name is None else sys.intern(class_name),
        volume=wire.spec.volume_name,
        bound=BIND_COMPLETED in annotations,
        lost=wire.status.phase == "Lost",
        leaving=wire.metadata.deletion_timestamp is not None,
        exclusive=EXCLUSIVE in (wire.spec.access_modes or ()),
        selected_node=annotations.get(SELECTED_NODE, ""),
    )


def _volume(wire: VolumeObject) -> PersistentVolume:
    return PersistentVolume(
        terms=_reachable_from(wire.spec, wire.metadata.labels or {}),
        driver=sys.intern(_driver(wire.spec)),
        leaving=wire.metadata.deletion_timestamp is not None,
        hosts=_hosts(wire.spec),
    )


def _hosts(spec: VolumeSpec) -> frozenset[str]:
    """The host names of the machine that has a local volume; empty for other volumes."""
    if spec.local is None and spec.host_path is None:
        return frozenset()
    required = spec.node_affinity.required if spec.node_affinity is not None else None
    terms = (
        _term(term, local=False) for term in (required.node_selector_terms if required is not None else None) or ()
    )
    hostname_requirements = [term[labels.HOSTNAME] for term in terms if labels.HOSTNAME in term]
    return frozenset(
        sys.intern(host)
        for requirement in hostname_requirements
        if requirement.operator == IN
        for host in requirement.members
    )


def _driver(spec: VolumeSpec) -> str:
    if spec.csi is not None:
        return spec.csi.driver
    old = (name for field, name in IN_TREE_SOURCES.items() if getattr(spec, field) is not None)
    return next((IN_TREE[name] for name in old), "")


def _reachable_from(spec: VolumeSpec, texts: Mapping[str, str]) -> tuple[Requirements, ...] | None:
    """The nodes that can access a volume. The hostname of a local disk is ignored: its node may be gone for good.

    kube-scheduler asks for the zone and region in a volume's labels too, which volumes from before CSI have.
    """
    required = spec.node_affinity.required if spec.node_affinity is not None else None
    selector_terms = required.node_selector_terms if required is not None else None
    labeled = _zone_labels(texts)
    if not selector_terms:
        return share_value((labeled,)) if labeled is not None else None
    local = spec.local is not None or spec.host_path is not None
    terms = [_term(term, local) for term in selector_terms if term.match_expressions and not term.match_fields]
    if labeled is not None:
        terms = [term.with_(labeled) for term in terms]
        terms = [term for term in terms if not any(term[key].contradicts() for key in labeled)]
    return share_value(tuple(dict.fromkeys(terms)))


def _zone_labels(texts: Mapping[str, str]) -> Requirements | None:
    """What the labels of a volume require of its node; None without such labels.

    kube-scheduler ignores a label that has an empty part.
    """
    parts = {key: texts[key].split(ZONE_SEPARATOR) for key in ZONE_LABELS if key in texts}
    requirements = [Requirement.new(key, IN, values) for key, values in parts.items() if all(values)]
    return Requirements.of(*requirements) if requirements else None


def _term(term: SelectorTerm, local: bool) -> Requirements:
    return requirements(e for e in term.match_expressions or () if not (local and e.key == labels.HOSTNAME))


def _class(wire: ClassObject) -> StorageClass:
    topologies = wire.allowed_topologies
    annotations = wire.metadata.annotations or {}
    return StorageClass(
        name=wire.metadata.name,
        driver=wire.provisioner,
        waits=wire.volume_binding_mode == WAITS,
        terms=tuple(_topology(term) for term in topologies if term.match_label_expressions) if topologies else None,
        default=any(annotations.get(name) == "true" for name in DEFAULT_CLASS),
        created=epoch_seconds(wire.metadata.creation_timestamp),
    )


def _topology(term: TopologyTerm) -> Requirements:
    return Requirements.of(*(Requirement.new(e.key, "In", e.values or ()) for e in term.match_label_expressions or ()))


def _limits(wire: CsiNodeObject) -> Mapping[str, int | None]:
    """The maximum number of attached volumes by driver; None for a driver without a limit."""
    drivers = wire.spec.drivers or ()
    return share({driver.name: driver.allocatable.count if driver.allocatable else None for driver in drivers})


decode_pvc = _decoder(PvcObject, _pvc, namespaced=True)
decode_volume = _decoder(VolumeObject, _volume)
decode_class = _decoder(ClassObject, _class)
decode_csi_node = _decoder(CsiNodeObject, _limits)
decode_csi_driver = _decoder(CsiDriverObject, lambda wire: wire.spec.prevent_pod_scheduling_if_missing or False)
"""Decodes whether kube-scheduler keeps pods with volumes of the driver from nodes that lack it."""
decode_namespace = _decoder(NamespaceObject, lambda wire: share_texts(wire.metadata.labels))
"""Decodes the labels of a namespace."""
