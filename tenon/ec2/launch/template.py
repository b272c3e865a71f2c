"""Launch templates: what all instances of a group have in common. The name is a hash of the content.

Equal parameters give equal names, so a template is created once, can be found again, and never changes.
"""

from __future__ import annotations

import hashlib
import json
import math
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenon.apis import labels
from tenon.apis.ec2launch import BlockDevice
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.families import family_of
from tenon.ec2.families.base import GIB, volume_bytes
from tenon.ec2.families.cluster import Cluster
from tenon.ec2.types.capacity_reservations import RESERVATIONS_ONLY

NAME_PREFIX = f"{labels.AWS_GROUP}/"
ISOLATED_REGIONS = ("us-iso",)
"""How the names of regions begin whose EC2 refuses the option HttpProtocolIpv6, whatever its value."""
_WITHOUT_ADDRESS = "efa-only"
"""The type of an interface that has no IP address."""


@dataclass(frozen=True, slots=True)
class LaunchTemplate:
    """A template that must exist.

    ``data`` is EC2's RequestLaunchTemplateData; ``tags`` are those of the template itself.
    """

    name: str
    data: Mapping[str, Any]
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reservation:
    """The capacity reservation that a template launches into."""

    id: str
    type: str
    interruptible: bool = False

    @property
    def market(self) -> str:
        """EC2's market type of such a launch; empty for an on-demand capacity reservation."""
        if self.type == labels.CAPACITY_BLOCK:
            return "capacity-block"
        return "interruptible-capacity-reservation" if self.interruptible else ""


@dataclass(frozen=True, slots=True)
class MachineNeeds:
    """What a launch needs of its machines that the class does not say."""

    efa_interfaces: int = 0
    """How many EFA interfaces the instances get."""
    first_efa_card: int = 0
    """The first network card that supports EFA."""
    enclaves: bool = False
    """Whether their pods need Nitro enclaves; the class may switch them on for all."""
    tenancy: str = labels.DEFAULT_TENANCY
    """Whether they share their hardware."""
    partition: int | None = None
    """Their partition of the class's placement group; None leaves it to EC2."""
    reservation: Reservation | None = None
    """The only capacity reservation that they may use."""


NO_NEEDS = MachineNeeds()


def build(
    node_class: EC2NodeClass,
    cluster: Cluster,
    needs: MachineNeeds = NO_NEEDS,
    *,
    image_id: str,
    user_data: str,
    capacity_type: str,
    tags: Mapping[str, str],
    open_reservations: bool = False,
) -> LaunchTemplate:
    """Build the template of a class for one image and one rendered user data.

    Args:
        node_class: the class.
        cluster: the cluster that the nodes join. Its family says whether they need an IPv6 address, and its region
            which options EC2 knows.
        needs: what the launch needs of its machines.
        image_id: the image.
        user_data: the rendered user data.
        capacity_type: what the instances are bought as.
        tags: those of the template and of what its launches create.
        open_reservations: leave it to EC2 to use an open reservation that matches, as without the gate.
    """
    spec, reservation = node_class.spec, needs.reservation
    options = spec.metadata_options
    tagged = ["network-interface", *(["spot-instances-request"] if capacity_type == labels.SPOT else [])]
    data: dict[str, Any] = {
        "ImageId": image_id,
        "IamInstanceProfile": {"Name": node_class.status.instance_profile or ""},
        "BlockDeviceMappings": block_devices(node_class),
        "MetadataOptions": {
            "HttpEndpoint": options.http_endpoint,
            **({} if cluster.region.startswith(ISOLATED_REGIONS) else {"HttpProtocolIpv6": options.http_protocol_ipv6}),
            "HttpPutResponseHopLimit": options.http_put_response_hop_limit,
            "HttpTokens": options.http_tokens,
            "InstanceMetadataTags": "disabled",
        },
        "Monitoring": {"Enabled": bool(spec.detailed_monitoring)},
        "CapacityReservationSpecification": _reservation(reservation) if reservation or not open_reservations else "",
        "UserData": b64encode(user_data.encode()).decode(),
        "TagSpecifications": [{"ResourceType": kind, "Tags": tag_list(tags)} for kind in tagged],
        **_network(node_class, needs, ipv6=cluster.ipv6),
    }
    if spec.cpu_options is not None and spec.cpu_options.nested_virtualization:
        data["CpuOptions"] = {"NestedVirtualization": spec.cpu_options.nested_virtualization}
    if needs.enclaves or (spec.enclave_options is not None and spec.enclave_options.enabled):
        data["EnclaveOptions"] = {"Enabled": True}
    if reservation is not None and reservation.market:
        data["InstanceMarketOptions"] = {"MarketType": reservation.market}
    group = node_class.status.placement_group
    placement = {
        **({"Tenancy": needs.tenancy} if needs.tenancy != labels.DEFAULT_TENANCY else {}),
        **({"GroupId": group.id} if group is not None else {}),
        **({"PartitionNumber": needs.partition} if needs.partition is not None else {}),
    }
    if placement:
        data["Placement"] = placement
    data = {name: value for name, value in data.items() if value not in ("", [])}
    digest = hashlib.sha256(json.dumps([data, dict(tags)], sort_keys=True).encode()).hexdigest()
    return LaunchTemplate(name=f"{NAME_PREFIX}{digest[:32]}", data=data, tags=tags)


def _reservation(reservation: Reservation | None) -> dict[str, Any]:
    """EC2's default, open, takes any open reservation that matches, also those that others made for themselves."""
    if reservation is None:
        return {"CapacityReservationPreference": "none"}
    return {
        "CapacityReservationPreference": RESERVATIONS_ONLY,
        "CapacityReservationTarget": {"CapacityReservationId": reservation.id},
    }


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return tags in EC2's form, sorted by key."""
    return [{"Key": key, "Value": tags[key]} for key in sorted(tags)]


def block_devices(node_class: EC2NodeClass) -> list[dict[str, Any]]:
    """Return the volumes of the class, or else the default volumes of its AMI family.

    Default volumes are gp3, encrypted, and deleted with the instance.
    """
    spec = node_class.spec
    if spec.block_device_mappings:
        return [
            {"DeviceName": mapping.device_name or "", "Ebs": _ebs(mapping.ebs)}
            for mapping in spec.block_device_mappings
            if mapping.ebs is not None
        ]
    return [
        {
            "DeviceName": volume.device,
            "Ebs": {
                "DeleteOnTermination": True,
                "Encrypted": True,
                "VolumeSize": volume.size // GIB,
                "VolumeType": "gp3",
            },
        }
        for volume in family_of(node_class).volumes
    ]


def _ebs(volume: BlockDevice) -> dict[str, Any]:
    ebs_settings = {
        "DeleteOnTermination": True if volume.delete_on_termination is None else volume.delete_on_termination,
        "Encrypted": volume.encrypted,
        "Iops": volume.iops,
        "KmsKeyId": volume.kms_key_id,
        "SnapshotId": volume.snapshot_id,
        "Throughput": volume.throughput,
        "VolumeInitializationRate": volume.volume_initialization_rate,
        "VolumeSize": math.ceil(volume_bytes(volume.volume_size) / GIB) or None,
        "VolumeType": volume.volume_type or "gp3",
    }
    return {name: value for name, value in ebs_settings.items() if value is not None}


def _network(node_class: EC2NodeClass, needs: MachineNeeds, *, ipv6: bool) -> dict[str, Any]:
    """Return security groups only, or interfaces if class, EFA or cluster need more than EC2's default interface.

    In an IPv6 cluster every interface gets an IPv6 address, also in a subnet that assigns none by itself, and no
    prefixes: EC2 refuses IPv6 prefixes next to an address, without which no node joins (Karpenter's issue 2187 and pull
    request 9201), and IPv4 prefixes would be of no use. EC2 refuses addresses, prefixes and connection tracking for an
    efa-only interface.
    """
    spec = node_class.spec
    groups = [group.id for group in node_class.status.security_groups]
    places: list[tuple[int, int, str]] = [
        (interface.network_card_index, interface.device_index, interface.interface_type)
        for interface in spec.network_interfaces
    ]
    if not places and needs.efa_interfaces:
        cards = range(needs.first_efa_card, needs.first_efa_card + needs.efa_interfaces)
        primary = [] if 0 in cards else [(0, 0, "interface")]
        places = [*primary, *((card, 0 if card == 0 else 1, "efa") for card in cards)]
    own: dict[str, Any] = {}
    if spec.associate_public_ip_address is not None:
        own["AssociatePublicIpAddress"] = spec.associate_public_ip_address
    if spec.ip_prefix_count is not None and not ipv6:
        own["Ipv4PrefixCount"] = spec.ip_prefix_count
    if spec.connection_tracking is not None:
        tracking = spec.connection_tracking
        seconds = {
            "TcpEstablishedTimeout": tracking.tcp_established_timeout,
            "UdpStreamTimeout": tracking.udp_stream_timeout,
            "UdpTimeout": tracking.udp_timeout,
        }
        own["ConnectionTrackingSpecification"] = {name: value for name, value in seconds.items() if value is not None}
    if not places and not own and not ipv6:
        return {"SecurityGroupIds": groups}
    address = {"Ipv6AddressCount": 1, "PrimaryIpv6": True} if ipv6 else {}
    return {
        "NetworkInterfaces": [
            {
                "NetworkCardIndex": card,
                "DeviceIndex": device,
                "InterfaceType": kind,
                "Groups": groups,
                **({**address, **own} if kind != _WITHOUT_ADDRESS else {}),
            }
            for card, device, kind in places or [(0, 0, "interface")]
        ]
    }
