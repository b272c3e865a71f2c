"""The offerings of a NodeClaim's instance types that EC2 refused or took back when the claim was planned.

The plan chose the claim's types without them, but types, zones and capacity types of a claim are separate lists, which
may combine to such an offering. So the claim names them, and whichever replica launches it leaves them out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tenon.apis import labels
from tenon.ec2.vcpu_quotas import quota_of
from tenon.kube.offerings import OfferingKey

MAX_NAMED = 100
"""How many a NodeClaim names."""


def unavailable_annotation(instance_types: Collection[str], avoided: Iterable[OfferingKey]) -> dict[str, str]:
    """Return the annotation for a claim with these types; empty if EC2 refused none of their offerings.

    Reservations are named whatever type they have, and full placement groups whatever group the claim launches into.
    """
    types = frozenset(("", *instance_types))
    selected_keys = (
        key
        for key in avoided
        if key.zone
        and (key.instance_type in types or key.type_in_group in types or key.capacity_type == labels.RESERVED)
    )
    everywhere = (key for key in avoided if not key.zone and key.instance_type and _concerns(key, instance_types))
    names = sorted("/".join(key) for key in (*selected_keys, *everywhere))
    return {labels.UNAVAILABLE_OFFERINGS: ",".join(names[:MAX_NAMED])} if names else {}


def unavailable_offerings(annotations: Mapping[str, str]) -> frozenset[OfferingKey]:
    """Return the offerings that a claim's annotation names, without parts that cannot be read."""
    parts = (text.split("/") for text in annotations.get(labels.UNAVAILABLE_OFFERINGS, "").split(","))
    return frozenset(OfferingKey(*part) for part in parts if len(part) == 3 and all(part[:2]))


def _concerns(key: OfferingKey, instance_types: Collection[str]) -> bool:
    """Whether a key without a zone is about one of the types."""
    if key.quota:
        return any(quota_of(name, key.capacity_type) == key.quota for name in instance_types)
    return key.instance_type in instance_types
