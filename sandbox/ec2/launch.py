"""Launches instances in the mock from a launch spec, including everything that the mock alone would drop."""

from __future__ import annotations

from typing import Any

from moto.core.exceptions import ServiceException
from moto.core.types import Base64EncodedString
from moto.ec2.models.instances import MetadataOptions
from moto.ec2.utils import filter_iam_instance_profiles

from sandbox.ec2 import catalogue
from sandbox.ec2.templates import LaunchSpec
from tenon.errors import TenonError

USER_DATA_LIMIT = 16 * 1024
"""Maximum size of user data in EC2, in bytes before base64."""
_IPV6 = ("Ipv6Addresses", "Ipv6AddressCount", "Ipv6Prefixes", "Ipv6PrefixCount")
"""What a network interface may have of IPv6: one of these."""


class LaunchRefusedError(TenonError):
    """EC2 refuses this offer, with an error code and a sentence as in a fleet's ``Errors``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


def launch(
    backend: Any, spec: LaunchSpec, count: int, tags: dict[str, dict[str, str]], *, spot: bool, token: str
) -> Any:
    """Launch ``count`` instances into the spec's subnet and return the mock's reservation.

    Raises:
        LaunchRefusedError: the image, network, interfaces, profile or user data are not valid. Nothing was launched.
    """
    architecture = catalogue.architecture(spec.instance_type)
    image = backend.amis.get(spec.image_id)
    if image is None:
        raise LaunchRefusedError("InvalidAMIID.NotFound", f"The image id '[{spec.image_id}]' does not exist")
    if image.architecture != architecture:
        raise LaunchRefusedError(
            "InvalidParameterValue",
            f"The architecture '{architecture}' of the specified instance type does not match the architecture "
            f"'{image.architecture}' of the specified AMI. Specify an instance type and an AMI that have matching "
            "architectures, and try again.",
        )
    subnet = backend.get_subnet(spec.subnet_id)
    if free_addresses(subnet) < count:
        raise LaunchRefusedError(
            "InsufficientFreeAddressesInSubnet",
            f"There are not enough free addresses in subnet '{subnet.id}' to satisfy the requested number of "
            "instances.",
        )
    if any(sum(bool(nic.get(name)) for name in _IPV6) > 1 for nic in spec.interfaces):
        raise LaunchRefusedError(
            "InvalidParameterValue",
            "You can specify one and only one of ipv6Address or ipv6AddressCount or ipv6Prefix or ipv6PrefixCount in "
            "interfaces to create.",
        )
    _check_places(spec)
    groups = [_security_group(backend, group_id, subnet.vpc_id) for group_id in spec.security_groups]
    profile = _profile(backend, spec.profile)
    reservation = backend.run_instances(
        spec.image_id,
        count,
        _user_data(spec),
        [],
        security_group_ids=groups,
        nics=[{"DeviceIndex": 0, "DeleteOnTermination": True}],
        subnet_id=subnet.id,
        instance_type=spec.instance_type,
        is_instance_type_default=False,
        region_name=backend.region_name,
        block_device_mappings=spec.block_devices or [_root_volume(image)],
        tags={"instance": tags.get("instance", {}), "volume": tags.get("volume", {})},
        metadata_options=spec.data.get("MetadataOptions") or {},
        associate_public_ip=spec.public_ip,
        ebs_optimized=bool(spec.data.get("EbsOptimized")),
        monitoring_state="enabled" if (spec.data.get("Monitoring") or {}).get("Enabled") else "disabled",
        key_name=spec.data.get("KeyName"),
        client_token=token,
        lifecycle="spot" if spot else None,
    )
    for instance in reservation.instances:
        instance.architecture = architecture
        instance.iam_instance_profile = profile
        instance.metadata_options = MetadataOptions(spec.data.get("MetadataOptions") or {})
        for nic in instance.nics.values():
            if tags.get("network-interface"):
                backend.create_tags([nic.id], tags["network-interface"])
    return reservation


def _check_places(spec: LaunchSpec) -> None:
    network = (catalogue.describe_type(spec.instance_type) or {}).get("NetworkInfo", {})
    places = {card["NetworkCardIndex"]: card["MaximumNetworkInterfaces"] for card in network.get("NetworkCards", ())}
    for nic in spec.interfaces:
        device = int(nic.get("DeviceIndex") or 0)
        if device >= places.get(int(nic.get("NetworkCardIndex") or 0), 0):
            raise LaunchRefusedError(
                "InvalidParameterValue",
                f"The specified number '{device}' for the device index exceeds the maximum number of network "
                "interfaces supported by the network card.",
            )


def _root_volume(image: Any) -> dict[str, Any]:
    ebs = {"VolumeSize": 20, "VolumeType": "gp3", "DeleteOnTermination": True}
    return {"DeviceName": image.root_device_name, "Ebs": ebs}


def free_addresses(subnet: Any) -> int:
    """The number of addresses that are free in a subnet: neither instances nor other network interfaces have them."""
    others = [eni for eni in subnet.ec2_backend.enis.values() if eni.subnet.id == subnet.id and eni.instance is None]
    return int(subnet._available_ip_addresses) - len(subnet._subnet_ips) - len(others)


def _user_data(spec: LaunchSpec) -> Any:
    raw = spec.data.get("UserData")
    if raw is None:
        return None
    encoded = raw if isinstance(raw, Base64EncodedString) else Base64EncodedString(str(raw))
    if len(str(encoded)) * 3 // 4 > USER_DATA_LIMIT + 2:
        raise LaunchRefusedError("InvalidParameterValue", "User data is limited to 16384 bytes")
    return encoded


def _security_group(backend: Any, group_id: str, vpc_id: str) -> Any:
    group = backend.get_security_group_from_id(group_id)
    if group is None:
        raise LaunchRefusedError("InvalidGroup.NotFound", f"The security group '{group_id}' does not exist")
    if group.vpc_id != vpc_id:
        raise LaunchRefusedError(
            "InvalidParameter", f"Security group {group_id} and subnet belong to different networks."
        )
    return group


def _profile(backend: Any, expectation: dict[str, str]) -> Any:
    if not expectation:
        return None
    try:
        return filter_iam_instance_profiles(
            backend.account_id, backend.partition, expectation.get("Arn"), expectation.get("Name")
        )
    except ServiceException as error:
        # The mock returns IAM's "not found" here, but EC2 has its own error.
        raise unknown_profile(expectation.get("Name") or expectation.get("Arn") or "") from error


def knows_profile(backend: Any, expectation: dict[str, str]) -> bool:
    """Whether the account has the instance profile that a call names."""
    try:
        _profile(backend, expectation)
    except LaunchRefusedError:
        return False
    return True


def unknown_profile(name: str) -> LaunchRefusedError:
    """EC2's error for an instance profile that it does not know, or not yet."""
    return LaunchRefusedError(
        "InvalidParameterValue",
        f"Value ({name}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
    )
