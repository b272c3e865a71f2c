"""AWSNodeTemplate of karpenter.k8s.aws/v1alpha1, which converts to EC2NodeClass."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tenon.apis.base import ApiModel, Quantity, Rule, kubernetes_name
from tenon.apis.common import ObjectMeta
from tenon.apis.ec2launch import Switch, VolumeType
from tenon.apis.ec2nodeclass import without_own_tags
from tenon.apis.legacy.amis import OldFamily
from tenon.apis.legacy.kinds.shared_types import OldConditions, OldRequirement


class OldBlockDevice(ApiModel):
    """An EBS volume."""

    delete_on_termination: bool | None = None
    """Whether the volume is deleted with the instance."""
    encrypted: bool | None = None
    """Whether the volume is encrypted."""
    iops: int | None = None
    """I/O operations a second."""
    kms_key_id: str | None = None
    """The key that encrypts the volume."""
    snapshot_id: str | None = None
    """The snapshot that the volume is made from."""
    throughput: int | None = None
    """Throughput in MiB a second."""
    volume_size: Quantity | None = None
    """The size of the volume, such as 20Gi."""
    volume_type: VolumeType | None = None
    """The kind of volume."""


class OldBlockDeviceMapping(ApiModel):
    """A volume and the device it appears as."""

    device_name: str | None = None
    """The device, such as /dev/xvda."""
    ebs: OldBlockDevice | None = None
    """The volume."""


class TemplateMetadataOptions(ApiModel):
    """The instance metadata service."""

    http_endpoint: Switch | None = None
    """Whether the service answers; unset means enabled."""
    http_protocol_ipv6: Switch | None = None
    """Whether the service answers on IPv6; unset means disabled."""
    http_put_response_hop_limit: Annotated[int, Field(ge=1, le=64)] | None = None
    """How many network hops an answer may take; unset means 2."""
    http_tokens: Literal["required", "optional"] | None = None
    """Whether a session token is needed (IMDSv2); unset means required."""


Selector = Annotated[dict[str, str], Field(max_length=20)]
_IDS = ("aws-ids", "aws::ids")
_WITHOUT_LAUNCH_TEMPLATE = (
    "user_data",
    "ami_selector",
    "ami_family",
    "security_group_selector",
    "metadata_options",
    "instance_profile",
    "block_device_mappings",
)
_OWN_TAGS = ("karpenter.sh/provisioner-name", "karpenter.sh/managed-by")


def _ids_alone(attribute: str) -> Rule:
    field = kubernetes_name(attribute)
    either = " || ".join(f"'{key}' in self.{field}" for key in _IDS)
    return Rule(
        f"!has(self.{field}) || self.{field}.size() == 1 || !({either})",
        f"{field} takes ids alone: they are not combined with tags",
    )


class AWSNodeTemplateSpec(ApiModel):
    """How instances are found, launched and set up."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.subnetSelector) && self.subnetSelector.size() > 0",
            "subnetSelector is required",
        ),
        Rule(
            "(has(self.securityGroupSelector) && self.securityGroupSelector.size() > 0) || has(self.launchTemplate)",
            "securityGroupSelector is required",
        ),
        Rule(
            "!has(self.amiFamily) || self.amiFamily != 'Custom' || has(self.launchTemplate) || "
            "(has(self.amiSelector) && self.amiSelector.size() > 0)",
            "amiFamily Custom needs amiSelector",
        ),
        *(_ids_alone(attribute) for attribute in ("ami_selector", "subnet_selector", "security_group_selector")),
        Rule(
            "!has(self.launchTemplate) || !("
            + " || ".join(f"has(self.{kubernetes_name(name)})" for name in _WITHOUT_LAUNCH_TEMPLATE)
            + ")",
            f"launchTemplate excludes {', '.join(map(kubernetes_name, _WITHOUT_LAUNCH_TEMPLATE))}",
        ),
        without_own_tags(_OWN_TAGS),
    )

    user_data: str | None = None
    """The user's part of the instances' user data."""
    ami_family: OldFamily | None = None
    """How user data and defaults are generated, and which images are used by default; unset means AL2."""
    ami_selector: Selector = {}
    """The machine images, by tags, or by aws::ids, aws::name and aws::owners."""
    subnet_selector: Selector = {}
    """The subnets, by tags or by aws::ids."""
    security_group_selector: Selector = {}
    """The security groups, by tags or by aws::ids."""
    instance_profile: str | None = None
    """The instance profile; unset uses that of the settings."""
    launch_template: str | None = None
    """The user's own launch template; no longer supported."""
    metadata_options: TemplateMetadataOptions | None = None
    """The instance metadata service."""
    block_device_mappings: list[OldBlockDeviceMapping] = []
    """The volumes of the instances; none means those of the family."""
    tags: dict[str, str] = {}
    """Tags of everything that Tenon creates in EC2."""
    context: str | None = None
    """A reserved EC2 Fleet context."""
    detailed_monitoring: bool | None = None
    """Whether the instances report metrics every minute."""


class FoundSubnet(ApiModel):
    """A subnet that was found."""

    id: str | None = None
    """The id of the subnet."""
    zone: str | None = None
    """The availability zone of the subnet."""


class FoundGroup(ApiModel):
    """A security group that was found."""

    id: str | None = None
    """The id of the security group."""
    name: str | None = None
    """The name of the security group."""


class FoundImage(ApiModel):
    """A machine image that was found, and the nodes it suits."""

    id: str
    """The id of the image."""
    name: str | None = None
    """The name of the image."""
    requirements: list[OldRequirement]
    """Rules on the labels of the nodes that the image suits."""


class AWSNodeTemplateStatus(ApiModel):
    """What was found in the account."""

    subnets: list[FoundSubnet] = []
    """The subnets."""
    security_groups: list[FoundGroup] = []
    """The security groups."""
    amis: list[FoundImage] = []
    """The machine images."""
    conditions: OldConditions = []
    """The status of the template."""


class AWSNodeTemplate(ApiModel):
    """How nodes are launched on AWS; Tenon creates an EC2NodeClass from it."""

    api_version: Literal["karpenter.k8s.aws/v1alpha1"] = "karpenter.k8s.aws/v1alpha1"
    kind: Literal["AWSNodeTemplate"] = "AWSNodeTemplate"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: AWSNodeTemplateSpec
    status: AWSNodeTemplateStatus = Field(default_factory=AWSNodeTemplateStatus)
