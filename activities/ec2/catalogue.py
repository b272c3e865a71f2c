"""The instance types of a region, as each EC2NodeClass can use them.

They are computed once for each state of the class and cached, because every plan and every launch asks for them. A
list takes some megabytes, so classes whose instance types cannot differ share it: most classes differ only in tags,
roles or user data.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, NamedTuple

from activities.ec2.capacity_reservations import CapacityReservations
from activities.ec2.client import Ec2
from activities.ec2.idle_cache import IdleCache
from activities.ec2.pricing import Pricing
from activities.ec2.region_types import RegionTypes, RegionTypesReader
from tenon.apis import labels
from tenon.apis.ec2nodeclass import CapacityReservation, EC2NodeClass
from tenon.apis.kubelet import expressions_in
from tenon.ec2.types.bootable_types import kinds_of_images, without_images
from tenon.ec2.types.capacity import DEFAULT_RESERVE, InstanceReserve, Item, NodeSettings
from tenon.ec2.types.capacity_reservations import offerings_by_type, with_places
from tenon.ec2.types.expressions import evaluate_settings
from tenon.ec2.types.instance_types import Prices, build, supported, without
from tenon.ec2.types.learned_amounts import Figure, learned_amounts
from tenon.ec2.types.learned_memory import learned_memory
from tenon.ec2.types.settings import kubelet_map, settings_of
from tenon.kube.offerings import OfferingKey
from tenon.scheduling.model import InstanceType

MAX_BUILT = 100
IDLE_SECONDS = 1800.0
"""How long the instance types of a class that no one asks for stay, for example those of a deleted class."""

_Learned = dict[str, tuple[int | None, Mapping[str, Figure]]]
"""By instance type: the memory in bytes, and the other amounts that nodes reported."""


class _Variant(NamedTuple):
    """What the instance types of a class also depend on, so that a class may have several lists of them."""

    name: str
    kubelet: str
    """Its kubelet settings, which a NodePool may override."""
    unpriced: bool
    dedicated: bool


@dataclass(frozen=True, slots=True)
class _Built:
    """The instance types of a class."""

    state: str
    """The digest of what ``described`` depends on."""
    described: list[InstanceType]
    """As EC2 describes them."""
    learned: _Learned
    """What nodes reported."""
    types: list[InstanceType]
    """With what nodes reported."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """The instance types of a class that has capacity reservations."""

    counts: object
    """The free places of each reservation."""
    without: list[InstanceType]
    """The types without these places."""
    types: list[InstanceType]
    """The types with them."""


class Catalogue:
    """Instance types by node class. Thread-safe. Callers must not change the returned objects."""

    def __init__(
        self,
        clients: Ec2,
        pricing: Pricing,
        *,
        reserve: InstanceReserve = DEFAULT_RESERVE,
        clock: Callable[[], float] = time.monotonic,
        reservations: CapacityReservations | None = None,
    ) -> None:
        """``reservations`` counts the places of capacity reservations; None offers none (gate ReservedCapacity)."""
        self._reservations = reservations
        self._counted = IdleCache[_Variant, _Counted](IDLE_SECONDS, MAX_BUILT, clock)
        self._clients = clients
        self._pricing = pricing
        self._reserve = reserve
        self._lock = threading.Lock()
        self._region = RegionTypesReader(clients, clock)
        self._described = IdleCache[str, list[InstanceType]](IDLE_SECONDS, MAX_BUILT, clock)
        """The instance types by the digest of what they depend on."""
        self._built = IdleCache[_Variant, _Built](IDLE_SECONDS, MAX_BUILT, clock)

    def instance_types(
        self,
        node_class: EC2NodeClass,
        unavailable: Container[OfferingKey] = (),
        *,
        unpriced: bool = False,
        dedicated: bool = False,
    ) -> list[InstanceType]:
        """The instance types that the class allows, sorted by name. ``unavailable`` offerings are marked as such, and
        so are those of types that no image of the class boots.

        ``unpriced``: include types without a known price, at an infinite price. ``dedicated``: at the prices of
        dedicated instances.

        Raises:
            EC2Error: EC2 could not be read, and there is no earlier answer.
        """
        with self._lock:
            region = self._region.current()
            prices_version, prices = self._pricing.current(dedicated=dedicated)
            state = self._state_of(node_class, region.version, prices_version, unpriced=unpriced, dedicated=dedicated)
            kubelet = json.dumps(kubelet_map(node_class), sort_keys=True)
            variant = _Variant(node_class.metadata.name, kubelet, unpriced, dedicated)
            instance_types = self._described.get(state)
            if instance_types is None:
                instance_types = self._described.put(state, self._build(node_class, region, prices, unpriced))
            built = self._built.get(variant)
            if built is None or built.state != state:
                built = self._built.put(variant, _Built(state, instance_types, {}, instance_types))
            learned = _learned(node_class)
            if built.learned != learned:
                built = self._with_learned(node_class, region, prices, unpriced, built, learned)
                self._built.put(variant, built)
        types = self._with_places(variant, built.types, node_class)
        return without(types, unavailable) if unavailable else types

    def _with_places(
        self, variant: _Variant, types: list[InstanceType], node_class: EC2NodeClass
    ) -> list[InstanceType]:
        """The types with the free places of the class's reservations. Equal counts give the same list."""
        listed = node_class.status.capacity_reservations
        if self._reservations is None or not listed:
            return types
        places = self._reservations.places([reservation.id for reservation in listed])
        counts = tuple(sorted((name, free.remaining, free.counted_at) for name, free in places.items()))
        with self._lock:
            counted = self._counted.get(variant)
            if counted is None or counted.counts != counts or counted.without is not types:
                counted = self._counted.put(variant, _Counted(counts, types, with_places(types, places)))
            return counted.types

    def described(self, node_class: EC2NodeClass) -> tuple[NodeSettings, list[Item]]:
        """The class's node settings, and EC2's description of every instance type that the class supports.

        Raises:
            EC2Error: EC2 could not be read, and there is no earlier answer.
        """
        settings = self._settings(node_class)
        return settings, [item for item in self._region.current().described() if supported(item, settings)]

    def kubelets(self, node_class: EC2NodeClass, names: Container[str]) -> dict[str, Mapping[str, Any]]:
        """Instance type to the class's kubelet settings with evaluated expressions; empty if it has no expressions.

        Raises:
            EC2Error: EC2 could not be read, and there is no earlier answer.
        """
        if not expressions_in(kubelet_map(node_class)):
            return {}
        settings, items = self.described(node_class)
        items_by_type = {str(item["InstanceType"]): item for item in items if item["InstanceType"] in names}
        return {name: evaluate_settings(item, settings).kubelet for name, item in items_by_type.items()}

    def price(self, instance_type: str, zone: str, capacity_type: str, tenancy: str) -> float:
        """The price per hour of an offering, or 0 if the price is unknown."""
        _, prices = self._pricing.current(dedicated=tenancy == labels.DEDICATED)
        return prices.of(instance_type, zone, capacity_type) or 0.0

    def price_warnings(self) -> list[str]:
        """Which prices are not known, why, and what is used instead.

        Types that the price list lacks are none of them, because AWS does not sell these on demand.
        """
        lacking = "" if self._pricing.is_listed else self.unpriced_types()
        return [*self._pricing.warnings(), *([lacking] if lacking else [])]

    def unpriced_types(self) -> str:
        """Say which types of the region have no on-demand price; empty if all have one, or no types were read yet."""
        region = self._region.last
        return self._pricing.unpriced(region.described()) if region else ""

    def vcpus(self) -> dict[str, int]:
        """The vCPUs of each instance type of the region, as quotas count them.

        Raises:
            EC2Error: EC2 could not be read and there is no earlier answer.
        """
        items = self._region.current().described()
        return {item["InstanceType"]: int(item["VCpuInfo"]["DefaultVCpus"]) for item in items}

    def warm(self) -> None:
        """Read types and prices in advance, so that the first request does not wait seconds for them."""
        with self._lock:
            self._region.current()
            self._pricing.current()

    def check(self) -> None:
        """Read the instance types if they are due.

        Raises:
            EC2Error: EC2 could not be read and there is no earlier answer, or EC2 refused the last read.
        """
        self._region.check()

    def forget(self) -> None:
        """Expire what was read, so that the next call reads EC2 again."""
        self._region.forget()

    def _settings(self, node_class: EC2NodeClass) -> NodeSettings:
        return settings_of(node_class, self._reserve)

    def _state_of(
        self, node_class: EC2NodeClass, region_version: int, prices_version: int, *, unpriced: bool, dedicated: bool
    ) -> str:
        """A digest of everything that the instance types of a class depend on, except what was learned."""
        zones, listed = _zone_ids(node_class), self._listed(node_class)
        images = kinds_of_images(node_class.status.amis)  # not their IDs, which change with each release
        settings = self._settings(node_class)
        parts = (region_version, prices_version, unpriced, dedicated, settings, sorted(zones.items()), images)
        return sha256(repr((*parts, [instance_type.to_dict() for instance_type in listed])).encode()).hexdigest()

    def _listed(self, node_class: EC2NodeClass) -> list[CapacityReservation]:
        """The capacity reservations that the class may use."""
        return node_class.status.capacity_reservations if self._reservations is not None else []

    def _with_learned(
        self,
        node_class: EC2NodeClass,
        region: RegionTypes,
        prices: Prices,
        unpriced: bool,
        built: _Built,
        learned: _Learned,
    ) -> _Built:
        """Build only the types whose figure changed. The others stay the same objects, because a fleet of many types
        changes what is learned many times.
        """
        changed = {name: amounts for name, amounts in learned.items() if built.learned.get(name) != amounts}
        again = {
            instance_type.name: instance_type
            for instance_type in self._build(node_class, region, prices, unpriced, changed)
        }
        before = {instance_type.name: instance_type for instance_type in built.types if instance_type.name in learned}
        types = [
            again.get(instance_type.name, before.get(instance_type.name, instance_type))
            for instance_type in built.described
        ]
        return _Built(built.state, built.described, learned, types)

    def _build(
        self,
        node_class: EC2NodeClass,
        region: RegionTypes,
        prices: Prices,
        unpriced: bool,
        learned: _Learned | None = None,
    ) -> list[InstanceType]:
        """Build the types of a class: all of them, or those of which something was ``learned``."""
        settings = replace(
            self._settings(node_class),
            learned_memory={name: memory for name, (memory, _) in (learned or {}).items() if memory is not None},
            learned_amounts={name: amounts for name, (_, amounts) in (learned or {}).items()},
        )
        zone_ids = _zone_ids(node_class)
        reserved = offerings_by_type(self._listed(node_class), zone_ids, prices.on_demand)
        instance_types = []
        for name in sorted(region.items if learned is None else learned.keys() & region.items.keys()):
            item = region.item(name)
            if not supported(item, settings):
                continue
            zones = {zone: zone_ids[zone] for zone in zone_ids.keys() & region.zones.get(name, frozenset())}
            built = build(
                item,
                self._clients.region,
                settings,
                zones,
                prices,
                unpriced=unpriced,
                reserved=reserved.get(name, ()),
            )
            if built is not None:
                instance_types.append(built)
        return without_images(instance_types, node_class.status.amis)


def _learned(node_class: EC2NodeClass) -> _Learned:
    memory, amounts = learned_memory(node_class), learned_amounts(node_class)
    return {name: (memory.get(name), amounts.get(name, {})) for name in memory.keys() | amounts.keys()}


def _zone_ids(node_class: EC2NodeClass) -> dict[str, str]:
    """The zones in which the class has subnets, with their IDs."""
    return {subnet.zone: subnet.zone_id or "" for subnet in node_class.status.subnets}
