"""How an EC2NodeClass selects AWS resources: subnets, security groups, images, reservations, placement groups.

The terms of a list are alternatives. All tags of one term must match, and the value ``*`` matches any value.
"""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tenon.apis.ami_families import FAMILY_OF_ALIAS, AMIFamily
from tenon.apis.base import ApiModel, FaultKind, Rule, exactly_one

TAGS_CEL = "(has(self.tags) && self.tags.size() > 0)"
Tags = Annotated[dict[str, str], Field(max_length=20)]

_ALIAS_FAMILIES = "|".join(FAMILY_OF_ALIAS)

NO_EMPTY_TAGS = Rule(
    "!has(self.tags) || self.tags.all(key, key != '' && self.tags[key] != '')",
    "tags must not have an empty key or value",
    kind=FaultKind.TAGS,
)


class SubnetSelectorTerm(ApiModel):
    """One way to find subnets: by tags, or by id alone."""

    rules: ClassVar[tuple[Rule, ...]] = (
        NO_EMPTY_TAGS,
        Rule(
            f"has(self.id) != {TAGS_CEL}",
            "a subnet term needs either tags or id, not both",
        ),
    )

    tags: Tags = {}
    """Tags that the subnet carries."""
    id: Annotated[str, Field(pattern=r"^subnet-[0-9a-z]+$")] | None = None
    """The id of the subnet."""


class SecurityGroupSelectorTerm(ApiModel):
    """One way to find security groups: by tags, by id alone, or by name alone."""

    rules: ClassVar[tuple[Rule, ...]] = (
        NO_EMPTY_TAGS,
        Rule(
            f"[has(self.id), has(self.name), {TAGS_CEL}].exists_one(given, given)",
            "a security group term needs exactly one of tags, id and name",
        ),
    )

    tags: Tags = {}
    """Tags that the security group carries."""
    id: Annotated[str, Field(pattern=r"^sg-[0-9a-z]+$")] | None = None
    """The id of the security group."""
    name: Annotated[str, Field(min_length=1)] | None = None
    """The name of the security group (not its Name tag)."""


class CapacityReservationSelectorTerm(ApiModel):
    """One way to find capacity reservations: by tags, owner and match criteria, or by id alone."""

    rules: ClassVar[tuple[Rule, ...]] = (
        NO_EMPTY_TAGS,
        Rule(
            f"has(self.id) != ({TAGS_CEL} || has(self.ownerID) || has(self.instanceMatchCriteria))",
            "a capacity reservation term needs either id alone, or some of tags, ownerID and instanceMatchCriteria",
        ),
    )

    tags: Tags = {}
    """Tags that the reservation carries."""
    id: Annotated[str, Field(pattern=r"^cr-[0-9a-z]+$")] | None = None
    """The id of the reservation."""
    owner_id: Annotated[str, Field(pattern=r"^[0-9]{12}$")] | None = None
    """The account that owns the reservation."""
    instance_match_criteria: Literal["open", "targeted"] | None = None
    """Whether the reservation takes any matching instance, or only those that name it."""


class PlacementGroupSelector(ApiModel):
    """The placement group of the instances: by name or by id."""

    rules: ClassVar[tuple[Rule, ...]] = (
        exactly_one("name", "id", "placementGroupSelector needs either name or id, not both"),
    )

    name: Annotated[str, Field(min_length=1)] | None = None
    """The name of the placement group."""
    id: Annotated[str, Field(pattern=r"^pg-[0-9a-z]+$")] | None = None
    """The id of the placement group."""


OWNER_NEEDS_MORE = Rule(
    f"!has(self.owner) || {TAGS_CEL} || has(self.name)",
    "owner requires tags or name",
)


class AMISearch(ApiModel):
    """The ways to find machine images that v1beta1 has as well."""

    id: Annotated[str, Field(pattern=r"^ami-[0-9a-z]+$")] | None = None
    """The id of the image."""
    tags: Tags = {}
    """Tags that the image carries."""
    name: Annotated[str, Field(min_length=1)] | None = None
    """The name of the image, in which * stands for any text."""
    owner: Annotated[str, Field(min_length=1)] | None = None
    """The account, or account alias such as amazon, that owns the image."""


class AMISelectorTerm(AMISearch):
    """One way to find machine images: by alias, by id, by SSM parameter, or by tags, name and owner together."""

    rules: ClassVar[tuple[Rule, ...]] = (
        NO_EMPTY_TAGS,
        Rule(
            "[has(self.alias), has(self.id), has(self.ssmParameter), "
            f"{TAGS_CEL} || has(self.name)].exists_one(given, given)",
            "an AMI term needs exactly one of alias, id, ssmParameter, or tags and name",
        ),
        OWNER_NEEDS_MORE,
        Rule(
            "!has(self.alias) || !self.alias.startsWith('windows') || self.alias.endsWith('@latest')",
            "a windows alias takes only the version latest",
        ),
    )

    alias: Annotated[str, Field(max_length=30, pattern=rf"^({_ALIAS_FAMILIES})@.+$")] | None = None
    """An image family of EKS and its version, such as al2023@latest."""
    ssm_parameter: Annotated[str, Field(min_length=1)] | None = None
    """The SSM parameter that holds the id of the image."""

    @property
    def family(self) -> AMIFamily | None:
        """The AMI family that the alias names, such as AL2023; None without an alias."""
        return None if self.alias is None else FAMILY_OF_ALIAS[self.alias.partition("@")[0]]

    @property
    def version(self) -> str | None:
        """The version that the alias names, such as latest; None without an alias."""
        return None if self.alias is None else self.alias.partition("@")[2]
