"""Placement groups: what EC2 refuses to launch into them, and in which partition an instance is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from moto.ec2.exceptions import EC2ClientError

from sandbox.ec2 import catalogue
from sandbox.ec2.authorization.identities import ACCOUNT
from sandbox.ec2.describe import pattern
from sandbox.ec2.instances import InstanceBook, Machine
from sandbox.ec2.launch import LaunchRefusedError
from sandbox.ec2.region import PARTITION, REGION
from sandbox.ec2.templates import LaunchSpec

SPREAD_LIMIT = 7
"""Instances of a spread group in one zone."""


@dataclass
class PlacementGroup:
    """One placement group."""

    id: str
    name: str
    strategy: str
    partitions: int = 0


FILTERS: dict[str, Callable[[PlacementGroup], str]] = {
    "group-name": lambda group: group.name,
    "strategy": lambda group: group.strategy,
    "state": lambda _: "available",
}


class PlacementGroups:
    """The placement groups of the account."""

    def __init__(self, book: InstanceBook) -> None:
        self._book = book
        self._numbers = itertools.count(1)
        self._all: dict[str, PlacementGroup] = {}

    def create(self, name: str, strategy: str, partitions: int = 0) -> PlacementGroup:
        """Create a group."""
        placement_group = PlacementGroup(f"pg-{next(self._numbers):017x}", name, strategy, partitions)
        self._all[placement_group.id] = placement_group
        return placement_group

    def delete(self, group_id: str) -> None:
        """Delete a group."""
        self._all.pop(group_id, None)

    def clear(self) -> None:
        """Forget all, for a reset."""
        self._all.clear()

    def of(self, spec: LaunchSpec, zone: str) -> PlacementGroup | LaunchRefusedError | None:
        """The group of a launch, EC2's error, or None if the launch names none."""
        placement = spec.data.get("Placement") or {}
        if not (placement.get("GroupId") or placement.get("GroupName")):
            return None
        gs = next(
            (g for g in self._all.values() if placement.get("GroupId") == g.id or placement.get("GroupName") == g.name),
            None,
        )
        if gs is None:
            name = placement.get("GroupId") or placement.get("GroupName")
            return LaunchRefusedError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
        kind = catalogue.describe_type(spec.instance_type) or {}
        if gs.strategy not in kind.get("PlacementGroupInfo", {}).get("SupportedStrategies", ()):
            return LaunchRefusedError(
                "InvalidParameterCombination",
                f"{gs.strategy.title()} placement groups are not supported by the '{spec.instance_type}' instance "
                "type. Specify a supported instance type or change the placement group strategy, and try again.",
            )
        number = int(placement.get("PartitionNumber") or 0)
        if number and not (gs.strategy == "partition" and number <= gs.partitions):
            return LaunchRefusedError(
                "InvalidParameterValue", f"The partition number {number} is not valid for placement group {gs.id}."
            )
        if gs.strategy == "cluster" and any(machine.pool[1] != zone for machine in self._members(gs)):
            return LaunchRefusedError(
                "InsufficientInstanceCapacity",
                f"Placement group {gs.id} is in use in another Availability Zone.",
            )
        return gs

    def room(self, group: PlacementGroup, zone: str, expectation: int) -> int:
        """How many of ``expectation`` instances fit in the group in a zone."""
        if group.strategy != "spread":
            return expectation
        return min(expectation, max(0, SPREAD_LIMIT - sum(machine.pool[1] == zone for machine in self._members(group))))

    def place(self, machine: Machine, group: PlacementGroup, spec: LaunchSpec) -> None:
        """Record the group of a new instance. Without a wish it gets the emptiest partition."""
        machine.placement_group_id, machine.placement_group_name = group.id, group.name
        if group.strategy == "partition":
            used = [machine.partition for machine in self._members(group)]
            emptiest = min(range(1, group.partitions + 1), key=lambda number: (used.count(number), number))
            machine.partition = int((spec.data.get("Placement") or {}).get("PartitionNumber") or emptiest)

    def describe(self, ids: Iterable[str], filters: Mapping[str, Iterable[str]]) -> list[dict[str, Any]]:
        """The groups of a DescribePlacementGroups call.

        Raises:
            EC2ClientError: an ID does not exist, or EC2 does not have the filter.
        """
        expectation = list(ids)
        for missing in (item for item in expectation if item not in self._all):
            raise EC2ClientError("InvalidPlacementGroup.Unknown", f"The Placement Group '{missing}' is unknown.")
        result = [item for item in self._all.values() if not expectation or item.id in expectation]
        for name, values in filters.items():
            if name not in FILTERS:
                raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
            patterns = [pattern(str(value)) for value in values]
            result = [item for item in result if any(p.fullmatch(FILTERS[name](item)) for p in patterns)]
        return [_description(item) for item in result]

    def _members(self, group: PlacementGroup) -> list[Machine]:
        return [
            machine
            for machine in self._book.all()
            if machine.placement_group_id == group.id and machine.state not in ("shutting-down", "terminated")
        ]


def limit_reached(group: PlacementGroup, zone: str) -> LaunchRefusedError:
    """EC2's error for a spread group that has all its instances in a zone."""
    return LaunchRefusedError(
        "InsufficientInstanceCapacity",
        f"You have exceeded the limit of {SPREAD_LIMIT} running instances in {zone} for placement group {group.id}.",
    )


def _description(placement_group: PlacementGroup) -> dict[str, Any]:
    return {
        "GroupName": placement_group.name,
        "GroupId": placement_group.id,
        "GroupArn": f"arn:{PARTITION}:ec2:{REGION}:{ACCOUNT}:placement-group/{placement_group.name}",
        "State": "available",
        "Strategy": placement_group.strategy,
        **({"PartitionCount": placement_group.partitions} if placement_group.partitions else {}),
    }
