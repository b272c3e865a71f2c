"""Reads and writes a catalog of instance types as JSON, so that a plan does not need a cloud API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tenon.apis import labels
from tenon.kube.requirements import DOES_NOT_EXIST, IN, Requirement, Requirements
from tenon.resources import format_resources, parse_resources
from tenon.scheduling.model import InstanceType, Offering

OFFERING_LABELS = frozenset({labels.ZONE, labels.CAPACITY_TYPE})
"""Labels that an offering decides. A catalog's values of them for a whole type are ignored."""


def parse_catalog(document: Mapping[str, Any]) -> list[InstanceType]:
    """Return the instance types of ``{"instanceTypes": [...]}``, sorted by name.

    If other types have a label and a type does not list it, the type does not have that label.

    Raises:
        ValueError: an entry lacks a field or holds an invalid value; the message names the entry.
    """
    entries = document.get("instanceTypes")
    if not isinstance(entries, list):
        raise ValueError("the catalogue has no list instanceTypes")
    all_keys = {labels.ALIASES.get(key, key) for entry in entries for key in entry.get("requirements") or {}}
    keys = sorted({*all_keys, labels.INSTANCE_TYPE} - OFFERING_LABELS)
    types_by_name: dict[str, InstanceType] = {}
    shared: _Shared = {}
    for number, entry in enumerate(entries):
        name = entry.get("name") or f"number {number + 1}"
        try:
            instance_type = _instance_type(entry, keys, shared)
        except KeyError as error:
            raise ValueError(f"instance type {name}: field {error.args[0]} is missing") from error
        except (TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"instance type {name}: {error}") from error
        if instance_type.name in types_by_name:
            raise ValueError(f"instance type {name} is listed twice")
        types_by_name[instance_type.name] = instance_type
    return [types_by_name[name] for name in sorted(types_by_name)]


_Shared = dict[tuple[str, tuple[str, ...]], Requirement]
"""The requirements that types have in common, by label and values. A thousand types state the same few values, and to
build and hash each of them again takes longer than all else in a catalog.
"""


def _instance_type(entry: Mapping[str, Any], keys: Iterable[str], shared: _Shared) -> InstanceType:
    stated_values = {labels.ALIASES.get(key, key): values for key, values in (entry.get("requirements") or {}).items()}
    stated_values[labels.INSTANCE_TYPE] = [entry["name"]]
    by_key = {}
    for key in keys:
        values = tuple(map(str, stated_values.get(key) or ()))
        requirement = shared.get((key, values))
        if requirement is None:
            requirement = shared[key, values] = Requirement.new(key, IN if values else DOES_NOT_EXIST, values)
        by_key[key] = requirement
    return InstanceType(
        name=entry["name"],
        requirements=Requirements(by_key),
        capacity=parse_resources(entry["capacity"]),
        overhead=parse_resources(entry.get("overhead")),
        offerings=tuple(_offering(offering) for offering in entry["offerings"]),
    )


def _offering(entry: Mapping[str, Any]) -> Offering:
    reserved = bool(entry.get("reservationId"))
    return Offering(
        zone=entry["zone"],
        capacity_type=entry["capacityType"],
        price=float(entry["price"]),
        available=bool(entry.get("available", True)),
        zone_id=entry.get("zoneId", ""),
        reservation_id=entry.get("reservationId", ""),
        reservation_capacity=int(entry.get("reservationCapacity", 0)),
        reservation_type=entry.get("reservationType", labels.DEFAULT_RESERVATION) if reserved else "",
        reservation_interruptible=str(bool(entry.get("interruptible", False))).lower() if reserved else "",
    )


def catalog_entry(instance_type: InstanceType) -> dict[str, Any]:
    """Return the entry of a type that EC2 sells to everyone, from which `parse_catalog` makes the same type.

    Places of capacity reservations are not part of it.
    """
    requirements = {
        key: sorted(requirement.values)
        for key, requirement in instance_type.requirements.items()
        if key not in OFFERING_LABELS and key != labels.INSTANCE_TYPE
    }
    return {
        "name": instance_type.name,
        "requirements": requirements,
        "capacity": format_resources(instance_type.capacity),
        "overhead": format_resources(instance_type.overhead),
        "offerings": [
            {
                "zone": offering.zone,
                "zoneId": offering.zone_id,
                "capacityType": offering.capacity_type,
                "price": offering.price,
            }
            for offering in instance_type.offerings
        ],
    }
