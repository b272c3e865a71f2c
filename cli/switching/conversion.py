"""Converts objects of v1beta1 that a command has listed, as Tenon will once it leads."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

from tenon.apis.json_object import JsonObject, field_at
from tenon.apis.versions.objects import DEFAULT_EXPIRY, V1, V1BETA1, converted
from tenon.apis.versions.parts import UnconvertibleError


def as_v1(body: JsonObject, expiry: Mapping[str, str] | None = None) -> JsonObject:
    """Return the object in v1; as it is if it cannot be converted. ``expiry``: see `expiry_by_pool`."""
    group, _, version = str(body.get("apiVersion") or "").partition("/")
    if version != V1BETA1:
        return body
    try:
        return converted(copy.deepcopy(body), f"{group}/{V1}", expiry)
    except UnconvertibleError:
        return body


def expiry_by_pool(pools: Sequence[JsonObject]) -> dict[str, str]:
    """Return expireAfter by NodePool (of v1), which NodeClaims of v1beta1 take over."""
    return {
        str(pool["metadata"]["name"]): str(field_at(pool, "spec", "template", "spec", "expireAfter") or DEFAULT_EXPIRY)
        for pool in pools
    }
