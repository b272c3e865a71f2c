"""Decodes Nodes, NodeClaims and other objects from the API server into records.

`tenon.kube.pod_decode` decodes pods, and `tenon.kube.storage_decode` volumes, claims and storage classes.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, TypeVar

import msgspec

from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.records import NamespacedRecord, NodeCondition, NodeRecord, ObjectRecord, ValueRecord
from tenon.kube.requests import units
from tenon.kube.sharing import share, share_texts, share_texts_in_order, share_value
from tenon.kube.structs import Condition, Metadata, NodeObject, Wire, condition_of
from tenon.kube.taints import UNSCHEDULABLE
from tenon.kube.timestamps import epoch_seconds

AnyRecord = TypeVar("AnyRecord", bound=ObjectRecord)

_nodes = msgspec.json.Decoder(NodeObject)
_objects = msgspec.json.Decoder(dict[str, Any])


class _Described(Wire):
    """An object of which only the metadata matters."""

    metadata: Metadata


_described = msgspec.json.Decoder(_Described)


def decode_node(raw: bytes | msgspec.Raw) -> NodeRecord:
    """Decode a Node.

    Raises:
        ValueError: the bytes are not a Node, or contain a malformed quantity.
    """
    wire = _nodes.decode(raw)
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    taints = share_value(spec.taints or ())
    if (metadata.annotations or {}).get(labels.STARTUP_CORDON) == "true":  # a temporary cordon, which planning ignores
        taints = tuple(taint for taint in taints if taint != UNSCHEDULABLE)
    elif spec.unschedulable and UNSCHEDULABLE not in taints:
        taints = (*taints, UNSCHEDULABLE)
    conditions = tuple(map(_node_condition, status.conditions or ()))
    ready = condition_of(status.conditions, "Ready")
    return NodeRecord(
        name=sys.intern(metadata.name),
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        provider_id=spec.provider_id,
        labels=share_texts(metadata.labels),
        annotations=dict(metadata.annotations or {}),
        taints=taints,
        capacity=share(units(status.capacity)),
        allocatable=share(units(status.allocatable)),
        ready=ready is not None and ready.status == "True",
        deleting=metadata.deletion_timestamp is not None,
        created=epoch_seconds(metadata.creation_timestamp),
        unhealthy=tuple(condition for condition in conditions if not _is_usual(condition)),
        boot_id=status.node_info.boot_id if status.node_info is not None else "",
        deleted_at=epoch_seconds(metadata.deletion_timestamp),
        conditions=conditions,
    )


def _decode_json(record: type[AnyRecord], raw: bytes | msgspec.Raw) -> AnyRecord:
    """Decode a custom resource.

    Raises:
        ValueError: the bytes are not an object with a name.
    """
    body = _objects.decode(raw)
    decoded = record.of(body)
    body["metadata"].pop("managedFields", None)
    _share_values(body)
    return decoded


def decode_generation(raw: bytes | msgspec.Raw) -> ValueRecord[int]:
    """Decode the generation of an object, which changes with its spec alone.

    Raises:
        ValueError: the bytes are not an object.
    """
    metadata = _described.decode(raw).metadata
    return ValueRecord(metadata.namespaced_key, metadata.uid, metadata.resource_version, metadata.generation)


decode_object = partial(_decode_json, ObjectRecord)
decode_namespaced = partial(_decode_json, NamespacedRecord)
decode_nodeclaim = partial(_decode_json, ClaimRecord)


def _share_values(body: dict[str, Any]) -> None:
    """Share the values of requirements, because thousands of NodeClaims list the same hundreds of instance types."""
    spec = body.get("spec")
    requirements = spec.get("requirements") if isinstance(spec, dict) else None
    for term in requirements if isinstance(requirements, list) else ():
        values = term.get("values") if isinstance(term, dict) else None
        if isinstance(values, list) and all(isinstance(value, str) for value in values):
            term["values"] = share_texts_in_order(values)


def _node_condition(condition: Condition) -> NodeCondition:
    since = epoch_seconds(condition.last_transition_time)
    return NodeCondition(
        sys.intern(condition.type), sys.intern(condition.status), since, sys.intern(condition.reason or "")
    )


def _is_usual(condition_item: NodeCondition) -> bool:
    """Whether a condition of a Node is one that every healthy node has, and so no fault."""
    if condition_item.status == "True":
        return condition_item.type.endswith("Ready")
    return condition_item.status == "False" and condition_item.type in _USUALLY_FALSE


_USUALLY_FALSE = frozenset(
    {
        # The kubelet's.
        *("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"),
        # Those of node-problem-detector's own configurations.
        *("KernelDeadlock", "ReadonlyFilesystem", "CorruptDockerOverlay2", "FrequentUnregisterNetDevice"),
        *("FrequentKubeletRestart", "FrequentDockerRestart", "FrequentContainerdRestart"),
    }
)
