"""EC2NodeClass (karpenter.k8s.aws/v1): the AWS settings of a node."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tenon.apis import labels
from tenon.apis.ami_families import CUSTOM, AMIFamily
from tenon.apis.base import ApiModel, FaultKind, Rule, Timestamp, exactly_one
from tenon.apis.common import Conditions, ObjectMeta, SelectorRequirement
from tenon.apis.ec2launch import (
    BlockDeviceMapping,
    ConnectionTracking,
    CPUOptions,
    EnclaveOptions,
    MetadataOptions,
    NetworkInterface,
)
from tenon.apis.ec2terms import (
    AMISelectorTerm,
    CapacityReservationSelectorTerm,
    PlacementGroupSelector,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from tenon.apis.kubelet import KubeletConfiguration
from tenon.apis.restricted import cel_list

AMIS_READY = "AMIsReady"
SUBNETS_READY = "SubnetsReady"
SECURITY_GROUPS_READY = "SecurityGroupsReady"
INSTANCE_PROFILE_READY = "InstanceProfileReady"
PLACEMENT_GROUP_READY = "PlacementGroupReady"
CAPACITY_RESERVATIONS_READY = "CapacityReservationsReady"

OWN_TAGS = (
    labels.TAG_CLUSTER,
    labels.TAG_NODEPOOL,
    labels.TAG_NODECLAIM,
    labels.TAG_NODECLASS,
    labels.TAG_TOKEN,
    labels.TAG_GROUP,
)
"""Tags that identify the owner of an instance. Users cannot set them."""
CLUSTER_TAG_PREFIX = "kubernetes.io/cluster"
MAX_TAGS = 50
"""The maximum in Karpenter's schema. EC2 allows 50 tags per resource, including the tags that identify the owner."""


ONE_ROOT_VOLUME = Rule(
    "!has(self.blockDeviceMappings) || "
    "self.blockDeviceMappings.filter(device, has(device.rootVolume) && device.rootVolume).size() <= 1",
    "at most one block device may be the root volume",
)
EITHER_ROLE_OR_PROFILE = exactly_one(
    "role", "instance_profile", "exactly one of role and instanceProfile must be given"
)
NO_EMPTY_TAG_KEY = Rule(
    "!has(self.tags) || self.tags.all(key, key != '')",
    "tags must not have an empty key",
    kind=FaultKind.TAGS,
)


def without_own_tags(own: Sequence[str]) -> Rule:
    """Return the rule that users do not set the tags that identify the owner of an instance."""
    return Rule(
        f"!has(self.tags) || self.tags.all(key, !(key in {cel_list(own)}) && !key.startsWith('{CLUSTER_TAG_PREFIX}'))",
        f"tags must not set {', '.join(own)} or {CLUSTER_TAG_PREFIX}*",
        kind=FaultKind.TAGS,
    )


class LaunchSettings(ApiModel):
    """The settings that v1beta1 has as well."""

    subnet_selector_terms: Annotated[list[SubnetSelectorTerm], Field(min_length=1, max_length=30)]
    """The subnets that instances may be launched in."""
    security_group_selector_terms: Annotated[list[SecurityGroupSelectorTerm], Field(min_length=1, max_length=30)]
    """The security groups of the instances."""
    associate_public_ip_address: bool | None = None
    """Whether instances get a public address; unset leaves it to the subnet."""
    user_data: str | None = None
    """The user's part of the instances' user data."""
    role: Annotated[str, Field(min_length=1)] | None = None
    """The IAM role of the nodes; Tenon creates an instance profile for it."""
    instance_profile: Annotated[str, Field(min_length=1)] | None = None
    """An instance profile that exists already."""
    tags: Annotated[dict[str, str], Field(max_length=MAX_TAGS)] = {}
    """Tags of everything that Tenon creates in EC2."""
    block_device_mappings: Annotated[list[BlockDeviceMapping], Field(max_length=50)] = []
    """The volumes of the instances; none means those of the family."""
    instance_store_policy: Literal["RAID0"] | None = None
    """How local disks are used: RAID0 joins them for pods and images."""
    detailed_monitoring: bool | None = None
    """Whether the instances report metrics every minute."""
    context: str | None = None
    """A reserved EC2 Fleet context."""


class EC2NodeClassSpec(LaunchSettings):
    """How instances are found, launched and set up."""

    rules: ClassVar[tuple[Rule, ...]] = (
        EITHER_ROLE_OR_PROFILE,
        Rule(
            "self.amiSelectorTerms.size() == 1 || self.amiSelectorTerms.all(term, !has(term.alias))",
            "a term with an alias must be the only AMI term",
        ),
        Rule(
            "has(self.amiFamily) || self.amiSelectorTerms.exists(term, has(term.alias))",
            "amiFamily is needed when no AMI term has an alias",
        ),
        Rule(
            "!has(self.amiFamily) || self.amiFamily == 'Custom' || self.amiSelectorTerms.all(term, "
            "!has(term.alias) || term.alias.startsWith(self.amiFamily.lowerAscii() + '@'))",
            "amiFamily must be Custom or the family of the alias",
        ),
        NO_EMPTY_TAG_KEY,
        without_own_tags(OWN_TAGS),
        ONE_ROOT_VOLUME,
        Rule(
            "!has(self.networkInterfaces) || self.networkInterfaces.size() == 0 || self.networkInterfaces.exists(i, "
            "i.networkCardIndex == 0 && i.deviceIndex == 0 && i.interfaceType == 'interface')",
            "networkInterfaces must hold the primary one: card 0, device 0, type interface",
        ),
        Rule(
            "!has(self.networkInterfaces) || self.networkInterfaces.all(i, self.networkInterfaces.exists_one(j, "
            "i.networkCardIndex == j.networkCardIndex && i.deviceIndex == j.deviceIndex))",
            "networkInterfaces must not use one place (card and device) twice",
        ),
        Rule(
            "!has(self.networkInterfaces) || self.networkInterfaces.all(i, i.interfaceType != 'efa-only' || "
            "self.networkInterfaces.exists_one(j, "
            "i.networkCardIndex == j.networkCardIndex && j.interfaceType == 'efa-only'))",
            "networkInterfaces must not have two efa-only interfaces on one card",
        ),
    )

    capacity_reservation_selector_terms: Annotated[list[CapacityReservationSelectorTerm], Field(max_length=30)] = []
    """The capacity reservations that instances may use."""
    placement_group_selector: PlacementGroupSelector | None = None
    """The placement group of the instances."""
    ip_prefix_count: Annotated[int, Field(ge=0)] | None = None
    """How many IPv4 prefixes each interface with an address gets. It has no effect in an IPv6 cluster."""
    ami_selector_terms: Annotated[list[AMISelectorTerm], Field(min_length=1, max_length=30)]
    """The machine images that instances may run."""
    ami_family: AMIFamily | None = None
    """How user data and defaults are generated; unset uses the family of the alias."""
    kubelet: KubeletConfiguration | None = None
    """Settings of the nodes' kubelet. The condition ValidationSucceeded says what is wrong with them."""
    network_interfaces: Annotated[list[NetworkInterface], Field(max_length=150)] = []
    """The network interfaces of the instances."""
    metadata_options: MetadataOptions = Field(
        default_factory=MetadataOptions,
        json_schema_extra={"default": MetadataOptions().to_dict()},
    )
    """The instance metadata service."""
    connection_tracking: ConnectionTracking | None = None
    """How long idle connections are tracked."""
    cpu_options: CPUOptions | None = None
    """Options of the processor."""
    enclave_options: EnclaveOptions | None = None
    """Nitro enclaves; only types that support them are then bought."""

    @property
    def alias(self) -> AMISelectorTerm | None:
        """The AMI term that is an alias, or None."""
        return next((term for term in self.ami_selector_terms if term.alias is not None), None)

    @property
    def resolved_family(self) -> AMIFamily:
        """The AMI family for user data and defaults: the stated family, else the family of the alias, else Custom."""
        alias = self.alias
        return self.ami_family or (alias.family if alias else None) or CUSTOM


class Subnet(ApiModel):
    """A subnet that was found."""

    id: str
    """The id of the subnet."""
    zone: str
    """The availability zone of the subnet."""
    zone_id: str | None = None
    """The id of that zone, which is the same in every account."""


class SecurityGroup(ApiModel):
    """A security group that was found."""

    id: str
    """The id of the security group."""
    name: str | None = None
    """The name of the security group."""


class AMI(ApiModel):
    """A machine image that was found, and the nodes it suits."""

    id: str
    """The id of the image."""
    name: str | None = None
    """The name of the image."""
    deprecated: bool | None = None
    """Whether its owner has deprecated the image."""
    requirements: list[SelectorRequirement]
    """Rules on the labels of the nodes that the image suits."""


class CapacityReservation(ApiModel):
    """A capacity reservation that was found."""

    id: str
    """The id of the reservation."""
    availability_zone: str
    """The zone that the reservation is in."""
    instance_type: str
    """The instance type that is reserved."""
    instance_match_criteria: Literal["open", "targeted"]
    """Whether it takes any matching instance, or only those that name it."""
    owner_id: str
    """The account that owns the reservation."""
    end_time: Timestamp | None = None
    """When the reservation ends; unset means never."""
    reservation_type: Literal["default", "capacity-block"] = "default"
    """Whether it is an on-demand reservation or a capacity block."""
    interruptible: bool | None = None
    """Whether its owner may take it back."""
    state: Literal["active", "expiring"] = "active"
    """Whether it can be used, or is about to end."""


class PlacementGroup(ApiModel):
    """The placement group that was found."""

    id: str
    """The id of the placement group."""
    name: str
    """The name of the placement group."""
    strategy: Literal["cluster", "partition", "spread"]
    """How EC2 places its instances: close together, in partitions, or apart."""
    partition_count: Annotated[int, Field(ge=0)] | None = None
    """How many partitions it has; unset unless its strategy is partition."""


class EC2NodeClassStatus(ApiModel):
    """What was found in the account."""

    subnets: list[Subnet] = []
    """The subnets, those with the most free addresses first."""
    security_groups: list[SecurityGroup] = []
    """The security groups."""
    amis: list[AMI] = []
    """The machine images."""
    capacity_reservations: list[CapacityReservation] = []
    """The capacity reservations."""
    placement_group: PlacementGroup | None = None
    """The placement group."""
    instance_profile: str | None = None
    """The instance profile: the given one, or the one that Tenon created for the role."""
    conditions: Conditions = []
    """Facts about the class."""


class EC2NodeClass(ApiModel):
    """How nodes are launched on AWS."""

    api_version: Literal["karpenter.k8s.aws/v1"] = "karpenter.k8s.aws/v1"
    kind: Literal["EC2NodeClass"] = "EC2NodeClass"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: EC2NodeClassSpec
    status: EC2NodeClassStatus = Field(default_factory=EC2NodeClassStatus)
