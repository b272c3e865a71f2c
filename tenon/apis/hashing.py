"""Static drift: compares the hash of what a node was created from with the hash of the current spec.

The hash is specific to Tenon, and so are its version strings. Objects hashed by another controller carry another
version, and an object with a different version is rehashed instead of being marked as drifted. This works in both
directions: Tenon rehashes what Karpenter hashed, and Karpenter rehashes what Tenon hashed. So changing the controller
does not replace any node.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tenon.apis import labels
from tenon.apis.base import ApiModel, kubernetes_name
from tenon.apis.duration import Duration
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodepool import NodePool

NODEPOOL_VERSION = "tenon-v1"
"""Change this when the same NodePool would get a different hash."""
EC2NODECLASS_VERSION = "tenon-v2"
"""Change this when the same EC2NodeClass would get a different hash. Version 1 did not cover the CA bundle."""

UNHASHED_SELECTORS = frozenset(
    {
        "subnet_selector_terms",
        "security_group_selector_terms",
        "capacity_reservation_selector_terms",
        "placement_group_selector",
        "ami_selector_terms",
        "ami_family",
        "ip_prefix_count",
    }
)
"""Fields of an EC2NodeClass that are not in the hash, because drift compares their effect with the instance itself."""


def nodepool_hash(pool: NodePool) -> str:
    """Hash the pool's template without its requirements, which drift compares with the node's labels."""
    template = plain_fields(pool.spec.template)
    template["spec"].pop("requirements", None)
    return digest_of(template)


def ec2nodeclass_hash(node_class: EC2NodeClass, ca_bundle: str = "") -> str:
    """Hash the class: its spec without `UNHASHED_SELECTORS`, its AMI family, and the cluster's CA bundle."""
    spec = plain_fields(node_class.spec, UNHASHED_SELECTORS)
    return digest_of({"spec": spec, "family": node_class.spec.resolved_family, "caBundle": ca_bundle})


def changed_class_fields(before: EC2NodeClass, after: EC2NodeClass) -> tuple[list[str], list[str]]:
    """Return the fields of the spec that differ: those that the hash covers, and the other ones."""
    old, new = plain_fields(before.spec), plain_fields(after.spec)
    changed = sorted(name for name in old.keys() | new.keys() if _text(old.get(name)) != _text(new.get(name)))
    unhashed = {kubernetes_name(name) for name in UNHASHED_SELECTORS}
    return [name for name in changed if name not in unhashed], [name for name in changed if name in unhashed]


def nodepool_hashes(pool: NodePool) -> dict[str, str]:
    """The hash annotations of a pool and its NodeClaims."""
    return {labels.NODEPOOL_HASH: nodepool_hash(pool), labels.NODEPOOL_HASH_VERSION: NODEPOOL_VERSION}


def ec2nodeclass_hashes(node_class: EC2NodeClass, ca_bundle: str = "") -> dict[str, str]:
    """The hash annotations of a class and the NodeClaims launched from it."""
    return {
        labels.EC2NODECLASS_HASH: ec2nodeclass_hash(node_class, ca_bundle),
        labels.EC2NODECLASS_HASH_VERSION: EC2NODECLASS_VERSION,
    }


def migrated_hashes(annotations: Mapping[str, str], hashes: Mapping[str, str], *, drifted: bool) -> dict[str, str]:
    """Return the hash annotations to write on a NodeClaim if its pool or class was hashed under another version.

    A hash of another version cannot show whether the claim had drifted, so the claim gets the current hash. A claim
    that is already marked as drifted keeps its hash and stays drifted. The result is empty if the version is current.
    """
    version = next(key for key in hashes if key.endswith("-version"))
    if annotations.get(version) == hashes[version]:
        return {}
    return {version: hashes[version]} if drifted else dict(hashes)


def plain_fields(model: ApiModel, left_out: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the fields as JSON types under their Kubernetes names, without unset, empty, and default False values.

    A field that a later version adds to the models therefore changes no hash until a user sets it.
    """
    plain = dict(model.model_extra or {})
    for name, field in type(model).model_fields.items():
        if name in left_out:
            continue
        value = _value(getattr(model, name))
        if value not in (None, "", [], {}) and not (value is False and field.default is False):
            plain[kubernetes_name(name)] = value
    return plain


def _value(value: Any) -> Any:
    if isinstance(value, ApiModel):
        return plain_fields(value)
    if isinstance(value, Duration):  # by length, because 1h and 60m make the same node
        return value.text if value.seconds is None else value.seconds
    if isinstance(value, Mapping):
        return {name: _value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_value(item) for item in value]
    return value


def digest_of(value: Any) -> str:
    """Return a digest of JSON types that is the same for equal meanings: the order of names and of lists is ignored."""
    return hashlib.sha256(_text(value).encode()).hexdigest()[:20]


def _text(value: Any) -> str:
    """Serialize the value so that equal meanings have equal text: names are sorted, the order of lists is ignored."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(name)}:{_text(item)}" for name, item in sorted(value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(sorted(map(_text, value))) + "]"
    return json.dumps(value)
