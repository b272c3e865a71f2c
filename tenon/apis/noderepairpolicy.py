"""NodeRepairPolicy (tenon.sh/v1alpha1): which conditions of a Node are faults, and what Tenon does about them.

Karpenter's repair policies are part of its AWS provider, and users cannot change them. Here they are objects: the
built-in policies are one of them, and users write others for some NodePools.
"""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tenon.apis.base import ApiModel, Rule, Timestamp
from tenon.apis.common import KEY_PATTERN, MAX_KEY, Conditions, ConditionStatus, LabelValue, ObjectMeta
from tenon.apis.cron import budget_problems
from tenon.apis.duration import BudgetDuration, PlainDuration
from tenon.apis.nodepool import BUDGET_NODES_PATTERN, SCHEDULE_PATTERN, SCHEDULES_PAIRED

Action = Literal["Wait", "RebootNode", "ReplaceNode"]

BUILT_IN = "built-in"
"""The name of the object that shows the built-in policies. The worker keeps it as they are."""
MAX_FAULTS = 100
MAX_STEPS = 10
MAX_EXPRESSION = 256
MAX_REPEATS = 2
"""With more, the time of a search grows with the third power of the reason's length."""
MAX_RECENT = 20
"""How many repairs the status of a policy lists."""
_REPEAT = re.compile(r"(?<!\\)[*+?{]")
_COSTLY = re.compile(r"\)[*+?{]|\(\?|\\[1-9]")
"""A repeated group, a group with a special meaning, or a back reference."""


class SelectorExpression(ApiModel):
    """A rule on one label of a NodePool."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
            "operators In and NotIn need at least one value, and Exists and DoesNotExist have none",
        ),
    )

    key: Annotated[str, Field(max_length=MAX_KEY, pattern=KEY_PATTERN)]
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label's value relates to the values."""
    values: Annotated[list[LabelValue], Field(max_length=100)] = []
    """The values: at least one for In and NotIn."""


class NodePoolSelector(ApiModel):
    """NodePools by their labels; an empty selector selects all."""

    match_labels: Annotated[dict[str, LabelValue], Field(max_length=100)] = {}
    """Labels that a NodePool must have."""
    match_expressions: Annotated[list[SelectorExpression], Field(max_length=100)] = []
    """Rules that the labels of a NodePool must satisfy."""


class RebootLimit(ApiModel):
    """How often a node is rebooted before the next step follows."""

    times: Annotated[int, Field(ge=1, le=100)]
    """The number of reboots."""
    within: PlainDuration
    """The time in which they count."""


class RepairStep(ApiModel):
    """One step of a ladder."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("!has(self.limit) || self.action == 'RebootNode'", "only RebootNode has a limit"),
        Rule("self.action != 'Wait' || has(self.patience)", "Wait needs patience: how long the fault may last on"),
    )

    action: Action
    """What is done: wait and look again, reboot the machine, or replace the node."""
    patience: PlainDuration | None = None
    """How long the fault lasts at this step before the action is taken, or before Wait ends."""
    limit: RebootLimit | None = None
    """How often a reboot is tried. Without a limit, the steps after it never follow."""


def _last_step(condition: str, sentence: str) -> Rule:
    """The rule that only the last step may be like this."""
    return Rule(
        f"!has(self.steps) || self.steps.filter(step, {condition}).size() == "
        f"(self.steps.size() > 0 && [self.steps[self.steps.size() - 1]].exists(step, {condition}) ? 1 : 0)",
        sentence,
    )


class FaultRule(ApiModel):
    """A condition of a Node that is a fault, and the steps that are taken while it lasts."""

    rules: ClassVar[tuple[Rule, ...]] = (
        _last_step("step.action == 'ReplaceNode'", "ReplaceNode must be the last step: no step follows it"),
        _last_step(
            "step.action == 'RebootNode' && !has(step.limit)",
            "RebootNode without a limit must be the last step: add a limit, or no step follows it",
        ),
    )

    condition_type: Annotated[str, Field(min_length=1, max_length=MAX_KEY)]
    """The type of the condition, such as Ready."""
    condition_status: ConditionStatus
    """The status that is a fault."""
    reason_regex: Annotated[str, Field(min_length=1, max_length=MAX_EXPRESSION)] | None = None
    """A regular expression that is searched in the condition's reason; unset means each reason that no other finds."""
    toleration_duration: PlainDuration
    """How long the condition may last before the first step."""
    termination_grace_period: PlainDuration | None = None
    """The most time that draining the node may take; unset: that of its NodeClaim; 0s: the node is not drained."""
    priority: Annotated[int, Field(ge=0, le=100)] = 0
    """Faults of a higher priority are repaired first; waiting for 30 minutes is worth one rank."""
    steps: Annotated[list[RepairStep], Field(min_length=1, max_length=MAX_STEPS)] = [RepairStep(action="ReplaceNode")]
    """What is done, one after the other, while the condition lasts."""


class RepairBudget(ApiModel):
    """How many nodes of the selected NodePools may be away at one time for a repair to begin."""

    nodes: Annotated[str, Field(pattern=BUDGET_NODES_PATTERN)]
    """A number of nodes, or a percentage of the nodes of all selected NodePools."""
    schedule: Annotated[str, Field(json_schema_extra={"pattern": SCHEDULE_PATTERN})] | None = None
    """When the budget begins to apply: cron with five fields, or @daily and the like, in UTC; unset means always."""
    duration: BudgetDuration | None = None
    """How long the budget applies after each time of the schedule, in hours and minutes."""


class NodeRepairPolicySpec(ApiModel):
    """Which NodePools are meant, and what is repaired there."""

    rules: ClassVar[tuple[Rule, ...]] = (SCHEDULES_PAIRED,)

    node_pool_selector: NodePoolSelector = Field(default_factory=NodePoolSelector)
    """The NodePools whose nodes are repaired by this policy."""
    weight: Annotated[int, Field(ge=1, le=100)] | None = None
    """If several policies select a NodePool, that of the highest weight holds; unset is the lowest."""
    faults: Annotated[list[FaultRule], Field(max_length=MAX_FAULTS)]
    """Which conditions are faults. An empty list turns repair off in the selected NodePools."""
    budgets: Annotated[list[RepairBudget], Field(max_length=50)] = []
    """Limits of repair in addition to the budgets of each NodePool; the strictest counts."""


class RepairOutcomes(ApiModel):
    """How many repairs of one action ended in which way."""

    action: Action
    """What was done."""
    outcome: str
    """How it ended, such as succeeded."""
    count: Annotated[int, Field(ge=0)]
    """How often."""


class RecentRepair(ApiModel):
    """One repair."""

    id: str
    """The disruption command, or the operation of a reboot."""
    node_claim: str = ""
    """The NodeClaim of the node."""
    fault: str = ""
    """The condition, its status and reason."""
    action: Action
    """What was done."""
    outcome: str
    """How it ended, such as succeeded."""
    at: Timestamp
    """When it ended."""


class NodeRepairPolicyStatus(ApiModel):
    """The status of the policy."""

    conditions: Conditions = []
    """Facts about the policy."""
    node_pools: Annotated[int, Field(ge=0)] | None = None
    """The number of NodePools whose nodes are repaired by this policy."""
    matching_nodes: Annotated[int, Field(ge=0)] | None = None
    """The number of nodes with a condition that a rule names now, whether or not its time is over."""
    outcomes: list[RepairOutcomes] = []
    """All repairs by action and outcome."""
    recent: Annotated[list[RecentRepair], Field(max_length=MAX_RECENT)] = []
    """The last repairs, the latest first."""


class NodeRepairPolicy(ApiModel):
    """Which conditions of a Node are faults, and what Tenon does about them."""

    api_version: Literal["tenon.sh/v1alpha1"] = "tenon.sh/v1alpha1"
    kind: Literal["NodeRepairPolicy"] = "NodeRepairPolicy"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: NodeRepairPolicySpec
    status: NodeRepairPolicyStatus = Field(default_factory=NodeRepairPolicyStatus)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield its problems as `ApiModel.problems` does."""
        yield from rule_problems(self.spec)
        yield from budget_problems(self.spec.budgets, "spec.budgets")


def rule_problems(spec: NodeRepairPolicySpec) -> Iterator[tuple[str, str]]:
    """Yield the path and the sentence of each problem that no single field shows."""
    index_of: dict[tuple[str, str, str | None], int] = {}
    for index, rule in enumerate(spec.faults):
        path = f"spec.faults[{index}]"
        if rule.reason_regex is not None and (problem := expression_problem(rule.reason_regex)):
            yield f"{path}.reasonRegex", problem
        key = (rule.condition_type, rule.condition_status, rule.reason_regex)
        if key in index_of:
            yield (
                path,
                f"names the same condition, status and reason as spec.faults[{index_of[key]}]: remove one of them",
            )
        index_of.setdefault(key, index)


def expression_problem(text: str) -> str:
    """Return why a regular expression is not accepted; empty if it is.

    Only expressions that take a short time for any reason are accepted, because one policy must not stop the others.
    """
    try:
        re.compile(text)
    except re.error as error:
        return f"{text!r} is not a regular expression: {error}"
    if _COSTLY.search(text):
        return f"{text!r} repeats a group, or uses (? or a back reference: write alternatives with | instead"
    if len(_REPEAT.findall(text)) > MAX_REPEATS:
        return f"{text!r} repeats something more than {MAX_REPEATS} times: write fewer of * + ? {{"
    return ""
