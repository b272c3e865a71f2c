"""EC2NodeClass of karpenter.k8s.aws/v1beta1, which a conversion webhook converts to v1. Its status is that of v1."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tenon.apis.ami_families import V1beta1AMIFamily
from tenon.apis.base import SERVER, ApiModel, Rule
from tenon.apis.common import ObjectMeta
from tenon.apis.ec2launch import MetadataOptions
from tenon.apis.ec2nodeclass import (
    EITHER_ROLE_OR_PROFILE,
    NO_EMPTY_TAG_KEY,
    ONE_ROOT_VOLUME,
    EC2NodeClassStatus,
    LaunchSettings,
    without_own_tags,
)
from tenon.apis.ec2terms import NO_EMPTY_TAGS, OWNER_NEEDS_MORE, TAGS_CEL, AMISearch

OLD_OWN_TAGS = ("karpenter.sh/nodepool", "karpenter.sh/managed-by", "karpenter.sh/nodeclaim")
"""Tags that identified the owner of an instance. Users could not set them."""


class AMITerm(AMISearch):
    """One way to find machine images: by id alone, or by tags, name and owner together."""

    rules: ClassVar[tuple[Rule, ...]] = (
        NO_EMPTY_TAGS,
        Rule(
            f"has(self.id) != ({TAGS_CEL} || has(self.name))",
            "an AMI term needs either id alone, or tags or name",
        ),
        OWNER_NEEDS_MORE,
    )


class OldMetadataOptions(MetadataOptions):
    """The instance metadata service."""

    http_put_response_hop_limit: Annotated[int, Field(ge=1, le=64)] = 2
    """How many network hops an answer may take."""


class EC2NodeClassSpec(LaunchSettings):
    """How instances are found, launched and set up."""

    rules: ClassVar[tuple[Rule, ...]] = (
        EITHER_ROLE_OR_PROFILE,
        Rule(
            "!has(self.role) || !has(oldSelf.role) || self.role == oldSelf.role",
            "role cannot be changed in v1beta1",
            SERVER,
        ),
        Rule(
            "self.amiFamily != 'Custom' || (has(self.amiSelectorTerms) && self.amiSelectorTerms.size() > 0)",
            "amiFamily Custom needs amiSelectorTerms",
        ),
        NO_EMPTY_TAG_KEY,
        without_own_tags(OLD_OWN_TAGS),
        ONE_ROOT_VOLUME,
    )

    ami_selector_terms: Annotated[list[AMITerm], Field(max_length=30)] = []
    """The machine images that instances may run; none means the newest of the family."""
    ami_family: V1beta1AMIFamily
    """How user data and defaults are generated, and which images are used if no term names them."""
    metadata_options: OldMetadataOptions = Field(
        default_factory=lambda: OldMetadataOptions(http_put_response_hop_limit=1),
        json_schema_extra={"default": MetadataOptions().to_dict()},
    )
    """The instance metadata service."""


class EC2NodeClass(ApiModel):
    """How nodes are launched on AWS."""

    api_version: Literal["karpenter.k8s.aws/v1beta1"] = "karpenter.k8s.aws/v1beta1"
    kind: Literal["EC2NodeClass"] = "EC2NodeClass"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: EC2NodeClassSpec
    status: EC2NodeClassStatus = Field(default_factory=EC2NodeClassStatus)
