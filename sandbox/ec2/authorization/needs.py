"""What an AWS call needs: the actions, each with its resource and condition keys, that the caller's policy must allow.

They follow the Service Authorization Reference. A call that is not described here needs its own action on every
resource, so a policy of least privilege refuses it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote

from sandbox.ec2.authorization import resources
from sandbox.ec2.authorization.identities import ACCOUNT
from sandbox.ec2.authorization.policy import Request, context, tags_context
from sandbox.ec2.region import EC2_SERVICE, GLOBAL_REGION, PARTITION

ON_INSTANCES = frozenset({"TerminateInstances", "StopInstances", "StartInstances", "RebootInstances"})
INSTANCE_KIND = "instance"
LAUNCHED_KINDS = ("volume", "network-interface")
"""The kinds of resources that every launch creates with its instance."""
SPOT_KIND = "spot-instances-request"


class Call(Protocol):
    """The parts of a call that matter here."""

    @property
    def service(self) -> str: ...
    @property
    def action(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, str]: ...
    @property
    def body(self) -> bytes: ...
    @property
    def path(self) -> str: ...
    @property
    def region(self) -> str: ...


@dataclass(frozen=True)
class Launch:
    """What is launched: the resources that it uses, and the tags of those that it creates, by kind."""

    region: str
    image: str
    subnet: str
    security_groups: tuple[str, ...]
    instance_type: str
    template: str
    """The ID of the launch template. Empty without one."""
    profile: Mapping[str, str]
    """Name or ARN of the instance profile. Empty without one."""
    tags: Mapping[str, Mapping[str, str]]
    spot: bool
    snapshots: tuple[str, ...] = ()
    placement_group: str = ""
    """The ID of the placement group that the launch names. Empty without one."""
    reservation: str = ""
    """The ID of the capacity reservation that the launch names. Empty without one."""


def needs(call: Call) -> Iterator[Request]:
    """The requests that IAM judges for a call, in AWS's order. An STS call needs no right."""
    match call.service:
        case "ec2":
            yield from _ec2(call)
        case "iam":
            yield from _iam(call)
        case "ssm":
            yield from _ssm(call)
        case "sqs":
            yield from _sqs(call)
        case "eks":
            name = unquote(call.path.removeprefix("/clusters/")) if call.action == "DescribeCluster" else ""
            arn = f"arn:{PARTITION}:eks:{call.region}:{ACCOUNT}:cluster/{name}" if name else "*"
            yield _request(call, arn)
        case "arc-zonal-shift":
            # ARC has no resource type for an EKS cluster: only a condition key names it.
            name = unquote(call.path.removeprefix("/managedresources/"))
            yield _request(call, "*", context({"arc-zonal-shift:ResourceIdentifier": name} if name else {}))
        case "sts" if call.action == "GetCallerIdentity":
            return
        case _:
            yield _request(call, "*")


def launching(launch: Launch) -> Iterator[Request]:
    """The requests that IAM judges for a launch, whether a fleet or RunInstances makes it."""
    used = [launch.image, launch.subnet, *launch.security_groups, *launch.snapshots, launch.template]
    useds = [usage for usage in (*used, launch.reservation, launch.placement_group) if usage]
    for resource in (resources.ec2_resource(launch.region, usage) for usage in useds):
        yield _ec2_request("RunInstances", launch.region, resource)
    yield launching_type(launch)
    others = [*LAUNCHED_KINDS, *([SPOT_KIND] if launch.spot else [])]
    for kind in others:
        yield _ec2_request("RunInstances", launch.region, resources.new(launch.region, kind), launch.tags.get(kind, {}))
    created = [INSTANCE_KIND, *others]
    yield from _tagging_at_creation(
        "RunInstances", launch.region, {kind: launch.tags.get(kind, {}) for kind in created}
    )
    role = resources.profile_role(launch.profile) if launch.profile else ""
    if role:
        yield _passing(role)


def launching_type(launch: Launch) -> Request:
    """The only one of these requests that depends on the instance type."""
    new = resources.new(launch.region, INSTANCE_KIND)
    tags = launch.tags.get(INSTANCE_KIND, {})
    return _ec2_request("RunInstances", launch.region, new, tags, {"ec2:InstanceType": launch.instance_type})


def specified_tags(form: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The tags in a call's TagSpecification parameters, by kind."""
    result: dict[str, dict[str, str]] = {}
    for prefix in _prefixes(form, "TagSpecification"):
        result.setdefault(form.get(f"{prefix}.ResourceType", ""), {}).update(_tags(form, f"{prefix}.Tag"))
    return result


def _ec2(call: Call) -> Iterator[Request]:
    action, region, form = call.action, call.region, call.parameters
    if action == "CreateFleet":
        tags = specified_tags(form)
        yield _ec2_request(action, region, resources.new(region, "fleet"), tags.get("fleet", {}))
        for prefix in _prefixes(form, "LaunchTemplateConfigs"):
            text = f"{prefix}.LaunchTemplateSpecification"
            template = resources.launch_template(
                region, form.get(f"{text}.LaunchTemplateId", ""), form.get(f"{text}.LaunchTemplateName", "")
            )
            if template is not None:
                yield _ec2_request(action, region, template)
        yield from _tagging_at_creation(action, region, {"fleet": tags.get("fleet", {})})
    elif action == "RunInstances":
        yield from launching(_direct_launch(call))
    elif action == "CreateLaunchTemplate":
        own = specified_tags(form).get("launch-template", {})
        yield _ec2_request(action, region, resources.new(region, "launch-template"), own)
        yield from _tagging_at_creation(action, region, {"launch-template": own})
    elif action == "DeleteLaunchTemplate":
        template = resources.launch_template(
            region, form.get("LaunchTemplateId", ""), form.get("LaunchTemplateName", "")
        )
        if template is not None:
            yield _ec2_request(action, region, template)
    elif action in ("CreateTags", "DeleteTags"):
        for resource in (resources.ec2_resource(region, name) for name in _listed(form, "ResourceId")):
            yield _ec2_request(action, region, resource, _tags(form, "Tag"))
    elif action == "GetConsoleOutput" and form.get("InstanceId"):
        yield _ec2_request(action, region, resources.ec2_resource(region, form["InstanceId"]))
    elif action in ON_INSTANCES:
        for resource in (resources.ec2_resource(region, name) for name in _listed(form, "InstanceId")):
            yield _ec2_request(action, region, resource)
    else:
        yield _request(call, "*")


def _direct_launch(call: Call) -> Launch:
    form, region = call.parameters, call.region
    template = resources.launch_template(
        region, form.get("LaunchTemplate.LaunchTemplateId", ""), form.get("LaunchTemplate.LaunchTemplateName", "")
    )
    profile = {
        name: form[f"IamInstanceProfile.{name}"] for name in ("Name", "Arn") if f"IamInstanceProfile.{name}" in form
    }
    return Launch(
        region=region,
        image=form.get("ImageId", ""),
        subnet=form.get("SubnetId", ""),
        security_groups=tuple(_listed(form, "SecurityGroupId")),
        instance_type=form.get("InstanceType", ""),
        template=template.arn.rpartition("/")[2] if template else "",
        profile=profile,
        tags=specified_tags(form),
        spot=form.get("InstanceMarketOptions.MarketType") == "spot",
        placement_group=form.get("Placement.GroupId", ""),
        reservation=form.get("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId", ""),
    )


def _tagging_at_creation(action: str, region: str, tags: Mapping[str, Mapping[str, str]]) -> Iterator[Request]:
    """The right to tag what a call creates. EC2 judges it as CreateTags, with the call's name in ec2:CreateAction."""
    for kind, values in tags.items():
        if values:
            new = resources.new(region, kind)
            yield _ec2_request("CreateTags", region, new, values, {"ec2:CreateAction": action})


def _passing(role: str) -> Request:
    """The right to give a role to instances."""
    keys = context({"iam:PassedToService": EC2_SERVICE, "aws:RequestedRegion": GLOBAL_REGION})
    return Request("iam:PassRole", role, keys)


def _iam(call: Call) -> Iterator[Request]:
    form, name = call.parameters, call.parameters.get("InstanceProfileName", "")
    if call.action == "ListInstanceProfiles":
        yield _request(call, f"arn:{PARTITION}:iam::{ACCOUNT}:instance-profile{form.get('PathPrefix', '/')}")
        return
    if not name:
        role = form.get("RoleName", "")
        yield _request(call, resources.role(role) or f"arn:{PARTITION}:iam::{ACCOUNT}:role/{role}" if role else "*")
        return
    tags = _tags(form, "Tags.member")
    profile = resources.instance_profile(name, form.get("Path", ""))
    owned = {} if call.action == "CreateInstanceProfile" else profile.tags
    keys = [*_tag_keys(tags), tags_context("aws:ResourceTag", owned), tags_context("iam:ResourceTag", owned)]
    yield _request(call, profile.arn, *keys)
    if call.action == "CreateInstanceProfile" and tags:
        yield Request("iam:TagInstanceProfile", profile.arn, context(*keys, _common(call.region)))
    if call.action == "AddRoleToInstanceProfile" and (role := resources.role(form.get("RoleName", ""))):
        yield _passing(role)


def _ssm(call: Call) -> Iterator[Request]:
    json = _json(call.body)
    names = json.get("Names") or [json[key] for key in ("Name", "Path") if json.get(key)]
    for name in names:
        # Parameters of AWS belong to no account. A version or a label is no part of the ARN.
        text = str(name)
        if text.startswith("arn:"):
            yield _request(call, text)
            continue
        plain = text.partition(":")[0].lstrip("/")
        account = "" if plain.startswith("aws/") else ACCOUNT
        yield _request(call, f"arn:{PARTITION}:ssm:{call.region}:{account}:parameter/{plain}")
    if not names:
        yield _request(call, "*")


def _sqs(call: Call) -> Iterator[Request]:
    json = _json(call.body) or dict(call.parameters)
    name = str(json.get("QueueName") or str(json.get("QueueUrl") or "").rpartition("/")[2])
    # A batch call has no right of its own.
    action = call.action.removesuffix("Batch")
    arn = f"arn:{PARTITION}:sqs:{call.region}:{ACCOUNT}:{name}" if name else "*"
    yield Request(f"sqs:{action}", arn, _common(call.region))


def _request(call: Call, resource: str, *keys: Mapping[str, tuple[str, ...]]) -> Request:
    return Request(f"{call.service}:{call.action}", resource, context(*keys, _common(call.region)))


def _ec2_request(
    action: str,
    region: str,
    resource: resources.Resource,
    requested: Mapping[str, str] | None = None,
    more: Mapping[str, str] | None = None,
) -> Request:
    owned = (tags_context("aws:ResourceTag", resource.tags), tags_context("ec2:ResourceTag", resource.tags))
    keys = context(*_tag_keys(requested or {}), *owned, {"ec2:Region": region}, more or {}, _common(region))
    return Request(f"ec2:{action}", resource.arn, keys, resource.exists)


def _common(region: str) -> dict[str, tuple[str, ...]]:
    return {"aws:requestedregion": (region,), "aws:principalaccount": (ACCOUNT,)}


def _tag_keys(tags: Mapping[str, str]) -> tuple[dict[str, tuple[str, ...]], ...]:
    """The condition keys of the tags in a request."""
    return tags_context("aws:RequestTag", tags), {"aws:tagkeys": tuple(tags)}


def _prefixes(form: Mapping[str, str], name: str) -> list[str]:
    """The prefixes of a list's members, such as ``TagSpecification.1``."""
    start = re.compile(rf"{re.escape(name)}\.\d+(?=\.)")
    return list(dict.fromkeys(match[0] for item in form if (match := start.match(item))))


def _listed(form: Mapping[str, str], name: str) -> list[str]:
    """The values of a list, such as those of ``InstanceId.1`` and ``InstanceId.2``."""
    member = re.compile(rf"{re.escape(name)}\.\d+")
    return [value for key, value in form.items() if member.fullmatch(key)]


def _tags(form: Mapping[str, str], name: str) -> dict[str, str]:
    return {
        form[f"{name}.Key"]: form.get(f"{name}.Value", "") for name in _prefixes(form, name) if f"{name}.Key" in form
    }


def _json(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body or b"{}")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
