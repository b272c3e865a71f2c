"""The annotations of a NodeClaim that say where its instance is in the network. Drift compares them with its class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tenon.apis import labels

NETWORK = (labels.SUBNET_ID, labels.SECURITY_GROUP_IDS)


def network_annotations(subnet_id: str, security_group_ids: Iterable[str]) -> dict[str, str]:
    """Return the annotations; without those of which EC2 said nothing."""
    annotations_ = {labels.SUBNET_ID: subnet_id, labels.SECURITY_GROUP_IDS: ",".join(sorted(security_group_ids))}
    return {key: value for key, value in annotations_.items() if value}


def recorded_network(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return these annotations of a NodeClaim."""
    return {key: annotations[key] for key in NETWORK if annotations.get(key)}
