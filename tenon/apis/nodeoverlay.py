"""NodeOverlay (karpenter.sh/v1alpha1): overrides prices and capacity for planning, where EC2 does not report them."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tenon.apis.base import Amounts, ApiModel, FaultKind, Rule, not_both
from tenon.apis.common import (
    BOUNDS,
    KEY_PATTERN,
    MAX_KEY,
    MAX_REQUIREMENTS,
    Conditions,
    LabelValue,
    ObjectMeta,
    Operator,
    one_number,
)
from tenon.apis.restricted import NAME_LENGTHS, cel_allowed
from tenon.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

PRICE_PATTERN = r"^[0-9]+(\.[0-9]+)?$"
ADJUSTMENT_PATTERN = r"^(\+[0-9]*\.?[0-9]+%?|-[0-9]*\.?[0-9]+|-([0-9]{1,2}(\.[0-9]+)?|\.[0-9]+|100(\.0+)?)%)$"
NOT_OVERLAID = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
"""Resources that an overlay cannot change, because EC2 reports them."""

CONFLICT = "Conflict"
"""A reason of ValidationSucceeded=False: another overlay of the same weight changes the same value."""


class OverlayRequirement(ApiModel):
    """A rule on one label of the types or offerings that are meant."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!(self.operator in ['In', 'NotIn']) || (has(self.values) && self.values.size() > 0)",
            "operators In and NotIn need at least one value",
        ),
        one_number(*BOUNDS),
        Rule(
            cel_allowed("self.key"),
            "requirements must not use a reserved label",
            kind=FaultKind.RESERVED_REQUIREMENTS,
        ),
        Rule(
            f"self.key.matches(r'{NAME_LENGTHS}')",
            "a key has at most 63 characters, and 253 in its domain",
        ),
    )

    key: Annotated[str, Field(max_length=MAX_KEY, pattern=KEY_PATTERN)]
    """The label."""
    operator: Operator
    """How the label's value relates to the values."""
    values: list[LabelValue] = []
    """The values: at least one for In, NotIn; one whole number for Gt, Lt, Gte, Lte; none for Exists, DoesNotExist."""


class NodeOverlaySpec(ApiModel):
    """What is changed, and on which types and offerings."""

    rules: ClassVar[tuple[Rule, ...]] = (
        not_both("price", "price_adjustment", "price and priceAdjustment exclude each other: give one of them"),
        Rule(
            "!has(self.capacity) || self.capacity.all(name, "
            f"!(name in [{', '.join(repr(name) for name in NOT_OVERLAID)}]))",
            f"capacity must not set {', '.join(NOT_OVERLAID)}",
        ),
    )

    requirements: Annotated[list[OverlayRequirement], Field(max_length=MAX_REQUIREMENTS)]
    """Rules on the labels of the types, offerings and NodePools that the overlay applies to; none means all."""
    price: Annotated[str, Field(max_length=64, pattern=PRICE_PATTERN)] | None = None
    """The price of an offering in dollars an hour."""
    price_adjustment: Annotated[str, Field(max_length=64, pattern=ADJUSTMENT_PATTERN)] | None = None
    """What is added to the price, in dollars an hour or percent, with its sign: +0.5, -10%. No price is below zero."""
    capacity: Annotated[Amounts, Field(max_length=100)] = {}
    """Extended resources that the types have in addition to what EC2 reports."""
    weight: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Overlays of a higher weight win; unset is the lowest."""


class NodeOverlayStatus(ApiModel):
    """The status of the overlay."""

    conditions: Conditions = []
    """Facts about the overlay."""


class NodeOverlay(ApiModel):
    """Prices and extended resources that plans use for instance types."""

    api_version: Literal["karpenter.sh/v1alpha1"] = "karpenter.sh/v1alpha1"
    kind: Literal["NodeOverlay"] = "NodeOverlay"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: NodeOverlaySpec
    status: NodeOverlayStatus = Field(default_factory=NodeOverlayStatus)
