"""What a placement group means for the nodes of a class: which types it takes, and which labels they get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tenon.apis import labels
from tenon.apis.ec2nodeclass import PlacementGroup
from tenon.ec2.types.capacity import Item
from tenon.kube.requirements import Requirements

SPREAD = "spread"
STRATEGIES = ("cluster", "partition", SPREAD)
PLACEMENT_GROUP_LABELS = (labels.PLACEMENT_GROUP_ID, labels.PLACEMENT_GROUP_PARTITION)
"""The labels of a node that is in a placement group."""


def group_of(raw: Mapping[str, Any]) -> PlacementGroup | None:
    """Return a group as the status of a class shows it; None if no instance can be launched into it.

    ``raw`` is the group as DescribePlacementGroups shows it.
    """
    if raw.get("State") != "available" or raw.get("Strategy") not in STRATEGIES:
        return None
    count = raw.get("PartitionCount")
    return PlacementGroup(
        id=str(raw["GroupId"]),
        name=str(raw["GroupName"]),
        strategy=cast("Any", raw["Strategy"]),
        partition_count=int(count) if count else None,
    )


def takes(group: PlacementGroup | None, item: Item) -> bool:
    """Whether EC2 launches the type into the group (AWS-077). Burstable types, for example, are in no cluster."""
    supported = item.get("PlacementGroupInfo", {}).get("SupportedStrategies")
    return group is None or supported is None or group.strategy in supported


def label_values(group: PlacementGroup | None) -> dict[str, list[str]]:
    """Return the labels of nodes in the group with their possible values (ALB-20). EC2 chooses the partition."""
    partitions = range(1, (group.partition_count or 0) + 1) if group is not None else ()
    return {
        labels.PLACEMENT_GROUP_ID: [group.id] if group is not None else [],
        labels.PLACEMENT_GROUP_PARTITION: [str(number) for number in partitions],
    }


def group_id(values: Requirements) -> str:
    """Return the placement group that a type with these labels is launched into; empty for none."""
    group = values.get(labels.PLACEMENT_GROUP_ID)
    return "" if group.complement else "".join(group.values)


def partition(group: PlacementGroup | None, requirements: Requirements) -> int | None:
    """Return the only partition that a claim allows; None if it leaves the choice to EC2."""
    values = label_values(group)[labels.PLACEMENT_GROUP_PARTITION]
    allowed = [value for value in values if requirements.get(labels.PLACEMENT_GROUP_PARTITION).has(value)]
    return int(allowed[0]) if len(allowed) == 1 else None
