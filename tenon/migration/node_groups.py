"""Reads node groups of Cluster Autoscaler: managed node groups of EKS and Auto Scaling groups, as AWS describes them.

The AWS CLI and boto3 describe them alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tenon.apis import labels
from tenon.apis.json_object import JsonObject
from tenon.migration.node_group_manifests import Account, ConvertedGroup, NodeGroup, manifests_of

EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
"""EKS' names of the effects of taints."""
TEMPLATE_LABEL = "k8s.io/cluster-autoscaler/node-template/label/"
TEMPLATE_TAINT = "k8s.io/cluster-autoscaler/node-template/taint/"
"""Tags of Auto Scaling groups from which Cluster Autoscaler learns what their nodes have."""
DATED = re.compile(r"^\d+\.\d+(?:\.\d+)?-(\d{8})$")
BOTTLEROCKET_RELEASE = re.compile(r"^v?(\d+\.\d+\.\d+)(?:-[0-9a-f]+)?$")


def template_key(reference: Mapping[str, Any]) -> list[str]:
    """Keys of a launch template and version, of EKS' or Auto Scaling's form of naming it."""
    version = str(reference.get("version") or reference.get("Version") or "$Default")
    names = (reference.get(key) for key in ("id", "LaunchTemplateId", "name", "LaunchTemplateName"))
    return [f"{name}:{version}" for name in names if name]


def of_managed(group: Mapping[str, Any], account: Account) -> ConvertedGroup:
    """Convert a managed node group, as ``eks describe-nodegroup`` has it in ``nodegroup``."""
    scaling = group.get("scalingConfig") or {}
    notes: list[str] = []
    ami_type = str(group.get("amiType") or "")
    family, architecture = family_of(ami_type)
    template = _template(group.get("launchTemplate") or {}, account, notes)
    capacity = str(group.get("capacityType") or "ON_DEMAND")
    if capacity == "CAPACITY_BLOCK":
        notes.append("capacity blocks: select the reservation in capacityReservationSelectorTerms of the EC2NodeClass")
    # EKS takes types from one of the two, and may repeat its default if the template has one.
    types = _types_of(template) or list(group.get("instanceTypes") or [])
    node_group = NodeGroup(
        name=str(group.get("nodegroupName") or ""),
        minimum=int(scaling.get("minSize") or 0),
        maximum=int(scaling.get("maxSize") or 0),
        subnets=[str(subnet) for subnet in group.get("subnets") or ()],
        types=types or ["t3.medium"],
        labels={str(key): str(value) for key, value in (group.get("labels") or {}).items()},
        taints=[
            _taint(
                str(taint["key"]), str(taint.get("value") or ""), EFFECTS.get(str(taint.get("effect")), "NoSchedule")
            )
            for taint in group.get("taints") or ()
        ],
        tags={str(key): str(value) for key, value in (group.get("tags") or {}).items()},
        capacity_types=[{"SPOT": labels.SPOT, "CAPACITY_BLOCK": labels.RESERVED}.get(capacity, labels.ON_DEMAND)],
        family=family,
        alias=_alias(family, str(group.get("releaseVersion") or ""), notes),
        architecture=architecture,
        role=str(group.get("nodeRole") or "").rpartition("/")[2],
        disk_gib=int(group.get("diskSize") or 0),
        security_groups=[account.security_group] if account.security_group else [],
        template=template,
        notes=notes,
    )
    if not types:
        notes.append("the group names no instance type, so EKS uses t3.medium")
    remote = group.get("remoteAccess") or {}
    if remote.get("ec2SshKey"):
        notes.append(f"SSH key {remote['ec2SshKey']}: no field for it; use SSM, or add the key in userData")
    return manifests_of(node_group, account)


def of_auto_scaling(group: Mapping[str, Any], account: Account) -> ConvertedGroup:
    """Convert an Auto Scaling group, as ``autoscaling describe-auto-scaling-groups`` has it."""
    notes: list[str] = []
    policy = group.get("MixedInstancesPolicy") or {}
    specification = (policy.get("LaunchTemplate") or {}).get("LaunchTemplateSpecification")
    template = _template(specification or group.get("LaunchTemplate") or {}, account, notes)
    overrides = (policy.get("LaunchTemplate") or {}).get("Overrides") or []
    types = [str(item["InstanceType"]) for item in overrides if item.get("InstanceType")] or _types_of(template)
    if any(item.get("InstanceRequirements") for item in overrides):
        notes.append("attribute-based selection of instance types: write it as requirements of the NodePool")
    distribution = policy.get("InstancesDistribution") or {}
    tags = {str(tag["Key"]): str(tag.get("Value") or "") for tag in group.get("Tags") or ()}
    node_group = NodeGroup(
        name=str(group.get("AutoScalingGroupName") or ""),
        minimum=int(group.get("MinSize") or 0),
        maximum=int(group.get("MaxSize") or 0),
        subnets=[subnet for subnet in str(group.get("VPCZoneIdentifier") or "").split(",") if subnet],
        types=types,
        labels={key.removeprefix(TEMPLATE_LABEL): text for key, text in tags.items() if key.startswith(TEMPLATE_LABEL)},
        taints=[
            _taint(key.removeprefix(TEMPLATE_TAINT), *_value_and_effect(text))
            for key, text in tags.items()
            if key.startswith(TEMPLATE_TAINT)
        ],
        tags=tags,
        capacity_types=_capacity_types(template, distribution, notes),
        role=str((template.get("IamInstanceProfile") or {}).get("Name") or ""),
        template=template,
        notes=notes,
    )
    if group.get("LaunchConfigurationName"):
        notes.append(f"launch configuration {group['LaunchConfigurationName']}: not read; add AMI, disks and user data")
    if not types:
        notes.append("no instance type is known: any type may be launched until you add a requirement")
    return manifests_of(node_group, account)


def family_of(ami_type: str) -> tuple[str, str]:
    """Return the AMI family and the architecture of an EKS AMI type, such as ``AL2023_ARM_64_STANDARD``."""
    architecture = "arm64" if "ARM_64" in ami_type else "amd64" if ami_type and ami_type != "CUSTOM" else ""
    if ami_type.startswith("WINDOWS_"):
        years = re.findall(r"20\d\d", ami_type)
        return f"Windows{years[0] if years else '2022'}", "amd64"
    for prefix, family in (("AL2023", "AL2023"), ("AL2", "AL2"), ("BOTTLEROCKET", "Bottlerocket")):
        if ami_type.startswith(prefix):
            return family, architecture
    return "", architecture


def _alias(family: str, release: str, notes: list[str]) -> str:
    """The AMI alias of a group's release, so that no node drifts only because of the move."""
    if not family or family.startswith("Windows"):
        return f"{family.lower()}@latest" if family else ""
    dated, bottlerocket = DATED.match(release), BOTTLEROCKET_RELEASE.match(release)
    if family == "Bottlerocket" and bottlerocket:
        return f"bottlerocket@v{bottlerocket[1]}"
    if family != "Bottlerocket" and dated:
        return f"{family.lower()}@v{dated[1]}"
    notes.append(
        f"the release {release or 'of the AMI'} is no version of an alias: nodes get the newest AMI, and drift"
    )
    return f"{family.lower()}@latest"


def _template(reference: Mapping[str, Any], account: Account, notes: list[str]) -> JsonObject:
    if not reference:
        return {}
    for key in template_key(reference):
        if key in account.templates:
            return dict(account.templates[key])
    template_name = reference.get("name") or reference.get("LaunchTemplateName") or reference.get("id") or "?"
    notes.append(
        f"launch template {template_name} was not read: add AMI, disks, security groups and user data, or pass the "
        "output of aws ec2 describe-launch-template-versions too"
    )
    return {}


def _types_of(template: Mapping[str, Any]) -> list[str]:
    return [str(template["InstanceType"])] if template.get("InstanceType") else []


def _capacity_types(template: Mapping[str, Any], distribution: Mapping[str, Any], notes: list[str]) -> list[str]:
    if (template.get("InstanceMarketOptions") or {}).get("MarketType") == "spot":
        return [labels.SPOT]
    share = distribution.get("OnDemandPercentageAboveBaseCapacity")
    if share is None or int(share) >= 100:
        return [labels.ON_DEMAND]
    base = int(distribution.get("OnDemandBaseCapacity") or 0)
    if int(share) == 0 and not base:
        return [labels.SPOT]
    notes.append(
        f"{base} on-demand nodes and {share} % of the others: a NodePool has no such shares; it takes spot while there "
        "is capacity. Make two NodePools with limits for fixed shares"
    )
    return [labels.SPOT, labels.ON_DEMAND]


def _value_and_effect(text: str) -> tuple[str, str]:
    value, _, effect = text.rpartition(":")
    return value, effect


def _taint(key: str, value: str, effect: str) -> dict[str, str]:
    return {"key": key, **({"value": value} if value else {}), "effect": effect}
