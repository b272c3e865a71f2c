"""The offerings of a NodeClaim's instance types that EC2 refused or took back when the claim was planned.

The plan chose the claim's types without them, but types, zones and capacity types of a claim are separate lists, which
may combine to such an offering. So the claim names them, and whichever replica launches it leaves them out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import cast

from tenon.apis import labels
from tenon.ec2.refusals.unavailable import concerns_types
from tenon.kube.offerings import QUOTA, SCOPES, OfferingKey, Scope

MAX_NAMED = 100
"""How many a NodeClaim names."""


def unavailable_annotation(instance_types: Collection[str], unavailable: Iterable[OfferingKey]) -> dict[str, str]:
    """Return the annotation for a claim with these types; empty if EC2 refused none of their offerings.

    Reservations are named whatever type they have, and full placement groups whatever group the claim launches into.
    """
    names = sorted(_text(key) for key in unavailable if _may_be_asked_for(key, instance_types))
    return {labels.UNAVAILABLE_OFFERINGS: ",".join(names[:MAX_NAMED])} if names else {}


def unavailable_offerings(annotations: Mapping[str, str]) -> frozenset[OfferingKey]:
    """Return the offerings that a claim's annotation names, without parts that cannot be read."""
    keys = map(_key, annotations.get(labels.UNAVAILABLE_OFFERINGS, "").split(","))
    return frozenset(key for key in keys if key is not None)


def _may_be_asked_for(key: OfferingKey, instance_types: Collection[str]) -> bool:
    """Whether a claim with these types may ask for what the key is about. A whole capacity type is not named."""
    if key.scope != QUOTA and not key.instance_type:
        return key != key.whole_capacity_type
    return concerns_types(key, instance_types)


def _text(key: OfferingKey) -> str:
    return "/".join(key if key.scope else key[:3])


def _key(text: str) -> OfferingKey | None:
    capacity_type, instance_type, zone, scope, scope_name = (*text.split("/"), *("",) * 5)[:5]
    if text.count("/") not in (2, 4) or not capacity_type or not (instance_type or scope_name) or scope not in SCOPES:
        return None
    return OfferingKey(capacity_type, instance_type, zone, cast("Scope", scope), scope_name)
