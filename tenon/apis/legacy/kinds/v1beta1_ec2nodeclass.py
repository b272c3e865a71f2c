"""EC2NodeClass of karpenter.k8s.aws/v1beta1, which a conversion webhook converts to v1. Its status is that of v1."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tenon.apis.base import ApiModel, Rule
from tenon.apis.common import ObjectMeta
from tenon.apis.ec2launch import BlockDeviceMapping, MetadataOptions
from tenon.apis.ec2nodeclass import EC2NodeClassStatus, V1beta1AMIFamily
from tenon.apis.ec2terms import NO_EMPTY_TAGS, TAGS_CEL, SecurityGroupSelectorTerm, SubnetSelectorTerm, Tags

OLD_OWN_TAGS = ("karpenter.sh/nodepool", "karpenter.sh/managed-by", "karpenter.sh/nodeclaim")
"""Tags that identified the owner of an instance. Users could not set them."""
_OWN_TAG_LIST = ", ".join(f"'{tag}'" for tag in OLD_OWN_TAGS)


class AMITerm(ApiModel):
    """One way to find machine images: by id alone, or by tags, name and owner together."""

    rules: ClassVar[tuple[Rule, ...]] = (
        NO_EMPTY_TAGS,
        Rule(
            f"has(self.id) != ({TAGS_CEL} || has(self.name))",
            "an AMI term needs either id alone, or tags or name",
            lambda term: (term.id is not None) != (bool(term.tags) or term.name is not None),
        ),
        Rule(
            f"!has(self.owner) || {TAGS_CEL} || has(self.name)",
            "owner needs tags or name beside it",
            lambda term: term.owner is None or bool(term.tags) or term.name is not None,
        ),
    )

    id: Annotated[str, Field(pattern=r"^ami-[0-9a-z]+$")] | None = None
    """The id of the image."""
    tags: Tags = {}
    """Tags that the image carries."""
    name: Annotated[str, Field(min_length=1)] | None = None
    """The name of the image; ``*`` stands for any text."""
    owner: Annotated[str, Field(min_length=1)] | None = None
    """The account, or account alias such as amazon, that owns the image."""


class OldMetadataOptions(MetadataOptions):
    """The instance metadata service."""

    http_put_response_hop_limit: Annotated[int, Field(ge=1, le=64)] = 2
    """How many network hops an answer may take."""


class EC2NodeClassSpec(ApiModel):
    """How instances are found, launched and set up."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.role) != has(self.instanceProfile)",
            "exactly one of role and instanceProfile must be given",
            lambda spec: (spec.role is None) != (spec.instance_profile is None),
        ),
        Rule("!has(self.role) || !has(oldSelf.role) || self.role == oldSelf.role", "role cannot be changed in v1beta1"),
        Rule(
            "self.amiFamily != 'Custom' || (has(self.amiSelectorTerms) && self.amiSelectorTerms.size() > 0)",
            "amiFamily Custom needs amiSelectorTerms",
            lambda spec: spec.ami_family != "Custom" or len(spec.ami_selector_terms) > 0,
        ),
        Rule(
            "!has(self.tags) || self.tags.all(key, key != '')",
            "tags must not have an empty key",
            lambda spec: "" not in spec.tags,
        ),
        Rule(
            f"!has(self.tags) || self.tags.all(key, !(key in [{_OWN_TAG_LIST}]) && "
            "!key.startsWith('kubernetes.io/cluster'))",
            f"tags must not set {', '.join(OLD_OWN_TAGS)} or kubernetes.io/cluster*",
            lambda spec: not any(tag in OLD_OWN_TAGS or tag.startswith("kubernetes.io/cluster") for tag in spec.tags),
        ),
        Rule(
            "!has(self.blockDeviceMappings) || "
            "self.blockDeviceMappings.filter(device, has(device.rootVolume) && device.rootVolume).size() <= 1",
            "at most one block device may be the root volume",
            lambda spec: sum(device.root_volume for device in spec.block_device_mappings) <= 1,
        ),
    )

    subnet_selector_terms: Annotated[list[SubnetSelectorTerm], Field(min_length=1, max_length=30)]
    """The subnets that instances may be launched in."""
    security_group_selector_terms: Annotated[list[SecurityGroupSelectorTerm], Field(min_length=1, max_length=30)]
    """The security groups of the instances."""
    associate_public_ip_address: bool | None = None
    """Whether instances get a public address; unset leaves it to the subnet."""
    ami_selector_terms: Annotated[list[AMITerm], Field(max_length=30)] = []
    """The machine images that instances may run; none means the newest of the family."""
    ami_family: V1beta1AMIFamily
    """How user data and defaults are made, and which images are taken where no term names them."""
    user_data: str | None = None
    """The user's part of the instances' user data."""
    role: Annotated[str, Field(min_length=1)] | None = None
    """The IAM role of the nodes, for which an instance profile is made."""
    instance_profile: Annotated[str, Field(min_length=1)] | None = None
    """An instance profile that exists already."""
    tags: Annotated[dict[str, str], Field(max_length=50)] = {}
    """Tags of everything that is made in EC2."""
    block_device_mappings: Annotated[list[BlockDeviceMapping], Field(max_length=50)] = []
    """The volumes of the instances; none means those of the family."""
    instance_store_policy: Literal["RAID0"] | None = None
    """What becomes of local disks: RAID0 joins them for pods and images."""
    detailed_monitoring: bool | None = None
    """Whether the instances report metrics every minute."""
    metadata_options: OldMetadataOptions = Field(
        default_factory=lambda: OldMetadataOptions(http_put_response_hop_limit=1),
        json_schema_extra={"default": MetadataOptions().to_dict()},
    )
    """The instance metadata service."""
    context: str | None = None
    """A reserved EC2 Fleet context."""


class EC2NodeClass(ApiModel):
    """How nodes are launched on AWS."""

    api_version: Literal["karpenter.k8s.aws/v1beta1"] = "karpenter.k8s.aws/v1beta1"
    kind: Literal["EC2NodeClass"] = "EC2NodeClass"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: EC2NodeClassSpec
    status: EC2NodeClassStatus = Field(default_factory=EC2NodeClassStatus)
