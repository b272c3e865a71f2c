"""Applies NodeOverlays to the instance types that pools can buy: prices of offerings, extended resources of types.

An overlay is matched against each type and offering together with the labels that every node of the pool has, so it may
also target one pool. Conflicts between overlays are resolved across all pools at once, because an overlay is refused as
a whole.

An offering with an unknown price comes in with an infinite price, which an overlay may replace. Offerings that still
have no price afterwards are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from decimal import Decimal
from math import isfinite

from tenon.apis import labels
from tenon.apis.nodeoverlay import NodeOverlay
from tenon.apis.nodepool import NodePool
from tenon.kube.requirements import IN, Requirement, Requirements
from tenon.provisioning.pools import template_labels
from tenon.resources import Resources, parse_resources
from tenon.scheduling.model import OFFERING_KEYS, InstanceType, Offering

PoolTypes = Sequence[tuple[NodePool, Sequence[InstanceType]]]
"""Pools, each with the types that it can buy."""


@dataclass(frozen=True, slots=True)
class Overlaid:
    """The types for planning, and the overlays that were refused."""

    pools_with_types: PoolTypes
    refused: Mapping[str, str]
    """The reason for each refused overlay, in a sentence."""
    rivals: frozenset[str] = frozenset()
    """Refused overlays that conflict with another overlay of the same weight."""
    repriced: Mapping[str, Set[str]] = field(default_factory=dict)
    """By pool, the types with an offering whose price comes from an overlay."""
    enlarged: Mapping[str, Set[str]] = field(default_factory=dict)
    """By pool, the types whose capacity comes from an overlay."""

    def types_by_pool(self) -> dict[str, Sequence[InstanceType]]:
        """Return the types of each pool, by its name."""
        return {pool.metadata.name: types for pool, types in self.pools_with_types}

    def overlay_annotations(self, pool: str, types: Iterable[str]) -> dict[str, str]:
        """Return the annotations of a NodeClaim of the pool that may become one of these types."""
        selected_types = frozenset(types)
        annotations_ = {}
        if not selected_types.isdisjoint(self.repriced.get(pool, ())):
            annotations_[labels.PRICE_OVERLAY_APPLIED] = "true"
        if not selected_types.isdisjoint(self.enlarged.get(pool, ())):
            annotations_[labels.CAPACITY_OVERLAY_APPLIED] = "true"
        return annotations_


@dataclass(frozen=True, slots=True)
class _Overlay:
    name: str
    weight: int
    requirements: Requirements
    price: str | None
    adjustment: str | None
    capacity: Resources

    @property
    def reprices(self) -> bool:
        return self.price is not None or self.adjustment is not None


MAX_UNITS = 2**63 - 1
MAX_DOLLARS = 1e6


@dataclass(slots=True)
class _Changes:
    """Which overlay changes what of a type in a pool."""

    prices: dict[int, _Overlay] = field(default_factory=dict)
    """By the index of the offering."""
    capacity: dict[str, _Overlay] = field(default_factory=dict)
    """By resource."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Pools that overlays cannot distinguish: they buy the same types, and each overlay requires the same of them."""

    types: Sequence[InstanceType]
    open_keys: Mapping[str, tuple[str, ...]]
    """The overlays that may target the pools, each with the requirement keys that the pools' labels do not set."""
    pools: Sequence[NodePool]


_AllChanges = dict[tuple[int, str], _Changes]
"""By the index of the group and the name of the type."""


def apply_overlays(pools_with_types: PoolTypes, overlays: Sequence[NodeOverlay]) -> Overlaid:
    """Apply the overlays to the types of each pool.

    Args:
        pools_with_types: the pools, each with the types that its class can buy.
        overlays: valid overlays in any order.

    Returns:
        Types that nothing changes, and lists in which nothing changes, are the same objects as before.
    """
    refused: dict[str, str] = {}
    rivals: set[str] = set()
    applied: _AllChanges = {}
    in_order = sorted(map(_read, overlays), key=lambda overlay: overlay.name, reverse=True)
    groups = _grouped(pools_with_types, in_order)
    for overlay in sorted(in_order, key=lambda overlay: -overlay.weight):
        contradiction = next(
            (key for key, requirement in overlay.requirements.items() if requirement.contradicts()), ""
        )
        requirement = _wanted_changes(overlay, groups)
        rival = _conflict(overlay.weight, requirement, applied)
        if beyond := _implausible(overlay):
            refused[overlay.name] = beyond
        elif contradiction:
            refused[overlay.name] = f"its requirements on label {contradiction} contradict each other"
        elif rival:
            rivals.add(overlay.name)
            refused[overlay.name] = (
                f"it changes {rival[1]} and so does NodeOverlay {rival[0]}, and both have weight {overlay.weight}: "
                "give one of them a higher weight"
            )
        else:
            _add_changes(requirement, applied)
    repriced = _places((place for place, changes in applied.items() if changes.prices), groups)
    enlarged = _places((place for place, changes in applied.items() if changes.capacity), groups)
    types_by_pool: dict[str, Sequence[InstanceType]] = {}
    for number, group in enumerate(groups):
        types = _priced(_changed(number, group.types, applied))
        types_by_pool.update((pool.metadata.name, types) for pool in group.pools)
    return Overlaid(
        [(pool, types_by_pool[pool.metadata.name]) for pool, _ in pools_with_types],
        refused,
        frozenset(rivals),
        repriced,
        enlarged,
    )


def _grouped(pools_with_types: PoolTypes, overlays: Sequence[_Overlay]) -> list[_Group]:
    """Group the pools, so that what applies to many is computed once."""
    groups: dict[object, tuple[Sequence[InstanceType], dict[str, tuple[str, ...]], list[NodePool]]] = {}
    for pool, types in pools_with_types:
        fixed = template_labels(pool)
        open_keys = {}
        for overlay in overlays:
            type_requirements = [r for key, r in overlay.requirements.items() if key not in OFFERING_KEYS]
            if all(r.has(fixed[r.key]) for r in type_requirements if r.key in fixed):
                open_keys[overlay.name] = tuple(r.key for r in type_requirements if r.key not in fixed)
        groups.setdefault((id(types), tuple(open_keys.items())), (types, open_keys, []))[2].append(pool)
    return [_Group(*group) for group in groups.values()]


def _places(selected: Iterable[tuple[int, str]], groups: Sequence[_Group]) -> dict[str, Set[str]]:
    """Return the types by pool, from pairs of group index and type."""
    types: dict[int, set[str]] = {}
    for number, name in selected:
        types.setdefault(number, set()).add(name)
    return {pool.metadata.name: names for number, names in types.items() for pool in groups[number].pools}


def _read(overlay: NodeOverlay) -> _Overlay:
    spec = overlay.spec
    terms = [term.model_dump(by_alias=True) for term in spec.requirements]
    return _Overlay(
        overlay.metadata.name,
        spec.weight or 0,
        Requirements.from_terms(terms),
        spec.price,
        spec.price_adjustment,
        parse_resources(spec.capacity),
    )


def _implausible(overlay: _Overlay) -> str:
    """Say which figure of the overlay is implausibly large; empty if none is."""
    for name, amount in overlay.capacity.items():
        if amount > MAX_UNITS:
            return f"its capacity of {name} is larger than can be counted"
    if overlay.price is not None and float(overlay.price) > MAX_DOLLARS:
        return f"its price is above {MAX_DOLLARS:,.0f} dollars an hour"
    return ""


def _wanted_changes(overlay: _Overlay, groups: Sequence[_Group]) -> _AllChanges:
    """Return everything that the overlay would change."""
    all_changes: _AllChanges = {}
    changes_by_group: dict[object, dict[str, _Changes]] = {}
    for number, group in enumerate(groups):
        if overlay.name in group.open_keys:
            open_keys = group.open_keys[overlay.name]
            if (id(group.types), open_keys) not in changes_by_group:
                changes_by_group[id(group.types), open_keys] = _changes_by_type(
                    overlay, group.types, [overlay.requirements[key] for key in open_keys]
                )
            all_changes.update(
                ((number, name), changes) for name, changes in changes_by_group[id(group.types), open_keys].items()
            )
    return all_changes


def _changes_by_type(
    overlay: _Overlay, types: Sequence[InstanceType], of_types: Sequence[Requirement]
) -> dict[str, _Changes]:
    """Returns, by type, what the overlay changes of the types that meet these requirements of it."""
    of_offerings = [r for key, r in overlay.requirements.items() if key in OFFERING_KEYS]
    changes = {}
    for kind in types:
        if all(_type_has(kind, r) for r in of_types):
            offering_numbers = [n for n, offering in enumerate(kind.offerings) if _offers(offering, of_offerings)]
            if offering_numbers:
                prices = dict.fromkeys(offering_numbers, overlay) if overlay.reprices else {}
                changes[kind.name] = _Changes(prices, dict.fromkeys(overlay.capacity, overlay))
    return changes


def _type_has(kind: InstanceType, requirement: Requirement) -> bool:
    """True if a node of the type may meet a requirement on a label that its pool does not set."""
    stated_requirement = kind.requirements.get(requirement.key) if requirement.key in kind.requirements else None
    if stated_requirement is None and requirement.key == labels.INSTANCE_TYPE:
        stated_requirement = Requirement.new(labels.INSTANCE_TYPE, IN, (kind.name,))
    if stated_requirement is None or stated_requirement.is_empty():
        return requirement.may_be_absent
    return stated_requirement.overlaps(requirement)


def _offers(offering: Offering, requirements: Sequence[Requirement]) -> bool:
    offering_labels = dict(zip(OFFERING_KEYS, offering.values, strict=True))
    return all(r.has(offering_labels[r.key]) if offering_labels[r.key] else r.may_be_absent for r in requirements)


def _conflict(weight: int, new_changes: _AllChanges, applied: _AllChanges) -> tuple[str, str] | None:
    """Return an overlay of equal weight that makes one of the changes too, and what it changes; else None."""
    for place, changes in new_changes.items():
        present = applied.get(place, _Changes())
        for number in changes.prices:
            if number in present.prices and present.prices[number].weight == weight:
                return present.prices[number].name, f"the price of {place[1]}"
        for resource in changes.capacity:
            if resource in present.capacity and present.capacity[resource].weight == weight:
                return present.capacity[resource].name, f"{resource} of {place[1]}"
    return None


def _add_changes(new_changes: _AllChanges, applied: _AllChanges) -> None:
    """Add the changes. Changes of earlier overlays take precedence."""
    for place, changes in new_changes.items():
        present = applied.setdefault(place, _Changes())
        present.prices = changes.prices | present.prices
        present.capacity = changes.capacity | present.capacity


def _changed(group: int, types: Sequence[InstanceType], applied: _AllChanges) -> Sequence[InstanceType]:
    if not any((group, kind.name) in applied for kind in types):
        return types
    return [_with(kind, applied[group, kind.name]) if (group, kind.name) in applied else kind for kind in types]


def _with(kind: InstanceType, changes: _Changes) -> InstanceType:
    offerings = tuple(
        replace(offering, price=_price(offering.price, changes.prices[number]))
        if number in changes.prices
        else offering
        for number, offering in enumerate(kind.offerings)
    )
    more = {resource: overlay.capacity[resource] for resource, overlay in changes.capacity.items()}
    return replace(kind, offerings=offerings, capacity={**kind.capacity, **more})


def _priced(types: Sequence[InstanceType]) -> Sequence[InstanceType]:
    """Drop the offerings without a price, and then the types without an offering."""
    if all(isfinite(offering.price) for kind in types for offering in kind.offerings):
        return types
    priced = [replace(kind, offerings=tuple(o for o in kind.offerings if isfinite(o.price))) for kind in types]
    return [kind for kind in priced if kind.offerings]


def _price(price: float, overlay: _Overlay) -> float:
    """Return the price of an offering under an overlay; never below zero."""
    if overlay.price is not None:
        return float(overlay.price)
    assert overlay.adjustment is not None  # it reprices
    if not isfinite(price):
        return price
    before = Decimal(str(price))
    if overlay.adjustment.endswith("%"):
        after = before * (1 + Decimal(overlay.adjustment[:-1]) / 100)
    else:
        after = before + Decimal(overlay.adjustment)
    return max(0.0, float(after))
