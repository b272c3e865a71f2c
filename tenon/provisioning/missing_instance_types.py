"""Explains why a NodePool has no instance type: which requirements no type meets, and which values exist instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from tenon.apis import labels
from tenon.kube.requirements import IN, Requirement, Requirements
from tenon.scheduling.explanation.label_values_text import beyond_subnets, format_values, listed
from tenon.scheduling.model import InstanceType, Offering


def is_available(kind: InstanceType, requirements: Requirements) -> bool:
    """True if a node with these requirements may be of this type, in a zone and capacity type that is on sale."""
    if not kind.requirements.intersects(requirements):
        return False
    zones, capacity_types = requirements.get(labels.ZONE), requirements.get(labels.CAPACITY_TYPE)
    return any(zones.has(offer.zone) and capacity_types.has(offer.capacity_type) for offer in _on_sale(kind))


def why_none(requirements: Requirements, types: Sequence[InstanceType], zones: frozenset[str]) -> str:
    """Say which requirements exclude all the types. ``zones`` are the zones of the subnets, if known."""
    if not _any(requirements, [], types):
        return f"no instance type is on sale{f' in the zones of its subnets ({listed(zones)})' if zones else ''}"
    found = [text for key in sorted(requirements) if (text := beyond_subnets(requirements[key], zones))]
    for key in () if found else sorted(requirements):
        if not _any(requirements, [key], types):
            values = {value for kind in types for value in _values(kind, key)}
            exist = _most_similar(requirements[key], values) or format_values(values)
            found.append(f"no available instance type meets its requirement {requirements[key]}{exist}")
    if found:
        return ", and ".join(found)
    needed = sorted(requirements)
    for key in sorted(requirements):
        fewer = [other for other in needed if other != key]
        if not _any(requirements, fewer, types):
            needed = fewer
    together = ", ".join(str(requirements[key]) for key in needed)
    return f"no available instance type meets its requirements {together} at once"


def _most_similar(wanted: Requirement, values: Iterable[str]) -> str:
    """The existing instance type that is spelled most like the required one, in parentheses; empty for other labels."""
    if wanted.key != labels.INSTANCE_TYPE or wanted.operator != IN:
        return ""
    similar = [name for value in wanted.values for name in get_close_matches(value, sorted(values), n=1)]
    return f" (the most similar is {similar[0]})" if similar else ""


def _any(requirements: Requirements, keys: Sequence[str], types: Sequence[InstanceType]) -> bool:
    some = Requirements.of(*(requirements[key] for key in keys))
    return any(is_available(kind, some) for kind in types)


def _values(kind: InstanceType, key: str) -> Iterator[str]:
    if key == labels.ZONE:
        yield from (offer.zone for offer in _on_sale(kind))
    elif key == labels.CAPACITY_TYPE:
        yield from (offer.capacity_type for offer in _on_sale(kind))
    elif key in kind.requirements:
        yield from kind.requirements[key].values


def _on_sale(kind: InstanceType) -> Iterator[Offering]:
    return (offer for offer in kind.offerings if offer.available)
