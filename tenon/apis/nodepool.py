"""NodePool (karpenter.sh/v1): which nodes Tenon may create, and when it may disrupt them."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from tenon.apis import labels
from tenon.apis.base import SERVER, ApiModel, FaultKind, ResourceList, Rule, not_both
from tenon.apis.common import KEY_PATTERN, Conditions, LabelValue, NodeSpec, ObjectMeta
from tenon.apis.conditions import VALIDATION_SUCCEEDED
from tenon.apis.duration import BudgetDuration, Duration
from tenon.apis.reasons import BUDGETED
from tenon.apis.restricted import KNOWN_VALUES, cel_allowed, cel_list
from tenon.resources import NODES

ConsolidationPolicy = Literal["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"]
if TYPE_CHECKING:
    BudgetReason = str
else:
    BudgetReason = Literal[tuple(reason.value for reason in BUDGETED)]

BUDGET_NODES_PATTERN = r"^((100|[0-9]{1,2})%|[0-9]+)$"


def _cron_field(value: str) -> str:
    part = rf"(\*|\?|({value})(-({value}))?)(/[1-9][0-9]{{0,2}})?"
    return rf"{part}(,{part})*"


def _any_case(names: str) -> str:
    return "|".join("".join(f"[{c}{c.upper()}]" for c in name) for name in names.split())


_CRON = r"[ \t]+".join(
    map(
        _cron_field,
        (
            "[0-5]?[0-9]",
            "[01]?[0-9]|2[0-3]",
            "0?[1-9]|[12][0-9]|3[01]",
            f"0?[1-9]|1[0-2]|{_any_case('jan feb mar apr may jun jul aug sep oct nov dec')}",
            f"[0-7]|{_any_case('sun mon tue wed thu fri sat')}",
        ),
    )
)
SCHEDULE_PATTERN = rf"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly)|{_CRON})$"
"""Standard cron, without the random, last-day and nth-weekday letters that only some programs support."""

NODECLASS_READY = "NodeClassReady"
NODE_LAUNCH_HEALTHY = "NodeLaunchHealthy"
"""False while EC2 refuses to launch its nodes. Set only after the first refusal; not one of READY_DEPENDENTS."""
NODE_REGISTRATION_HEALTHY = "NodeRegistrationHealthy"
"""Whether its last launched NodeClaims became Nodes; not one of READY_DEPENDENTS."""
CAPACITY_AVAILABLE = "CapacityAvailable"
"""False while EC2 lacks capacity for its nodes. Set only after such a shortage; not one of READY_DEPENDENTS."""
CONSOLIDATION_SLOWED = "ConsolidationSlowed"
"""Its last consolidation commands saved less than predicted. Set only if that is so; not one of READY_DEPENDENTS."""
OVERLAPPING = "Overlapping"
"""The pool accepts the same pods as another pool. Set only if that is so; not one of READY_DEPENDENTS."""
SCHEDULED_OFF = "ScheduledOff"
"""A NodeSchedule has the pool off, or will soon. Set only if that is so; not one of READY_DEPENDENTS."""
READY_DEPENDENTS = (VALIDATION_SUCCEEDED, NODECLASS_READY)


class TemplateMetadata(ApiModel):
    """Labels and annotations of every node of the pool."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"!has(self.labels) || self.labels.all(key, key != '{labels.NODEPOOL}' && {cel_allowed('key')})",
            "labels must not use a reserved label",
            kind=FaultKind.RESERVED_LABELS,
        ),
        Rule(
            f"!has(self.labels) || self.labels.all(key, key.matches(r'{KEY_PATTERN}'))",
            "the keys of labels must be label names: write name or domain/name",
            SERVER,
        ),
        *(
            Rule(
                f"!has(self.labels) || !('{key}' in self.labels) || self.labels['{key}'] in {cel_list(known_values)}",
                f"label {key} has only the values {', '.join(known_values)}",
                SERVER,
            )
            for key, known_values in KNOWN_VALUES.items()
        ),
    )

    labels: Annotated[dict[str, LabelValue], Field(max_length=100)] = {}
    """Labels of the nodes; they are requirements as well."""
    annotations: dict[str, str] = {}
    """Annotations of the nodes."""


class TemplateSpec(NodeSpec):
    """What every node of the pool is like."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.requirements.all(term, term.key != '{labels.NODEPOOL}' && {cel_allowed('term.key')})",
            "requirements must not use a reserved label",
            kind=FaultKind.RESERVED_REQUIREMENTS,
        ),
    )


class NodeClaimTemplate(ApiModel):
    """The description of the pool's nodes."""

    metadata: TemplateMetadata = Field(default_factory=TemplateMetadata)
    """Labels and annotations of the nodes."""
    spec: TemplateSpec
    """What the nodes are like."""


class Budget(ApiModel):
    """How many nodes may be leaving at one time."""

    nodes: Annotated[str, Field(pattern=BUDGET_NODES_PATTERN)] = "10%"
    """A number of nodes, or a percentage of the pool's nodes."""
    reasons: Annotated[list[BudgetReason], Field(max_length=50)] | None = None
    """The reasons that this budget limits; unset means all."""
    schedule: Annotated[str, Field(json_schema_extra={"pattern": SCHEDULE_PATTERN})] | None = None
    """When the budget begins to apply: cron with five fields, or @daily and the like, in UTC; unset means always."""
    duration: BudgetDuration | None = None
    """How long the budget applies after each time of the schedule, in hours and minutes."""


SCHEDULES_PAIRED = Rule(
    "!has(self.budgets) || self.budgets.all(budget, has(budget.schedule) == has(budget.duration))",
    "a budget's schedule and duration must be given together",
)


class Disruption(ApiModel):
    """When nodes of the pool may be removed."""

    rules: ClassVar[tuple[Rule, ...]] = (SCHEDULES_PAIRED,)

    consolidation_policy: ConsolidationPolicy = "WhenEmptyOrUnderutilized"
    """Which nodes may be removed to save money."""
    consolidate_after: Duration = Duration("0s")
    """How long after the last change of its pods a node may be removed to save money; Never turns this off."""
    budgets: Annotated[list[Budget], Field(max_length=50)] = [Budget(nodes="10%")]
    """How many nodes may be leaving at one time; if several budgets apply, the strictest counts."""


class NodePoolSpec(ApiModel):
    """The desired state of the pool."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.replicas) == has(oldSelf.replicas)",
            "replicas cannot be added to or removed from a NodePool",
            SERVER,
        ),
        Rule(
            f"!has(self.replicas) || !has(self.limits) || self.limits.all(name, name == '{NODES}')",
            "with replicas, limits may only bound nodes",
        ),
        not_both("replicas", "weight", "with replicas, weight is not allowed"),
    )

    template: NodeClaimTemplate
    """The description of the pool's nodes."""
    disruption: Disruption = Field(
        default_factory=Disruption, json_schema_extra={"default": {"consolidateAfter": "0s"}}
    )
    """When nodes may be removed."""
    limits: ResourceList = {}
    """The most that all nodes of the pool may have together, for each resource; nodes limits their number."""
    weight: Annotated[int, Field(ge=1, le=100)] | None = None
    """Pools of a higher weight are tried first; unset is the lowest."""
    replicas: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """A fixed number of nodes, whatever pods request. Needs the gate StaticCapacity; can be added only at creation."""


class NodePoolStatus(ApiModel):
    """The status of the pool."""

    resources: ResourceList = {}
    """The capacity of all nodes of the pool together."""
    nodes: int = 0
    """The number of nodes."""
    node_class_observed_generation: int | None = None
    """The generation of the class when the health of registrations was last reset."""
    price_per_hour: str = ""
    """What the nodes cost in dollars an hour, at the prices that plans use; changes of up to 1 % are not written."""
    conditions: Conditions = []
    """Facts about the pool."""


class NodePool(ApiModel):
    """Which nodes may be launched, how many, and when they may be removed."""

    api_version: Literal["karpenter.sh/v1"] = "karpenter.sh/v1"
    kind: Literal["NodePool"] = "NodePool"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: NodePoolSpec
    status: NodePoolStatus = Field(default_factory=NodePoolStatus)
