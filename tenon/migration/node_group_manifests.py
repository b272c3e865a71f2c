"""A node group of Cluster Autoscaler as a NodePool and an EC2NodeClass.

What has no counterpart becomes a note: an incomplete manifest is better than one that silently means something else.
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
from tenon.ec2.families import FAMILIES
from tenon.ec2.families.al2023 import AL2023

DROPPED_LABELS = re.compile(r"^(eks\.amazonaws\.com|alpha\.eksctl\.io)/|^(beta\.)?kubernetes\.io/(arch|os)$")
"""Labels that EKS or eksctl sets on the nodes of a group, or that each node has by itself."""
DROPPED_TAGS = re.compile(
    r"^(aws:|eks:|k8s\.io/cluster-autoscaler|kubernetes\.io/cluster/|alpha\.eksctl\.io/|eksctl\.)"
)
UNNEEDED_AFTER = "10m"
"""How long a node is not needed before Cluster Autoscaler removes it, by default."""
LINUX_ROLE, WINDOWS_ROLE = "KarpenterNodeRole", "WindowsNodeRole"
"""Before the cluster's name: the roles of nodes that deploy/aws creates, and the only ones that the worker may pass."""
PASS_ROLE = "statement PassNodeRole of deploy/iam/controller-policy.json"
UNNAMABLE = re.compile(r"[^a-z0-9-]+")


@dataclass(frozen=True, slots=True)
class Account:
    """What is known around the groups."""

    cluster: str = ""
    security_group: str = ""
    """The cluster's security group, which EKS gives to managed nodes; empty if no one said."""
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
class NodeGroup:
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


def manifests_of(group: NodeGroup, account: Account) -> ConvertedGroup:
    """Return a group as a NodePool and an EC2NodeClass."""
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


def _class_spec(group: NodeGroup, account: Account) -> JsonObject:
    template, notes = group.template, group.notes
    spec: JsonObject = {}
    if group.role and not template.get("IamInstanceProfile"):
        spec["role"] = group.role
        _note_role(group, account)
    elif template.get("IamInstanceProfile"):
        profile = template["IamInstanceProfile"]
        name = str(profile.get("Name") or str(profile.get("Arn") or "").rpartition("/")[2])
        spec["instanceProfile"] = name
        notes.append(
            f"the role of instance profile {name} is not known: if it is not {_shipped_role(group, account)}, let the "
            f"worker pass it: {PASS_ROLE}"
        )
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


def _note_role(group: NodeGroup, account: Account) -> None:
    if group.role not in (f"{prefix}-{account.cluster}" for prefix in (LINUX_ROLE, WINDOWS_ROLE)):
        group.notes.append(
            f"the policy that comes with Tenon does not let the worker pass the role {group.role}: use the role "
            f"{_shipped_role(group, account)}, or let the worker pass this one: {PASS_ROLE}"
        )


def _shipped_role(group: NodeGroup, account: Account) -> str:
    prefix = WINDOWS_ROLE if group.family.startswith("Windows") else LINUX_ROLE
    return f"{prefix}-{account.cluster or 'CLUSTER'}"


def _security_groups(group: NodeGroup, account: Account) -> list[JsonObject]:
    interfaces = group.template.get("NetworkInterfaces") or [{}]
    ids = list(group.template.get("SecurityGroupIds") or interfaces[0].get("Groups") or group.security_groups)
    if ids:
        return [{"id": str(group_id)} for group_id in ids]
    group.notes.append("the security groups are not known: EKS tags the cluster's own, which managed nodes get")
    return [{"tags": {"aws:eks:cluster-name": account.cluster or "CLUSTER"}}]


def _launch_settings(group: NodeGroup) -> JsonObject:
    """Disks, user data, metadata options and monitoring, from the launch template or the group."""
    template = group.template
    spec: JsonObject = {}
    disks = [_disk(mapping) for mapping in template.get("BlockDeviceMappings") or () if mapping.get("Ebs")]
    if not disks and group.disk_gib:
        disks = [
            {
                "deviceName": _data_device(group.family),
                "ebs": {"volumeSize": f"{group.disk_gib}Gi", "volumeType": "gp3"},
            }
        ]
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


def _data_device(family_name: str) -> str:
    """The device that a group's disk size is about. That of an AMI of the user's own is a guess."""
    devices: dict[str, str] = {family.name: family.ephemeral_device for family in FAMILIES.values()}
    return devices.get(family_name) or AL2023.ephemeral_device


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


def _pool_spec(group: NodeGroup, name: str) -> JsonObject:
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


def _labels(group: NodeGroup) -> dict[str, str]:
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
