"""Finds the placement group of a node class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error, translated
from tenon.apis.ec2nodeclass import EC2NodeClass, PlacementGroup
from tenon.ec2.refusals.errors import PLACEMENT_GROUP_UNKNOWN
from tenon.ec2.types.placement_groups import group_of

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import PlacementGroupTypeDef


class PlacementGroupNotFoundError(EC2Error):
    """The class selects a placement group that does not exist, or that is not available."""


def find_placement_group(clients: Ec2, node_class: EC2NodeClass) -> PlacementGroup | None:
    """The group that the class selects; None if it selects none.

    Raises:
        PlacementGroupNotFoundError: there is no such group.
        EC2Error: EC2 refused the call or did not answer.
    """
    selector = node_class.spec.placement_group_selector
    if selector is None:
        return None
    selector_text = f"id {selector.id}" if selector.id is not None else f"name {selector.name}"
    groups = (group_of(raw) for raw in _described(clients, selector.id or "", selector.name or ""))
    placement_group = next((group for group in groups if group is not None), None)
    if placement_group is None:
        raise PlacementGroupNotFoundError(
            "PlacementGroupNotFound", f"placementGroupSelector found no available placement group with {selector_text}"
        )
    return placement_group


def _described(clients: Ec2, group_id: str, name: str) -> list[PlacementGroupTypeDef]:
    try:
        with translated("DescribePlacementGroups"):
            if group_id:
                return clients.ec2.describe_placement_groups(GroupIds=[group_id])["PlacementGroups"]
            filters = [{"Name": "group-name", "Values": [name]}]
            return clients.ec2.describe_placement_groups(Filters=filters)["PlacementGroups"]  # type: ignore[arg-type]
    except EC2Error as error:
        if error.code in PLACEMENT_GROUP_UNKNOWN:
            return []
        raise
