"""The instance types of a region, as each EC2NodeClass may use them.

EC2's descriptions, offerings and prices are read at most twice a day; what a class makes of them is worked out once for
each state of the class and kept, because every plan and every launch asks for it.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from typing import Any

from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error, translated
from activities.ec2.pricing import Pricing
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.kubelet import expressions_in
from tenon.ec2.capacity import NodeSettings
from tenon.ec2.expressions import worked_out
from tenon.ec2.instance_types import build, supported, without
from tenon.ec2.settings import kubelet_map, settings_of
from tenon.kube.offerings import OfferingKey
from tenon.scheduling.model import InstanceType

log = logging.getLogger(__name__)

TTL_SECONDS = 12 * 3600.0
RETRY_SECONDS = 300.0
MOST_BUILT = 100


@dataclass(frozen=True, slots=True)
class _Region:
    """What EC2 says of a region: every type's description, and the zones where each is sold."""

    version: int
    items: dict[str, dict[str, Any]]
    zones: dict[str, frozenset[str]]


class Catalogue:
    """Instance types by node class. Thread-safe; callers must not change what it returns."""

    def __init__(
        self,
        clients: Ec2,
        pricing: Pricing,
        *,
        vm_memory_overhead: Decimal = Decimal("0.075"),
        reserved_enis: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clients = clients
        self._pricing = pricing
        self._vm_memory_overhead = vm_memory_overhead
        self._reserved_enis = reserved_enis
        self._clock = clock
        self._lock = threading.Lock()
        self._region: _Region | None = None
        self._read_again_at = 0.0
        self._built: dict[tuple[str, str, bool], tuple[str, list[InstanceType]]] = {}
        """By class, its kubelet settings, which a NodePool may have of its own, and whether unpriced types count."""

    def instance_types(
        self, node_class: EC2NodeClass, unavailable: Container[OfferingKey] = (), *, unpriced: bool = False
    ) -> list[InstanceType]:
        """The types that the class's nodes may have, by name; ``unavailable`` offerings are marked as such.

        ``unpriced``: types whose price nobody knows are among them, at a price without end.

        Raises:
            EC2Error: EC2 could not be asked and nothing is known from before.
        """
        with self._lock:
            region = self._current()
            prices_version, _ = self._pricing.current()
            key = _state_of(node_class, region.version, prices_version)
            place = node_class.metadata.name, json.dumps(kubelet_map(node_class), sort_keys=True), unpriced
            known = self._built.get(place)
            if known is None or known[0] != key:
                if len(self._built) >= MOST_BUILT:
                    self._built.clear()  # of classes that are gone and settings that are no more
                known = self._built[place] = (key, self._build(node_class, region, unpriced))
        return without(known[1], unavailable) if unavailable else known[1]

    def described(self, node_class: EC2NodeClass) -> tuple[NodeSettings, list[dict[str, Any]]]:
        """What the class says of its nodes, and EC2's description of every type that they may have.

        Raises:
            EC2Error: EC2 could not be asked and nothing is known from before.
        """
        settings = self._settings(node_class)
        with self._lock:
            items = self._current().items
        return settings, [items[name] for name in sorted(items) if supported(items[name], settings)]

    def kubelets(self, node_class: EC2NodeClass, names: Container[str]) -> dict[str, Mapping[str, Any]]:
        """By instance type, the class's kubelet settings with its expressions worked out; empty when it has none.

        Raises:
            EC2Error: EC2 could not be asked and nothing is known from before.
        """
        if not expressions_in(kubelet_map(node_class)):
            return {}
        settings, items = self.described(node_class)
        chosen = {str(item["InstanceType"]): item for item in items if item["InstanceType"] in names}
        return {name: worked_out(item, settings).kubelet for name, item in chosen.items()}

    def price(self, instance_type: str, zone: str, capacity_type: str) -> float:
        """Dollars an hour of an offering, 0 when unknown."""
        return self._pricing.current()[1].of(instance_type, zone, capacity_type) or 0.0

    def warm(self) -> None:
        """Reads types and prices ahead of the first question, which would wait seconds for them."""
        with self._lock:
            self._current()
            self._pricing.current()

    def forget(self) -> None:
        """Drops what was read, so that the next call asks EC2 anew."""
        with self._lock:
            self._read_again_at = float("-inf")

    def _current(self) -> _Region:
        known, now = self._region, self._clock()
        if known is not None and now < self._read_again_at:
            return known
        try:
            fresh = _Region(known.version + 1 if known else 1, self._read_types(), self._read_zones())
        except EC2Error as error:
            if known is None:
                raise
            log.warning("instance types could not be read, the last known ones stay in use: %s", error)
            self._read_again_at = now + RETRY_SECONDS
            return known
        self._region, self._read_again_at = fresh, now + TTL_SECONDS
        return fresh

    def _read_types(self) -> dict[str, dict[str, Any]]:
        items: dict[str, dict[str, Any]] = {}
        with translated("DescribeInstanceTypes"):
            for page in self._clients.ec2.get_paginator("describe_instance_types").paginate(
                PaginationConfig={"PageSize": 100}
            ):
                items.update({str(item["InstanceType"]): dict(item) for item in page["InstanceTypes"]})
        return items

    def _read_zones(self) -> dict[str, frozenset[str]]:
        zones: dict[str, set[str]] = {}
        with translated("DescribeInstanceTypeOfferings"):
            for page in self._clients.ec2.get_paginator("describe_instance_type_offerings").paginate(
                LocationType="availability-zone", PaginationConfig={"PageSize": 1000}
            ):
                for row in page["InstanceTypeOfferings"]:
                    zones.setdefault(str(row["InstanceType"]), set()).add(row["Location"])
        return {name: frozenset(where) for name, where in zones.items()}

    def _settings(self, node_class: EC2NodeClass) -> NodeSettings:
        return settings_of(node_class, vm_memory_overhead=self._vm_memory_overhead, reserved_enis=self._reserved_enis)

    def _build(self, node_class: EC2NodeClass, region: _Region, unpriced: bool) -> list[InstanceType]:
        settings = self._settings(node_class)
        _, prices = self._pricing.current()
        zone_ids = {subnet.zone: subnet.zone_id or "" for subnet in node_class.status.subnets}
        built = (
            build(
                region.items[name],
                self._clients.region,
                settings,
                {zone: zone_ids[zone] for zone in zone_ids.keys() & region.zones.get(name, frozenset())},
                prices,
                unpriced=unpriced,
            )
            for name in sorted(region.items)
            if supported(region.items[name], settings)
        )
        return [each for each in built if each is not None]


def _state_of(node_class: EC2NodeClass, region_version: int, prices_version: int) -> str:
    """A digest of everything that the types of a class depend on."""
    parts = [
        region_version,
        prices_version,
        node_class.spec.to_dict(),
        sorted((subnet.zone, subnet.zone_id or "") for subnet in node_class.status.subnets),
    ]
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
