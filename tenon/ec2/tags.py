"""The tags on everything Tenon makes in EC2: they say whose a thing is, and find what was bought and forgotten."""

from __future__ import annotations

from collections.abc import Mapping

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.lifecycle.messages import LaunchGroup


def shared_tags(cluster: str, node_class: EC2NodeClass, pool: str) -> dict[str, str]:
    """The class's own tags, and those that all nodes of one pool and class share."""
    return {
        **node_class.spec.tags,
        f"kubernetes.io/cluster/{cluster}": "owned",
        labels.TAG_CLUSTER: cluster,
        labels.TAG_NODEPOOL: pool,
        labels.TAG_NODECLASS: node_class.metadata.name,
    }


def instance_tags(cluster: str, node_class: EC2NodeClass, pool: str, claim: str, token: str) -> dict[str, str]:
    """The tags of one claim's instance, its volumes and its fleet; a Name tag of the class wins."""
    return {
        "Name": claim,
        **shared_tags(cluster, node_class, pool),
        labels.TAG_NODECLAIM: claim,
        labels.TAG_TOKEN: token,
    }


def group_tags(tags: Mapping[str, str], group: LaunchGroup, token: str) -> dict[str, str]:
    """The tags of the instances of a launch group, from those of one member's own: its name is not that of all."""
    claim = tags.get(labels.TAG_NODECLAIM)
    of_one = {key for key in (labels.TAG_NODECLAIM, "Name") if tags.get(key) == claim}
    shared = {key: value for key, value in tags.items() if key not in of_one}
    return {**shared, labels.TAG_GROUP: group.id, labels.TAG_TOKEN: token}


def profile_tags(cluster: str, region: str, node_class: EC2NodeClass) -> dict[str, str]:
    """The tags of a managed instance profile."""
    return {
        **node_class.spec.tags,
        f"kubernetes.io/cluster/{cluster}": "owned",
        labels.TAG_CLUSTER: cluster,
        labels.TAG_NODECLASS: node_class.metadata.name,
        labels.REGION: region,
    }
