"""DescribeInstances: the response for an instance, and the filters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import groupby
from typing import Any

from moto.ec2.exceptions import EC2ClientError

from sandbox.ec2 import catalogue
from sandbox.ec2.instances import InstanceBook, Machine

Filters = Mapping[str, Iterable[str]]


def _tags(machine: Machine) -> dict[str, str]:
    tag: dict[str, str] = machine.instance.ec2_backend.tags.get(machine.id) or {}
    return tag if machine.tags_shown else {}


def _profile_arn(machine: Machine) -> str:
    profile = machine.instance.iam_instance_profile
    return str(profile.arn) if profile is not None else ""


FILTERS: dict[str, Callable[[Machine], Iterable[str]]] = {
    "architecture": lambda m: [m.instance.architecture],
    "availability-zone": lambda m: [m.pool[1]],
    "client-token": lambda m: [m.instance.client_token or ""],
    "iam-instance-profile.arn": lambda m: [_profile_arn(m)],
    "image-id": lambda m: [m.instance.image_id],
    "instance-id": lambda m: [m.id],
    "instance-lifecycle": lambda m: [m.instance.lifecycle or ""],
    "instance-state-code": lambda m: [str(m.instance._state.code)],
    "instance-state-name": lambda m: [m.state],
    "instance-type": lambda m: [m.instance.instance_type],
    "instance.group-id": lambda m: [group.id for group in m.instance.security_groups],
    "owner-id": lambda m: [m.instance.owner_id],
    "private-dns-name": lambda m: [m.instance.private_dns_name],
    "private-ip-address": lambda m: [m.instance.private_ip],
    "reservation-id": lambda m: [m.reservation_id],
    "spot-instance-request-id": lambda m: [m.spot_request_id],
    "subnet-id": lambda m: [m.instance.subnet_id],
    "tag-key": lambda m: _tags(m).keys(),
    "tag-value": lambda m: _tags(m).values(),
    "vpc-id": lambda m: [m.instance.vpc_id or ""],
}


@lru_cache(maxsize=4096)
def pattern(text: str) -> re.Pattern[str]:
    """Compile EC2's wildcards: ``*`` matches any characters, ``?`` matches one, a backslash escapes the next
    character.
    """
    parts = []
    for piece in re.findall(r"\\.|.", text, re.DOTALL):
        match piece:
            case "*":
                parts.append(".*")
            case "?":
                parts.append(".")
            case _:
                parts.append(re.escape(piece[1:] if len(piece) == 2 else piece))
    return re.compile("".join(parts), re.DOTALL)


def _fitting(names: list[str]) -> Callable[[list[str]], bool]:
    """A test whether one of an instance's values is wanted. Plain values, of which there may be hundreds, use a set
    lookup.
    """
    plain = {want for want in names if not set(want) & set("*?\\")}
    patterns = [pattern(want) for want in names if want not in plain]

    def fits(values: list[str]) -> bool:
        return any(value in plain or any(pattern.fullmatch(value) for pattern in patterns) for value in values)

    return fits


def select(machines: Iterable[Machine], filters: Filters) -> list[Machine]:
    """The instances that match every filter.

    Raises:
        EC2ClientError: InvalidParameterValue for a filter that EC2 (or this sandbox) does not have.
    """
    ms = list(machines)
    for name, values in filters.items():
        fits = _fitting([str(value) for value in values])
        if name.startswith("tag:"):
            key = name[4:]
            ms = [m for m in ms if key in _tags(m) and fits([_tags(m)[key]])]
        elif name in FILTERS:
            read = FILTERS[name]
            ms = [m for m in ms if fits([str(value) for value in read(m)])]
        else:
            raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return ms


def reservations(machines: list[Machine]) -> list[dict[str, Any]]:
    """Instances grouped by the call that launched them, in EC2's response format."""
    return [
        {
            "ReservationId": reservation_id,
            "OwnerId": (group := list(members))[0].instance.owner_id,
            "Groups": [],
            "Instances": [instance(machine) for machine in group],
        }
        for reservation_id, members in groupby(machines, key=lambda machine: machine.reservation_id)
    ]


def instance(machine: Machine) -> dict[str, Any]:
    """One instance in the format of DescribeInstances."""
    if not machine.fixed:
        machine.fixed = _fixed(machine)
    instance = machine.instance
    answer = {
        **machine.fixed,
        "State": {"Code": instance._state.code, "Name": instance._state.name},
        "Tags": [{"Key": key, "Value": value} for key, value in _tags(machine).items()],
        "StateTransitionReason": instance._reason,
    }
    if machine.state == "terminated":
        for name in ("PrivateIpAddress", "SubnetId", "VpcId"):
            answer.pop(name, None)
        answer |= {"PrivateDnsName": "", "NetworkInterfaces": [], "SecurityGroups": [], "BlockDeviceMappings": []}
        answer["StateReason"] = {"Code": instance.state_reason.code, "Message": instance.state_reason.message}
    if machine.reason is not None:
        code, message = machine.reason
        answer["StateReason"] = {"Code": code, "Message": f"{code}: {message}"}
    return answer


def _fixed(machine: Machine) -> dict[str, Any]:
    instance = machine.instance
    kind = catalogue.describe_type(instance.instance_type) or {}
    groups = [{"GroupId": group.id, "GroupName": group.name} for group in instance.security_groups]
    cpu = kind.get("VCpuInfo", {})
    answer = {
        "InstanceId": instance.id,
        "ImageId": instance.image_id,
        "InstanceType": instance.instance_type,
        "LaunchTime": instance.launch_time,
        "AmiLaunchIndex": instance.ami_launch_index,
        "Placement": {
            "AvailabilityZone": machine.pool[1],
            "GroupName": machine.placement_group_name,
            "Tenancy": machine.tenancy,
            **({"GroupId": machine.placement_group_id} if machine.placement_group_id else {}),
            **({"PartitionNumber": machine.partition} if machine.partition else {}),
        },
        "PrivateDnsName": instance.private_dns_name,
        "PrivateIpAddress": instance.private_ip,
        "PublicDnsName": instance.public_dns_name or "",
        "PublicIpAddress": instance.public_ip,
        "SubnetId": instance.subnet_id,
        "VpcId": instance.vpc_id,
        "Architecture": instance.architecture,
        "BlockDeviceMappings": [_volume(name, device) for name, device in instance.get_block_device_mapping],
        "ClientToken": instance.client_token or "",
        "EbsOptimized": bool(instance.ebs_optimized),
        "EnaSupport": True,
        "Hypervisor": "xen",  # EC2 reports xen for Nitro too
        "KeyName": instance.key_name,
        "Monitoring": {"State": instance.monitoring_state},
        "NetworkInterfaces": [_interface(nic, groups) for nic in instance.nics.values()],
        "RootDeviceName": instance.root_device_name,
        "RootDeviceType": "ebs",
        "SecurityGroups": groups,
        "SourceDestCheck": True,
        "VirtualizationType": "hvm",
        "CpuOptions": {"CoreCount": cpu.get("DefaultCores"), "ThreadsPerCore": cpu.get("DefaultThreadsPerCore")},
        "MetadataOptions": _metadata(instance.metadata_options),
        "PlatformDetails": "Linux/UNIX",
        "UsageOperation": "RunInstances",
    }
    if instance.iam_instance_profile is not None:
        answer["IamInstanceProfile"] = {
            "Arn": instance.iam_instance_profile.arn,
            "Id": instance.iam_instance_profile.id,
        }
    answer["CapacityReservationSpecification"] = dict(machine.reservation_specification)
    if machine.capacity_reservation_id:
        answer["CapacityReservationId"] = machine.capacity_reservation_id
    if machine.lifecycle:
        answer["InstanceLifecycle"] = machine.lifecycle
    if instance.lifecycle:
        answer |= {"InstanceLifecycle": instance.lifecycle, "SpotInstanceRequestId": machine.spot_request_id}
    return answer


def _volume(name: str, device: Any) -> dict[str, Any]:
    ebs = {"VolumeId": device.volume_id, "Status": "attached", "DeleteOnTermination": device.delete_on_termination}
    return {"DeviceName": name, "Ebs": {**ebs, "AttachTime": device.attach_time}}


def _interface(nic: Any, groups: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "NetworkInterfaceId": nic.id,
        "SubnetId": nic.subnet.id,
        "VpcId": nic.subnet.vpc_id,
        "PrivateIpAddress": nic.private_ip_address,
        "Status": "in-use",
        "Groups": groups,
        "InterfaceType": nic.interface_type,
        "MacAddress": nic.mac_address,
        "Attachment": {
            "AttachmentId": nic.attachment_id,
            "AttachTime": nic.attach_time,
            "DeleteOnTermination": bool(nic.delete_on_termination),
            "DeviceIndex": nic.device_index,
            "NetworkCardIndex": 0,
            "Status": "attached",
        },
    }


def _metadata(options: Any) -> dict[str, Any]:
    return {
        "State": options.state,
        "HttpTokens": options.http_tokens,
        "HttpPutResponseHopLimit": options.http_put_response_hop_limit,
        "HttpEndpoint": options.http_endpoint,
        "HttpProtocolIpv6": options.http_protocol_ipv6,
        "InstanceMetadataTags": options.instance_metadata_tags,
    }


def page(machines: list[Machine], start: int, size: int) -> tuple[list[Machine], int | None]:
    """One page of instances in launch order, and where the next page starts.

    Positions are launch numbers, so that instances that appear or disappear between pages neither repeat nor hide
    others.
    """
    rest = sorted((m for m in machines if m.sequence > start), key=lambda m: m.sequence)
    selection = rest[:size]
    return selection, selection[-1].sequence if len(rest) > size else None


def describe(book: InstanceBook, ids: list[str], filters: Filters) -> list[Machine]:
    """The instances of a DescribeInstances call, before paging."""
    return select(book.shown(ids), filters)
