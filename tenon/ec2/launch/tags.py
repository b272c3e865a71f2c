"""The tags on everything that Tenon creates in EC2. They identify the owner and help to find lost resources."""

from __future__ import annotations

from collections.abc import Mapping

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.messages.launch import LaunchGroup


def shared_tags(cluster: str, node_class: EC2NodeClass, pool: str) -> dict[str, str]:
    """Return the class's own tags, and the tags that all nodes of a pool and class share."""
    return {
        **node_class.spec.tags,
        labels.owned_tag(cluster): "owned",
        labels.TAG_CLUSTER: cluster,
        labels.TAG_NODEPOOL: pool,
        labels.TAG_NODECLASS: node_class.metadata.name,
    }


def instance_tags(cluster: str, node_class: EC2NodeClass, pool: str, claim: str, token: str) -> dict[str, str]:
    """Return the tags of a claim's instance, volumes and fleet. The class's Name tag takes precedence."""
    return {
        "Name": claim,
        **shared_tags(cluster, node_class, pool),
        labels.TAG_NODECLAIM: claim,
        labels.TAG_TOKEN: token,
    }


def group_tags(tags: Mapping[str, str], group: LaunchGroup, token: str) -> dict[str, str]:
    """Return the tags for all instances of a launch group, from the tags of one member.

    The member's name is left out.
    """
    claim = tags.get(labels.TAG_NODECLAIM)
    of_one = {key for key in (labels.TAG_NODECLAIM, "Name") if tags.get(key) == claim}
    shared = {key: value for key, value in tags.items() if key not in of_one}
    return {**shared, labels.TAG_GROUP: group.id, labels.TAG_TOKEN: token}


def profile_tags(cluster: str, region: str, node_class: EC2NodeClass) -> dict[str, str]:
    """Return the tags of a managed instance profile."""
    return {
        **node_class.spec.tags,
        labels.owned_tag(cluster): "owned",
        labels.TAG_CLUSTER: cluster,
        labels.TAG_NODECLASS: node_class.metadata.name,
        labels.REGION: region,
    }
