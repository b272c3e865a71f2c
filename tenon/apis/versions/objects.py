"""Converts one object to another version of its API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tenon.apis import labels
from tenon.apis.json_object import JsonObject
from tenon.apis.managed import KIND as NODE_CLASS_KIND
from tenon.apis.versions import nodeclasses, pools_and_claims
from tenon.apis.versions.parts import Part, Side, UnconvertibleError, convert

V1, V1BETA1 = "v1", "v1beta1"
DEFAULT_EXPIRY = "720h"
"""The default of expireAfter in both versions."""
_SIDES = {
    V1: Side(lambda part: part.v1, labels.KEPT_OF_V1BETA1),
    V1BETA1: Side(lambda part: part.v1beta1, labels.KEPT_OF_V1),
}
_PARTS: Mapping[tuple[str, str], Callable[[JsonObject], Sequence[Part]]] = {
    (labels.GROUP, "NodePool"): lambda _: pools_and_claims.NODEPOOL,
    (labels.GROUP, "NodeClaim"): lambda _: pools_and_claims.NODECLAIM,
    (labels.AWS_GROUP, NODE_CLASS_KIND): nodeclasses.parts_of,
}


def converted(body: JsonObject, api_version: str, expiry: Mapping[str, str] | None = None) -> JsonObject:
    """Convert the object, in place, to ``api_version``, a group and version.

    Args:
        body: the object.
        api_version: the group and version, such as ``karpenter.sh/v1``.
        expiry: expireAfter by NodePool name, which NodeClaims of v1beta1 take over (V1B-07); None if it is not known
            yet.

    Raises:
        UnconvertibleError: the object is of another kind or version, or it is malformed.
    """
    group, _, version = api_version.partition("/")
    kind = body.get("kind")
    own_group, _, own_version = str(body.get("apiVersion") or "").partition("/")
    parts = _PARTS.get((own_group, str(kind)))
    if parts is None or own_version not in _SIDES or version not in _SIDES or own_group != group:
        raise UnconvertibleError(f"{body.get('apiVersion')} {kind} cannot be converted to {api_version}")
    if not isinstance(body.get("metadata"), dict):
        raise UnconvertibleError("metadata is not a mapping")
    if own_version == version:
        return body
    convert(body, parts(body), _SIDES[own_version], _SIDES[version], upwards=version == V1)
    body["apiVersion"] = api_version
    if kind == "NodeClaim" and version == V1:
        _expire(body, expiry)
    return body


def _expire(claim: JsonObject, expiry: Mapping[str, str] | None) -> None:
    """Set expireAfter of a NodeClaim that has none to the value of its NodePool."""
    spec = claim.get("spec")
    if not isinstance(spec, dict) or "expireAfter" in spec:
        return
    owner = (claim["metadata"].get("labels") or {}).get(labels.NODEPOOL)
    if owner is not None and expiry is None:
        raise UnconvertibleError(f"the expireAfter of NodePool {owner} is not known yet: try again")
    spec["expireAfter"] = (expiry or {}).get(str(owner), DEFAULT_EXPIRY)
