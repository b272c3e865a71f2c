"""The ARNs and tags of the account's resources, as authorization sees them.

A resource that does not exist has an ARN but no tags. So under a policy that asks for a tag EC2 refuses a call about it
with UnauthorizedOperation, and the caller never learns that it does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moto.ec2.models import ec2_backends
from moto.iam.models import iam_backends

from sandbox.ec2.authorization.identities import ACCOUNT
from sandbox.ec2.region import PARTITION

KINDS = {
    "ami": "image",
    "cr": "capacity-reservation",
    "eni": "network-interface",
    "fleet": "fleet",
    "i": "instance",
    "lt": "launch-template",
    "pg": "placement-group",
    "sg": "security-group",
    "sir": "spot-instances-request",
    "snap": "snapshot",
    "subnet": "subnet",
    "vol": "volume",
    "vpc": "vpc",
}
"""The kind of an EC2 resource, by the prefix of its ID."""


@dataclass(frozen=True)
class Resource:
    """One resource of the account."""

    arn: str
    tags: Mapping[str, str]
    exists: bool = True


def ec2_arn(region: str, kind: str, name: str = "*") -> str:
    """The ARN of an EC2 resource, or of one that is about to be created. Images and snapshots name no account."""
    account = "" if kind in ("image", "snapshot") else ACCOUNT
    return f"arn:{PARTITION}:ec2:{region}:{account}:{kind}/{name}"


def new(region: str, kind: str) -> Resource:
    """A resource that is about to be created."""
    return Resource(ec2_arn(region, kind), {})


def ec2_resource(region: str, resource_id: str) -> Resource:
    """The EC2 resource with this ID."""
    kind = KINDS.get(resource_id.partition("-")[0], "unknown")
    backend = _ec2(region)
    exists = True
    if kind == "launch-template":
        exists = resource_id in backend.launch_templates
    elif kind == "instance" and not backend.tags.get(resource_id):
        exists = backend.get_instance_by_id(resource_id) is not None
    # The mock keeps the tags of deleted templates.
    tags = dict(backend.tags.get(resource_id) or {}) if exists else {}
    return Resource(ec2_arn(region, kind, resource_id), tags, exists)


def launch_template(region: str, template_id: str, name: str) -> Resource | None:
    """The launch template with this ID or name. None if no template has the name, because then there is no ARN."""
    result = template_id or str(_ec2(region).launch_template_name_to_ids.get(name) or "")
    return ec2_resource(region, result) if result else None


def instance_profile(name: str, path: str = "") -> Resource:
    """The instance profile with this name. ``path`` is that of a new one."""
    for profile in list(_iam().instance_profiles.values()):
        if profile.name == name:
            return Resource(str(profile.arn), {tag["Key"]: tag["Value"] for tag in profile.tags})
    return Resource(f"arn:{PARTITION}:iam::{ACCOUNT}:instance-profile{path or '/'}{name}", {})


def profile_role(names: Mapping[str, str]) -> str:
    """The ARN of the role in the instance profile with this name or ARN. Empty if there is none."""
    for profile in list(_iam().instance_profiles.values()):
        if profile.name == names.get("Name") or profile.arn == names.get("Arn"):
            return next((str(role.arn) for role in profile.roles), "")
    return ""


def role(name: str) -> str:
    """The ARN of the role with this name. Empty if it does not exist."""
    return next((str(role.arn) for role in list(_iam().roles.values()) if role.name == name), "")


def _ec2(region: str) -> Any:
    return ec2_backends[ACCOUNT][region]


def _iam() -> Any:
    return iam_backends[ACCOUNT][PARTITION]
