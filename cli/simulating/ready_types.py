"""Instance types in a form that is read four times as fast as a catalogue of ``--catalog``.

Amounts are numbers in the units of `tenon.resources`. A thousand types state the same few requirements, and have the
same few lists of offerings but for their prices, so each of these is written once. Only files that a test compares with
their catalogue are read so, because nothing is validated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
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
    offerings: int
    """The number of the list of its offerings, which types share but for the prices."""
    prices: list[float]


class _Document(msgspec.Struct):
    requirements: list[_Requirement]
    offerings: list[list[Offering]]
    types: list[_Type]


def encoded(types: Sequence[InstanceType]) -> bytes:
    """Return the types as JSON. The same types always give the same bytes."""
    numbers: dict[Requirement, int] = {}
    lists: dict[tuple[Offering, ...], int] = {}
    listed = [
        {
            "name": kind.name,
            "requirements": [numbers.setdefault(r, len(numbers)) for r in kind.requirements.values()],
            "capacity": kind.capacity,
            "overhead": kind.overhead,
            "offerings": lists.setdefault(tuple(map(_without_price, kind.offerings)), len(lists)),
            "prices": [offering.price for offering in kind.offerings],
        }
        for kind in types
    ]
    requirements = [_Requirement(r.key, r.operator, list(r.values)) for r in numbers]
    offerings = [list(map(_without_defaults, group)) for group in lists]
    return msgspec.json.encode({"requirements": requirements, "offerings": offerings, "types": listed})


def decoded(text: bytes) -> list[InstanceType]:
    """Return the types that `encoded` wrote."""
    document = msgspec.json.decode(text, type=_Document)
    shared = [Requirement.new(r.key, r.operator, r.values) for r in document.requirements]
    unpriced = [list(map(_arguments, group)) for group in document.offerings]
    return [
        InstanceType(
            kind.name,
            Requirements({shared[number].key: shared[number] for number in kind.requirements}),
            kind.capacity,
            kind.overhead,
            _priced(unpriced[kind.offerings], kind.prices),
        )
        for kind in document.types
    ]


def _without_price(offering: Offering) -> Offering:
    return replace(offering, price=0.0)


def _arguments(offering: Offering) -> tuple[str, str, list[Any]]:
    """Return the arguments that make the offering again: those before its price, and those after it."""
    zone, capacity_type, _, *others = (getattr(offering, field.name) for field in fields(offering))
    return zone, capacity_type, others


def _priced(unpriced: Sequence[tuple[str, str, list[Any]]], prices: Sequence[float]) -> tuple[Offering, ...]:
    pairs = zip(unpriced, prices, strict=True)
    return tuple([Offering(zone, capacity_type, price, *others) for (zone, capacity_type, others), price in pairs])


def _without_defaults(offering: Offering) -> dict[str, Any]:
    values = {field.name: getattr(offering, field.name) for field in fields(offering)}
    return {field.name: values[field.name] for field in fields(offering) if values[field.name] != field.default}
