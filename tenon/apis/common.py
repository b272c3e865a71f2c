"""The pieces that NodePool, NodeClaim and EC2NodeClass share."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from tenon.apis.base import ApiModel, ResourceList, Rule, Timestamp

MAX_REQUIREMENTS = 100
MAX_KEY = 316
KEY_PATTERN = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
)
LABEL_VALUE_PATTERN = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"]
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
ConditionStatus = Literal["True", "False", "Unknown"]
LabelValue = Annotated[str, Field(max_length=63, pattern=LABEL_VALUE_PATTERN)]
BOUNDS = ("Gt", "Lt", "Gte", "Lte")


class OwnerReference(ApiModel):
    """The object that this one belongs to."""

    model_config = ConfigDict(extra="allow")

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(ApiModel):
    """Kubernetes metadata; what is not named here is kept as it came."""

    model_config = ConfigDict(extra="allow")

    name: str = ""
    generate_name: str | None = None
    uid: str = ""
    resource_version: str | None = None
    generation: int = 0
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[OwnerReference] = []


class Condition(ApiModel):
    """One observed fact about an object."""

    type: Annotated[str, Field(max_length=316)]
    """What the fact is about, such as Ready."""
    status: ConditionStatus
    """Whether it holds."""
    reason: Annotated[str, Field(max_length=1024)] = ""
    """Why, in one CamelCase word."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Why, in a sentence."""
    last_transition_time: Timestamp
    """When the status last changed."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the object that was looked at."""


Conditions = Annotated[
    list[Condition],
    Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
]


class Taint(ApiModel):
    """A taint of a node."""

    key: Annotated[str, Field(min_length=1, max_length=MAX_KEY, pattern=KEY_PATTERN)]
    """The key of the taint."""
    value: LabelValue = ""
    """The value of the taint."""
    effect: Effect
    """What happens to pods that do not tolerate the taint."""


def _in_has_values(requirement: SelectorRequirement) -> bool:
    return requirement.operator != "In" or len(requirement.values) > 0


def _bound_ok(requirement: SelectorRequirement) -> bool:
    if requirement.operator not in BOUNDS:
        return True
    return len(requirement.values) == 1 and re.fullmatch(r"[0-9]+", requirement.values[0]) is not None


def _min_values_ok(requirement: SelectorRequirement) -> bool:
    if requirement.operator != "In" or requirement.min_values is None:
        return True
    return len(requirement.values) >= requirement.min_values


class SelectorRequirement(ApiModel):
    """A rule on the value of one label."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.operator != 'In' || (has(self.values) && self.values.size() > 0)",
            "operator In needs at least one value",
            _in_has_values,
        ),
        Rule(
            "!(self.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || "
            "(has(self.values) && self.values.size() == 1 && self.values[0].matches('^[0-9]+$'))",
            "operators Gt, Lt, Gte and Lte need exactly one value, a whole number that is not negative",
            _bound_ok,
        ),
        Rule(
            "self.operator != 'In' || !has(self.minValues) || "
            "(has(self.values) && self.values.size() >= self.minValues)",
            "minValues must not exceed the number of values that operator In lists",
            _min_values_ok,
        ),
    )

    key: Annotated[str, Field(max_length=MAX_KEY, pattern=KEY_PATTERN)]
    """The label."""
    operator: Operator
    """How the label's value relates to the values."""
    values: list[Annotated[str, Field(max_length=63)]] = []
    """The values: at least one for In; exactly one whole number for Gt, Lt, Gte, Lte; none for Exists, DoesNotExist."""
    min_values: Annotated[int, Field(ge=1, le=50)] | None = None
    """How many different values of the label a launch must stay flexible over."""


class NodeClassRef(ApiModel):
    """The cloud's part of a node's description."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("self.group == oldSelf.group", "nodeClassRef.group cannot be changed"),
        Rule("self.kind == oldSelf.kind", "nodeClassRef.kind cannot be changed"),
    )

    group: Annotated[str, Field(min_length=1, pattern=r"^[^/]*$")]
    """The API group of the class, such as karpenter.k8s.aws."""
    kind: Annotated[str, Field(min_length=1)]
    """The kind of the class, such as EC2NodeClass."""
    name: Annotated[str, Field(min_length=1)]
    """The name of the class."""


class NodeResources(ApiModel):
    """What a node must offer."""

    requests: ResourceList = {}
    """The least amount of each resource."""
