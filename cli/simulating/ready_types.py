"""Instance types in a form that is read three times as fast as a catalogue of ``--catalog``.

Amounts are numbers in the units of `tenon.resources`, offerings have the fields of `Offering`, and each requirement is
written once: a thousand types state the same few. Only files that a test compares with their catalogue are read so,
because nothing is validated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import msgspec

from tenon.kube.requirements import Requirement, Requirements
from tenon.scheduling.model import InstanceType, Offering


class _Requirement(msgspec.Struct):
    """A requirement of the operators In and DoesNotExist, which are those of instance types."""

    key: str
    operator: str
    values: list[str]


class _Type(msgspec.Struct):
    name: str
    requirements: list[int]
    """Their numbers in the list that all types share."""
    capacity: dict[str, int]
    overhead: dict[str, int]
    offerings: tuple[Offering, ...]


class _Document(msgspec.Struct):
    requirements: list[_Requirement]
    types: list[_Type]


def encoded(types: Sequence[InstanceType]) -> bytes:
    """Return the types as JSON. The same types always give the same bytes."""
    numbers: dict[Requirement, int] = {}
    listed = [
        {
            "name": kind.name,
            "requirements": [numbers.setdefault(r, len(numbers)) for r in kind.requirements.values()],
            "capacity": kind.capacity,
            "overhead": kind.overhead,
            "offerings": list(map(_without_defaults, kind.offerings)),
        }
        for kind in types
    ]
    requirements = [_Requirement(r.key, r.operator, list(r.values)) for r in numbers]
    return msgspec.json.encode({"requirements": requirements, "types": listed})


def decoded(text: bytes) -> list[InstanceType]:
    """Return the types that `encoded` wrote."""
    document = msgspec.json.decode(text, type=_Document)
    shared = [Requirement.new(r.key, r.operator, r.values) for r in document.requirements]
    return [
        InstanceType(
            kind.name,
            Requirements({shared[number].key: shared[number] for number in kind.requirements}),
            kind.capacity,
            kind.overhead,
            kind.offerings,
        )
        for kind in document.types
    ]


def _without_defaults(offering: Offering) -> dict[str, Any]:
    values = {field.name: getattr(offering, field.name) for field in fields(offering)}
    return {field.name: values[field.name] for field in fields(offering) if values[field.name] != field.default}
