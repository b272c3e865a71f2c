"""The default requests that LimitRanges give to containers, for the first plan with the pods of a DaemonSet.

The API server writes these requests into pods when it creates them. A DaemonSet without pods has only its template.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import field

from tenon.kube.records import ValueRecord
from tenon.kube.requests import units
from tenon.kube.sharing import share
from tenon.kube.structs import Metadata, Quantities, Wire
from tenon.resources import Resources


class _Item(Wire):
    type: str = ""
    default: Quantities | None = None
    default_request: Quantities | None = None
    min: Quantities | None = None
    max: Quantities | None = None


class _Spec(Wire):
    limits: list[_Item] | None = None


class _LimitRange(Wire):
    metadata: Metadata
    spec: _Spec = field(default_factory=_Spec)


_limit_ranges = msgspec.json.Decoder(_LimitRange)


def decode_limit_range(raw: bytes | msgspec.Raw) -> ValueRecord[Resources]:
    """Decode the requests that a LimitRange gives to a container that states none.

    Raises:
        ValueError: the bytes are not a LimitRange, or contain a malformed quantity.
    """
    wire = _limit_ranges.decode(raw)
    requests: Resources = {}
    for item in wire.spec.limits or ():
        if item.type == "Container":
            # the defaults that the API server derives; if two items differ, the first one wins
            stated_units = {**units(item.min), **units(item.max), **units(item.default), **units(item.default_request)}
            requests = stated_units | requests
    metadata = wire.metadata
    return ValueRecord(sys.intern(metadata.namespaced_key), metadata.uid, metadata.resource_version, share(requests))


def requests_by_namespace(limit_ranges: Iterable[ValueRecord[Resources]]) -> Mapping[str, Resources]:
    """Return the default requests of containers, by namespace."""
    requests: dict[str, Resources] = {}
    for record in sorted(limit_ranges, key=lambda record: record.key):
        namespace = record.key.partition("/")[0]
        requests[namespace] = record.value | requests.get(namespace, {})
    return requests
