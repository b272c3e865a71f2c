"""Static drift: a digest of what a node was made from, to compare with what it would be made from now.

The digest is Tenon's own, so its version texts are too: objects hashed by another controller carry another version, and
objects of unequal versions are re-hashed, never called drifted. That holds in both directions: Tenon re-hashes what
Karpenter has hashed, and Karpenter what Tenon has, so that no node is replaced because its controller was.
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
"""Changes when the same NodePool would get another digest."""
EC2NODECLASS_VERSION = "tenon-v1"
"""Changes when the same EC2NodeClass would get another digest."""

FOUND_BY_LOOKING = frozenset(
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
"""Fields of an EC2NodeClass whose effect on a node is compared with the instance itself, not with this digest."""


def nodepool_hash(pool: NodePool) -> str:
    """The digest of a pool's template without its requirements (those are compared with a node's labels)."""
    template = _plain(pool.spec.template)
    template["spec"].pop("requirements", None)
    return _digest(template)


def ec2nodeclass_hash(node_class: EC2NodeClass, ca_bundle: str = "") -> str:
    """The digest of a class: its spec less what is found by looking, its image family, and the cluster's CA bundle."""
    spec = _plain(node_class.spec, FOUND_BY_LOOKING)
    return _digest({"spec": spec, "family": node_class.spec.resolved_family, "caBundle": ca_bundle})


def nodepool_hashes(pool: NodePool) -> dict[str, str]:
    """The annotations that a pool and its NodeClaims carry."""
    return {labels.NODEPOOL_HASH: nodepool_hash(pool), labels.NODEPOOL_HASH_VERSION: NODEPOOL_VERSION}


def ec2nodeclass_hashes(node_class: EC2NodeClass) -> dict[str, str]:
    """The annotations that a class and the NodeClaims launched from it carry."""
    return {
        labels.EC2NODECLASS_HASH: ec2nodeclass_hash(node_class),
        labels.EC2NODECLASS_HASH_VERSION: EC2NODECLASS_VERSION,
    }


def taken_over(annotations: Mapping[str, str], hashes: Mapping[str, str], *, drifted: bool) -> dict[str, str]:
    """What to write on a NodeClaim whose pool or class was hashed under another version; empty when nothing is.

    Nobody can say whether it had drifted by the other version's digest, so it counts as made from what is there now.
    One that is called drifted already keeps its digest, and stays so.
    """
    version = next(key for key in hashes if key.endswith("-version"))
    if annotations.get(version) == hashes[version]:
        return {}
    return {version: hashes[version]} if drifted else dict(hashes)


def _plain(model: ApiModel, left_out: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The fields as JSON types under their Kubernetes names, without those that are unset, empty, or False by default.

    So a field that a later version of the models adds changes no digest until somebody uses it.
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
        return _plain(value)
    if isinstance(value, Duration):  # by length: 1h and 60m are the same node
        return value.text if value.seconds is None else value.seconds
    if isinstance(value, Mapping):
        return {name: _value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_value(item) for item in value]
    return value


def _digest(value: Any) -> str:
    return hashlib.sha256(_text(value).encode()).hexdigest()[:20]


def _text(value: Any) -> str:
    """A text that equal meanings share: names in order, lists as bags."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(name)}:{_text(item)}" for name, item in sorted(value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(sorted(map(_text, value))) + "]"
    return json.dumps(value)
