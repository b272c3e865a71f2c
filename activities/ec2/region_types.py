"""EC2's descriptions of a region's instance types, and which zones offer them. They are read at most twice a day."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from activities import loggers
from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error, translated
from tenon.ec2.types.capacity import Item

log = loggers.INSTANCE_TYPES

TTL_SECONDS = 12 * 3600.0
RETRY_SECONDS = 300.0
REFUSED_SECONDS = 30.0
"""How soon to read again after a refusal, which ends when somebody grants the right."""


@dataclass(frozen=True, slots=True)
class RegionTypes:
    """EC2's description of each instance type of a region, and the zones that offer it."""

    version: int
    """Another number after each read."""
    items: dict[str, bytes]
    """By type, as JSON. As objects they would take 8 MB, and only a class that is new or has changed needs them."""
    zones: dict[str, frozenset[str]]
    """By type, the zones that offer it."""

    def item(self, name: str) -> Item:
        """EC2's description of a type."""
        item: Item = msgspec.json.decode(self.items[name])
        return item

    def described(self) -> Iterator[Item]:
        """EC2's descriptions of all types, sorted by name."""
        return (self.item(name) for name in sorted(self.items))


class RegionTypesReader:
    """Reads the instance types of a region when they are due. Thread-safe."""

    def __init__(self, clients: Ec2, clock: Callable[[], float]) -> None:
        self._clients = clients
        self._clock = clock
        self._lock = threading.Lock()
        self._types: RegionTypes | None = None
        self._read_again_at = 0.0
        self._refusal: EC2Error | None = None

    @property
    def last(self) -> RegionTypes | None:
        """What was last read; None if nothing was."""
        return self._types

    def current(self) -> RegionTypes:
        """The types of the region. They are read if they are due; an earlier answer stands in for one that fails.

        Raises:
            EC2Error: EC2 could not be read, and there is no earlier answer.
        """
        with self._lock:
            return self._current()

    def check(self) -> None:
        """Read the instance types if they are due.

        Raises:
            EC2Error: EC2 could not be read and there is no earlier answer, or EC2 refused the last read.
        """
        with self._lock:
            self._current()
            if self._refusal is not None:
                raise self._refusal

    def forget(self) -> None:
        """Expire what was read, so that the next call reads EC2 again."""
        with self._lock:
            self._read_again_at = float("-inf")

    def _current(self) -> RegionTypes:
        types, now = self._types, self._clock()
        if types is not None and now < self._read_again_at:
            return types
        try:
            fresh = RegionTypes(types.version + 1 if types else 1, self._read_types(), self._read_zones())
        except EC2Error as error:
            if types is None:
                raise
            log.warning(
                "The worker failed to read the instance types and keeps the last known ones",
                extra={"error": str(error)},
            )
            self._refusal = None if error.retryable else error
            self._read_again_at = now + (RETRY_SECONDS if error.retryable else REFUSED_SECONDS)
            return types
        self._types, self._read_again_at, self._refusal = fresh, now + TTL_SECONDS, None
        return fresh

    def _read_types(self) -> dict[str, bytes]:
        items: dict[str, bytes] = {}
        with translated("DescribeInstanceTypes"):
            for page in self._clients.ec2.get_paginator("describe_instance_types").paginate(
                PaginationConfig={"PageSize": 100}
            ):
                items.update({str(item["InstanceType"]): msgspec.json.encode(item) for item in page["InstanceTypes"]})
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
