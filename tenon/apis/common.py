"""The types that NodePool, NodeClaim and EC2NodeClass share."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

import re
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from tenon.apis.base import SERVER, ApiModel, Instant, ResourceList, Rule, Timestamp
from tenon.apis.duration import Duration, PlainDuration
from tenon.apis.restricted import NAME_LENGTHS, cel_list

MAX_REQUIREMENTS = 100
MAX_KEY = 316
KEY_PATTERN = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
)
MAX_LABEL_VALUE = 63
LABEL_VALUE_PATTERN = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"]
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
ConditionStatus = Literal["True", "False", "Unknown"]
LabelValue = Annotated[str, Field(max_length=MAX_LABEL_VALUE, pattern=LABEL_VALUE_PATTERN)]
MAX_STORED_VALUE = 253
Value = Annotated[str, Field(max_length=MAX_STORED_VALUE)]
"""A value of a requirement. The API server stores any text, as upstream's does, so that a migrated object stays
updatable. `tenon.apis.validation` reports what is no label value, and the NodePool is not ready then."""
MAX_TAINTS = 100
BOUNDS = ("Gt", "Lt", "Gte", "Lte")
MAX_NUMBER = 2**63 - 1
"""The largest number that these operators take."""


def is_label_name(key: str) -> bool:
    """Whether Kubernetes accepts the key of a label: a name, or a domain and a name."""
    return re.fullmatch(KEY_PATTERN, key) is not None and re.fullmatch(NAME_LENGTHS, key) is not None


def is_label_value(value: str) -> bool:
    """Whether Kubernetes accepts the value of a label."""
    return len(value) <= MAX_LABEL_VALUE and re.fullmatch(LABEL_VALUE_PATTERN, value) is not None


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
    """True, False or Unknown."""
    reason: Annotated[str, Field(max_length=1024)] = ""
    """Why, in one CamelCase word."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Why, in a sentence."""
    last_transition_time: Timestamp
    """When the status last changed."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the object that the condition was computed from."""


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
    time_added: Instant | None = None
    """When the taint was added, which Kubernetes records for NoExecute; nothing depends on it."""


Taints = Annotated[list[Taint], Field(max_length=MAX_TAINTS)]


IN_NEEDS_VALUES = Rule(
    "self.operator != 'In' || (has(self.values) && self.values.size() > 0)",
    "operator In needs at least one value",
)
MIN_VALUES_LISTED = Rule(
    "self.operator != 'In' || !has(self.minValues) || (has(self.values) && self.values.size() >= self.minValues)",
    "minValues must not exceed the number of values that operator In lists",
)


def one_number(*operators: str, limited: bool = True) -> Rule:
    """Return the rule that these operators, which bound a number, have one.

    ``limited``: the number has 64 bits. The rules of older kinds, whose values have no maximum length, would become too
    expensive for the API server.
    """
    *others, last = operators
    limit = f"self.values[0].size() < 19 || self.values[0] <= '{MAX_NUMBER}'"
    digits = "{1,19}" if limited else "+"
    most = f"from 0 to {MAX_NUMBER}" if limited else "that is not negative"
    return Rule(
        f"!(self.operator in {cel_list(operators)}) || "
        f"(has(self.values) && self.values.size() == 1 && self.values[0].matches('^[0-9]{digits}$')"
        + (f" && ({limit}))" if limited else ")"),
        f"operators {', '.join(others)} and {last} need exactly one value, a whole number {most}",
    )


class SelectorRequirement(ApiModel):
    """A rule on the value of one label."""

    rules: ClassVar[tuple[Rule, ...]] = (
        IN_NEEDS_VALUES,
        one_number(*BOUNDS),
        MIN_VALUES_LISTED,
    )

    key: Annotated[str, Field(max_length=MAX_KEY, pattern=KEY_PATTERN)]
    """The label."""
    operator: Operator
    """How the label's value relates to the values."""
    values: list[Value] = []
    """The values: at least one for In; exactly one whole number for Gt, Lt, Gte, Lte; none for Exists, DoesNotExist."""
    min_values: Annotated[int, Field(ge=1, le=50)] | None = None
    """How many different values of the label a launch must allow at least."""


class NodeClassRef(ApiModel):
    """The object with the cloud's part of a node's description, such as an EC2NodeClass."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("self.group == oldSelf.group", "nodeClassRef.group cannot be changed", SERVER),
        Rule("self.kind == oldSelf.kind", "nodeClassRef.kind cannot be changed", SERVER),
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


class NodeSpec(ApiModel):
    """What NodePools and NodeClaims say about a node."""

    taints: Taints = []
    """Taints of the node, from its registration to its end."""
    startup_taints: Taints = []
    """Taints that another agent removes before the node counts as initialized; plans ignore them."""
    requirements: Annotated[list[SelectorRequirement], Field(max_length=MAX_REQUIREMENTS)]
    """Rules on the labels of the node."""
    node_class_ref: NodeClassRef
    """The object that says how instances are launched, such as an EC2NodeClass."""
    expire_after: Duration = Duration("720h")
    """How old the node may become; Never turns expiry off."""
    termination_grace_period: PlainDuration | None = None
    """How long draining may take before it becomes forceful; unset means no limit."""
