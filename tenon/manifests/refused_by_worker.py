"""Finds what the API server stores but the worker cannot use, from the manifest alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.legacy.conversion import Converted
from tenon.apis.validation import FieldError, name_faults, parse
from tenon.ec2.cluster import Cluster
from tenon.ec2.nodeclass_status import USER_DATA_TOO_LARGE, validate

_IAM_NAME = re.compile(r"[A-Za-z0-9_+=,.@-]+")
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
    for field, what, longest in (("role", "role", 64), ("instanceProfile", "instance profile", 128)):
        value = spec.get(field)
        if isinstance(value, str) and value and (why := _no_name(value, what, longest)):
            yield FieldError(f"spec.{field}", why)


def _no_name(value: str, what: str, longest: int) -> str:
    """Why IAM has no role or instance profile of this name; empty if it may have one. A role may have its path."""
    parts = value.split("/")
    if value.startswith("arn:"):
        name = parts[1] if ":assumed-role/" in value and len(parts) > 1 else parts[-1]
        return f"is an ARN, where IAM takes the name of the {what}: write {name[:80]}"
    if what != "role" and len(parts) > 1:
        return f"has a path, where IAM takes the name of the {what}: write {parts[-1][:80]}"
    if len(parts[-1]) > longest:
        return f"has {len(parts[-1])} characters, and the name of the {what} has at most {longest} in IAM"
    if not _IAM_NAME.fullmatch(parts[-1]):
        return f"{value[:80]!r} is no name in IAM: use letters, digits and any of _+=,.@-"
    return ""


def _user_data(manifest: Mapping[str, Any]) -> Iterator[FieldError]:
    node_class, problems = parse(EC2NodeClass, {name: value for name, value in manifest.items() if name != "status"})
    if node_class is None or problems or not node_class.spec.user_data:
        return
    result = validate(node_class, _ANY_CLUSTER)
    if result.reason in ("UserDataInvalid", USER_DATA_TOO_LARGE):
        yield FieldError("spec.userData", result.message)
