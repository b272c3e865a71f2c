"""Node groups of Cluster Autoscaler, as NodePools and EC2NodeClasses: what AWS describes, and what becomes of it.

A node group is a managed node group of EKS or an Auto Scaling group, as the AWS CLI and boto3 describe it. What has no
counterpart becomes a note, because a manifest that silently means something else is worse than an incomplete one.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenon.apis import labels
from tenon.apis.json_object import JsonObject
from tenon.apis.restricted import restricted_reason

EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
"""EKS' names of the effects of taints."""
TEMPLATE_LABEL = "k8s.io/cluster-autoscaler/node-template/label/"
TEMPLATE_TAINT = "k8s.io/cluster-autoscaler/node-template/taint/"
"""Tags of Auto Scaling groups from which Cluster Autoscaler learns what their nodes have."""
DROPPED_LABELS = re.compile(r"^(eks\.amazonaws\.com|alpha\.eksctl\.io)/|^(beta\.)?kubernetes\.io/(arch|os)$")
"""Labels that EKS or eksctl sets on the nodes of a group, or that each node has by itself."""
DROPPED_TAGS = re.compile(
    r"^(aws:|eks:|k8s\.io/cluster-autoscaler|kubernetes\.io/cluster/|alpha\.eksctl\.io/|eksctl\.)"
)
UNNEEDED_AFTER = "10m"
"""How long a node is not needed before Cluster Autoscaler removes it, by default."""
ROOT_DEVICE = {"AL2": "/dev/xvda", "AL2023": "/dev/xvda", "Bottlerocket": "/dev/xvdb", "Windows": "/dev/sda1"}
"""The device that a group's disk size is about. Bottlerocket keeps its data on its second one."""
DATED = re.compile(r"^\d+\.\d+(?:\.\d+)?-(\d{8})$")
BOTTLEROCKET_RELEASE = re.compile(r"^v?(\d+\.\d+\.\d+)(?:-[0-9a-f]+)?$")
UNNAMABLE = re.compile(r"[^a-z0-9-]+")


@dataclass(frozen=True, slots=True)
class Account:
    """What is known around the groups."""

    cluster: str = ""
    security_group: str = ""
    """The cluster's security group, which EKS gives to managed nodes; empty if nobody said."""
    templates: Mapping[str, JsonObject] = field(default_factory=dict)
    """LaunchTemplateData by ``id:version`` and by ``name:version``, as `template_key` makes it."""


@dataclass(frozen=True, slots=True)
class ConvertedGroup:
    """One node group as manifests."""

    name: str
    node_class: JsonObject
    node_pool: JsonObject
    notes: Sequence[str]
    """What a person must know or add, a sentence each."""


@dataclass(slots=True)
class _Group:
    """What both kinds of groups say, in one form."""

    name: str
    minimum: int
    maximum: int
    subnets: list[str]
    types: list[str]
    labels: dict[str, str]
    taints: list[dict[str, str]]
    tags: dict[str, str]
    capacity_types: list[str]
    family: str = ""
    alias: str = ""
    architecture: str = ""
    role: str = ""
    disk_gib: int = 0
    security_groups: list[str] = field(default_factory=list)
    template: JsonObject = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


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
    converted = _Group(
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
    return _converted(converted, account)


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
    converted = _Group(
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
    return _converted(converted, account)


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


def _converted(group: _Group, account: Account) -> ConvertedGroup:
    name = object_name(group.name)
    node_class = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name},
        "spec": _class_spec(group, account),
    }
    node_pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": _pool_spec(group, name),
    }
    return ConvertedGroup(group.name, node_class, node_pool, tuple(dict.fromkeys(group.notes)))


def object_name(name: str) -> str:
    """A name that Kubernetes accepts for the objects of a group."""
    return UNNAMABLE.sub("-", name.lower()).strip("-")[:63].strip("-") or "node-group"


def _class_spec(group: _Group, account: Account) -> JsonObject:
    template, notes = group.template, group.notes
    spec: JsonObject = {}
    if group.role and not template.get("IamInstanceProfile"):
        spec["role"] = group.role
    elif template.get("IamInstanceProfile"):
        profile = template["IamInstanceProfile"]
        spec["instanceProfile"] = str(profile.get("Name") or str(profile.get("Arn") or "").rpartition("/")[2])
    else:
        spec["role"] = "ROLE"
        notes.append("the role of the nodes is not known: replace ROLE")
    image = str(template.get("ImageId") or "")
    if image and not image.startswith("resolve:"):
        spec["amiFamily"] = group.family or "Custom"
        spec["amiSelectorTerms"] = [{"id": image}]
        if not group.family:
            notes.append("an AMI of your own: its user data must join the node to the cluster (amiFamily Custom)")
    elif group.alias:
        spec["amiSelectorTerms"] = [{"alias": group.alias}]
    else:
        spec["amiSelectorTerms"] = [{"alias": "al2023@latest"}]
        notes.append("the AMI is not known: al2023@latest is a guess")
    spec["subnetSelectorTerms"] = [{"id": subnet} for subnet in group.subnets] or [
        {"tags": {"karpenter.sh/discovery": account.cluster or "CLUSTER"}}
    ]
    if not group.subnets:
        notes.append("the subnets are not known: they are selected by the tag karpenter.sh/discovery")
    spec["securityGroupSelectorTerms"] = _security_groups(group, account)
    spec |= _launch_settings(group)
    tags = {key: text for key, text in group.tags.items() if not DROPPED_TAGS.match(key)}
    if tags:
        spec["tags"] = tags
    return spec


def _security_groups(group: _Group, account: Account) -> list[JsonObject]:
    interfaces = group.template.get("NetworkInterfaces") or [{}]
    ids = list(group.template.get("SecurityGroupIds") or interfaces[0].get("Groups") or group.security_groups)
    if ids:
        return [{"id": str(group_id)} for group_id in ids]
    group.notes.append("the security groups are not known: EKS tags the cluster's own, which managed nodes get")
    return [{"tags": {"aws:eks:cluster-name": account.cluster or "CLUSTER"}}]


def _launch_settings(group: _Group) -> JsonObject:
    """Disks, user data, metadata options and monitoring, from the launch template or the group."""
    template = group.template
    spec: JsonObject = {}
    disks = [_disk(mapping) for mapping in template.get("BlockDeviceMappings") or () if mapping.get("Ebs")]
    if not disks and group.disk_gib:
        device = ROOT_DEVICE.get("Windows" if group.family.startswith("Windows") else group.family, "/dev/xvda")
        disks = [{"deviceName": device, "ebs": {"volumeSize": f"{group.disk_gib}Gi", "volumeType": "gp3"}}]
    if disks:
        spec["blockDeviceMappings"] = disks
    if template.get("UserData"):
        try:
            spec["userData"] = base64.b64decode(str(template["UserData"]), validate=True).decode()
        except (binascii.Error, ValueError):
            group.notes.append("the user data of the launch template is no text: add it yourself")
        if "bootstrap.sh" in spec.get("userData", "") or "node.eks.aws" in spec.get("userData", ""):
            group.notes.append(
                "the user data joins the node itself: Tenon adds its own bootstrap unless amiFamily is Custom"
            )
    names = {
        "HttpEndpoint": "httpEndpoint",
        "HttpProtocolIpv6": "httpProtocolIPv6",
        "HttpPutResponseHopLimit": "httpPutResponseHopLimit",
        "HttpTokens": "httpTokens",
    }
    options = template.get("MetadataOptions") or {}
    if metadata := {ours: options[theirs] for theirs, ours in names.items() if theirs in options}:
        spec["metadataOptions"] = metadata
    if (template.get("Monitoring") or {}).get("Enabled"):
        spec["detailedMonitoring"] = True
    interfaces = template.get("NetworkInterfaces") or [{}]
    if "AssociatePublicIpAddress" in interfaces[0]:
        spec["associatePublicIPAddress"] = bool(interfaces[0]["AssociatePublicIpAddress"])
    if template.get("KeyName"):
        group.notes.append(f"SSH key {template['KeyName']}: no field for it; use SSM, or add the key in userData")
    return spec


def _disk(mapping: Mapping[str, Any]) -> JsonObject:
    disk = mapping["Ebs"]
    ebs: JsonObject = {}
    if disk.get("VolumeSize"):
        ebs["volumeSize"] = f"{disk['VolumeSize']}Gi"
    names = {
        "VolumeType": "volumeType",
        "Iops": "iops",
        "Throughput": "throughput",
        "Encrypted": "encrypted",
        "KmsKeyId": "kmsKeyID",
        "SnapshotId": "snapshotID",
        "DeleteOnTermination": "deleteOnTermination",
    }
    ebs |= {ours: disk[theirs] for theirs, ours in names.items() if disk.get(theirs) is not None}
    return {"deviceName": str(mapping["DeviceName"]), "ebs": ebs}


def _pool_spec(group: _Group, name: str) -> JsonObject:
    template: JsonObject = {}
    if own := _labels(group):
        template["metadata"] = {"labels": own}
    requirements: list[JsonObject] = []
    if group.architecture:
        requirements.append(_in(labels.ARCH, [group.architecture]))
    if group.family.startswith("Windows"):
        requirements.append(_in(labels.OS, ["windows"]))
    requirements.append(_in(labels.CAPACITY_TYPE, group.capacity_types))
    if group.types:
        requirements.append(_in(labels.INSTANCE_TYPE, sorted(set(group.types))))
    reference = {"group": labels.AWS_GROUP, "kind": "EC2NodeClass", "name": name}
    template["spec"] = {
        "nodeClassRef": reference,
        "requirements": requirements,
        **({"taints": group.taints} if group.taints else {}),
        "expireAfter": "Never",
    }
    group.notes.append("expireAfter Never, because nodes of a group do not expire: 720h keeps them fresh")
    spec: JsonObject = {}
    is_static = group.minimum == group.maximum > 0
    if is_static:
        spec["replicas"] = group.minimum
        group.notes.append(
            f"minimum and maximum are {group.minimum}, so it is a static NodePool: it needs the gate StaticCapacity"
        )
    elif group.minimum:
        group.notes.append(
            f"the minimum of {group.minimum} has no counterpart: a NodePool has nodes only for pods. Add a static "
            f"NodePool with replicas: {group.minimum}, or a CapacityBuffer, if nodes must wait for pods"
        )
    spec["template"] = template
    if group.maximum:
        spec["limits"] = {"nodes": str(group.maximum)}
    if not is_static:
        spec["disruption"] = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": UNNEEDED_AFTER}
    return spec


def _labels(group: _Group) -> dict[str, str]:
    own = {}
    for key, text in sorted(group.labels.items()):
        if DROPPED_LABELS.match(key):
            continue
        if reason := restricted_reason(key):
            group.notes.append(f"left out: {reason}")
            continue
        own[key] = text
    return own


def _in(key: str, values: Iterable[str]) -> JsonObject:
    return {"key": key, "operator": "In", "values": list(values)}
