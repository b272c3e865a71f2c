"""The contents of launch templates for the instances launched from them.

The mock stores a whole template and then uses only part of it. This module reads everything, with one record for each
override.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.utils import convert_tag_spec

TYPE_PARAMETERS = frozenset({"InstanceType", "MaxPrice", "Priority", "WeightedCapacity"})
"""What an override says of its instance type."""


@dataclass(frozen=True)
class LaunchSpec:
    """All launch parameters of one override."""

    template_id: str
    template_name: str
    version: str
    data: dict[str, Any]
    override: dict[str, Any]

    @property
    def instance_type(self) -> str:
        return str(self.override.get("InstanceType") or self.data.get("InstanceType") or "")

    @property
    def all_but_type(self) -> str:
        """A text that is equal for overrides of one template that differ only in their types, priorities and prices."""
        rest = {key: value for key, value in self.override.items() if key not in TYPE_PARAMETERS}
        return repr((self.template_id, self.version, sorted(rest.items())))

    @property
    def image_id(self) -> str:
        return str(self.override.get("ImageId") or self.data.get("ImageId") or "")

    @property
    def subnet_id(self) -> str:
        if self.override.get("SubnetId"):
            return str(self.override["SubnetId"])
        return next((str(nic["SubnetId"]) for nic in self.interfaces if nic.get("SubnetId")), "")

    @property
    def interfaces(self) -> list[dict[str, Any]]:
        return list(self.data.get("NetworkInterfaces") or [])

    @property
    def security_groups(self) -> list[str]:
        """IDs from the template itself and its primary interface, without duplicates."""
        ids = list(self.data.get("SecurityGroupIds") or [])
        for nic in self.interfaces:
            if int(nic.get("DeviceIndex") or 0) == 0:
                ids.extend(nic.get("Groups") or [])
        return list(dict.fromkeys(ids))

    @property
    def public_ip(self) -> bool | None:
        return next(
            (bool(nic["AssociatePublicIpAddress"]) for nic in self.interfaces if "AssociatePublicIpAddress" in nic),
            None,
        )

    @property
    def tenancy(self) -> str:
        return str((self.data.get("Placement") or {}).get("Tenancy") or "default")

    @property
    def profile(self) -> dict[str, str]:
        return dict(self.data.get("IamInstanceProfile") or {})

    @property
    def reservation_target(self) -> str:
        """The ID of the capacity reservation to launch into. Empty if the launch names none."""
        reservation_spec = self.data.get("CapacityReservationSpecification") or {}
        return str((reservation_spec.get("CapacityReservationTarget") or {}).get("CapacityReservationId") or "")

    @property
    def block_devices(self) -> list[dict[str, Any]]:
        """Volumes with EC2's defaults filled in: 20 GiB, gp3, deleted with the instance."""
        devices = []
        for mapping in self.override.get("BlockDeviceMappings") or self.data.get("BlockDeviceMappings") or []:
            ebs = mapping.get("Ebs")
            if ebs is not None:
                defaults = {"VolumeSize": 20, "VolumeType": "gp3", "DeleteOnTermination": True}
                devices.append({"DeviceName": mapping["DeviceName"], "Ebs": {**defaults, **ebs}})
        return devices

    @property
    def tags(self) -> dict[str, dict[str, str]]:
        """Tags by resource type."""
        return {kind: dict(tags) for kind, tags in convert_tag_spec(self.data.get("TagSpecifications") or []).items()}

    def answer(self, zone: str) -> dict[str, Any]:
        """LaunchTemplateAndOverrides as fleet responses repeat it."""
        overrides = {name: value for name, value in self.override.items() if name != "BlockDeviceMappings"}
        overrides.setdefault("InstanceType", self.instance_type)
        if zone:
            overrides.setdefault("AvailabilityZone", zone)
        specification = {"LaunchTemplateId": self.template_id, "Version": self.version}
        return {"LaunchTemplateSpecification": specification, "Overrides": overrides}


@dataclass
class FleetRequest:
    """The relevant parts of CreateFleet, from the parsed parameters.

    Raises:
        EC2ClientError: a required part is missing or not valid.
    """

    params: dict[str, Any]
    total: int = field(init=False)
    target: str = field(init=False)
    capacity_type: str = field(init=False)
    """What the instances are paid as: spot or on-demand."""

    def __post_init__(self) -> None:
        if not self.params.get("LaunchTemplateConfigs"):
            raise EC2ClientError("MissingParameter", "The request must contain the parameter LaunchTemplateConfigs")
        target = self.params.get("TargetCapacitySpecification") or {}
        if "TotalTargetCapacity" not in target:
            raise EC2ClientError("MissingParameter", "The request must contain the parameter TotalTargetCapacity")
        self.total = int(target["TotalTargetCapacity"])
        if not 1 <= self.total <= 1000:
            raise EC2ClientError("InvalidParameterValue", "TotalTargetCapacity must be from 1 to 1000 in this sandbox")
        self.target = str(target.get("DefaultTargetCapacityType") or "on-demand")
        self.capacity_type = "spot" if self.target == "spot" else "on-demand"
        if self.target not in ("on-demand", "spot", "capacity-block", "reserved-capacity"):
            raise EC2ClientError(
                "InvalidParameterValue", f"DefaultTargetCapacityType {self.target} is not sold in this sandbox"
            )
        options = {
            "spot": "SpotOptions",
            "on-demand": "OnDemandOptions",
            "reserved-capacity": "ReservedCapacityOptions",
        }
        for name in {*options.values()} & self.params.keys():
            if name != options.get(self.target):
                raise EC2ClientError("InvalidParameterCombination", f"{name} cannot be used with {self.target}")

    @property
    def strategy(self) -> str:
        """The allocation strategy. Defaults to EC2's default, lowest-price."""
        options = self.params.get("SpotOptions" if self.capacity_type == "spot" else "OnDemandOptions") or {}
        return str(options.get("AllocationStrategy") or "lowest-price")

    @property
    def token(self) -> str:
        return str(self.params.get("ClientToken") or "")

    @property
    def tags(self) -> dict[str, dict[str, str]]:
        return {kind: dict(tags) for kind, tags in convert_tag_spec(self.params.get("TagSpecifications") or []).items()}

    def specs(self, backend: Any) -> list[LaunchSpec]:
        """All overrides of all templates, with the templates' versions resolved.

        Raises:
            EC2ClientError: a template or version does not exist.
        """
        result = []
        for config in self.params["LaunchTemplateConfigs"]:
            launch_template_specification = config.get("LaunchTemplateSpecification") or {}
            if launch_template_specification.get("LaunchTemplateId"):
                template = backend.get_launch_template(launch_template_specification["LaunchTemplateId"])
            else:
                template = backend.get_launch_template_by_name(
                    launch_template_specification.get("LaunchTemplateName") or ""
                )
            version = template.get_version(launch_template_specification.get("Version") or "$Default")
            for override in config.get("Overrides") or [{}]:
                result.append(
                    LaunchSpec(template.id, template.name, str(version.number), dict(version.data), dict(override))
                )
        return result
