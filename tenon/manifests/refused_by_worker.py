"""Finds what the API server stores but the worker cannot use, from the manifest alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.legacy.conversion import Converted
from tenon.apis.validation import FieldError, name_faults, parse
from tenon.ec2.cluster import Cluster
from tenon.ec2.nodeclass_status import USER_DATA_TOO_LARGE, validate

_ANY_CLUSTER = Cluster(
    name="c", region="us-west-2", endpoint="https://c", ca_bundle="Q0E=", service_cidr="10.0.0.0/16", dns_ip="10.0.0.10"
)
"""A cluster whose part of the user data is short: what is too long for it is too long for every cluster."""


def refused_by_worker(body: Mapping[str, Any], converted: Converted | None) -> Iterator[FieldError]:
    """Yield the problems of a NodePool or an EC2NodeClass, also of what an older object becomes."""
    kind, spec = body.get("kind"), body.get("spec")
    name = (body.get("metadata") or {}).get("name") if isinstance(body.get("metadata"), dict) else None
    if kind in ("Provisioner", "AWSNodeTemplate") and isinstance(name, str):
        yield from name_faults(name)
    if isinstance(spec, dict):
        yield from _identities(spec)
    made = converted.manifests if converted is not None else [body]
    for manifest in made:
        if manifest.get("kind") == "EC2NodeClass":
            yield from _user_data(manifest)


def _identities(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    for field, what in (("role", "role"), ("instanceProfile", "instance profile")):
        value = spec.get(field)
        if isinstance(value, str) and value.startswith("arn:"):
            name = value.rpartition("/")[2]
            yield FieldError(f"spec.{field}", f"is an ARN, where IAM takes the name of the {what}: write {name[:80]}")


def _user_data(manifest: Mapping[str, Any]) -> Iterator[FieldError]:
    node_class, problems = parse(EC2NodeClass, {name: value for name, value in manifest.items() if name != "status"})
    if node_class is None or problems or not node_class.spec.user_data:
        return
    result = validate(node_class, _ANY_CLUSTER)
    if result.reason in ("UserDataInvalid", USER_DATA_TOO_LARGE):
        yield FieldError("spec.userData", result.message)
