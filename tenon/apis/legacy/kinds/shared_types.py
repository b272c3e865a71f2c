"""The types that the kinds before v1 share."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tenon.apis.base import ApiModel, Rule
from tenon.apis.common import IN_NEEDS_VALUES, KEY_PATTERN, MAX_KEY, ConditionStatus, one_number
from tenon.apis.kubelet import ManagedSettings

OldOperator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]


class OldKubelet(ManagedSettings):
    """Settings of the nodes' kubelet; others than these were not passed on."""

    container_runtime: str | None = None
    """The container runtime; every node runs containerd now."""


class OldCondition(ApiModel):
    """One observed fact about an object."""

    type: str
    """What the fact is about, such as Ready."""
    status: ConditionStatus
    """True, False or Unknown."""
    severity: str | None = None
    """How bad it is when it does not hold."""
    reason: str | None = None
    """Why, in one CamelCase word."""
    message: str | None = None
    """Why, in a sentence."""
    last_transition_time: str | None = None
    """When the status last changed."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the object that the condition was computed from."""


OldConditions = list[OldCondition]


class OldRequirement(ApiModel):
    """A rule on the value of one label."""

    rules: ClassVar[tuple[Rule, ...]] = (IN_NEEDS_VALUES, one_number("Gt", "Lt", limited=False))

    key: Annotated[str, Field(max_length=MAX_KEY, pattern=KEY_PATTERN)]
    """The label."""
    operator: OldOperator
    """How the label's value relates to the values."""
    values: list[Annotated[str, Field(max_length=63)]] = []
    """The values: at least one for In; exactly one whole number for Gt and Lt; none for Exists and DoesNotExist."""
