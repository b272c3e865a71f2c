"""Decodes Services and workloads into their selectors, the only part that Tenon needs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import field

from tenon.kube.records import ValueRecord
from tenon.kube.selectors import LabelSelector, label_selector
from tenon.kube.sharing import share_texts, share_value
from tenon.kube.structs import Metadata, Selector, Wire

V = TypeVar("V")


class _Plain(Wire):
    selector: dict[str, str] | None = None


class _Full(Wire):
    selector: Selector | None = None


class _PlainObject(Wire):
    metadata: Metadata
    spec: _Plain = field(default_factory=_Plain)


class _FullObject(Wire):
    metadata: Metadata
    spec: _Full = field(default_factory=_Full)


_plain = msgspec.json.Decoder(_PlainObject)
_full = msgspec.json.Decoder(_FullObject)


def decode_service(raw: bytes | msgspec.Raw) -> ValueRecord[Mapping[str, str] | None]:
    """Decode the selector of a Service; None if the Service selects no pods.

    Raises:
        ValueError: the bytes are not a Service.
    """
    wire = _plain.decode(raw)
    selector = wire.spec.selector
    return _record(wire.metadata, share_texts(selector) if selector else None)


def decode_replication_controller(raw: bytes | msgspec.Raw) -> ValueRecord[LabelSelector | None]:
    """Decode the selector of a ReplicationController.

    Raises:
        ValueError: the bytes are not a ReplicationController.
    """
    wire = _plain.decode(raw)
    return _record(wire.metadata, share_value(LabelSelector().also(wire.spec.selector or {})))


def decode_workload(raw: bytes | msgspec.Raw) -> ValueRecord[LabelSelector | None]:
    """Decode the selector of a ReplicaSet or StatefulSet.

    Raises:
        ValueError: the bytes are neither, or an operator is unknown.
    """
    wire = _full.decode(raw)
    return _record(wire.metadata, share_value(label_selector(wire.spec.selector)))


def _record(metadata: Metadata, selector: V) -> ValueRecord[V]:
    return ValueRecord(sys.intern(metadata.namespaced_key), metadata.uid, metadata.resource_version, selector)
