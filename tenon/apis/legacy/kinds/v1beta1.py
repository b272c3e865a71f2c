"""NodePool and NodeClaim of karpenter.sh/v1beta1, which a conversion webhook converts to v1.

They have the status of v1, so that the API server does not prune the status fields that the webhook leaves unchanged.
"""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from tenon.apis import labels
from tenon.apis.base import SERVER, Amounts, ApiModel, FaultKind, Rule
from tenon.apis.common import MAX_REQUIREMENTS, MIN_VALUES_LISTED, NodeResources, ObjectMeta, Taint
from tenon.apis.duration import BudgetDuration, Duration
from tenon.apis.legacy.kinds.closed import cel_open
from tenon.apis.legacy.kinds.shared_types import OldKubelet, OldRequirement
from tenon.apis.nodeclaim import NodeClaimStatus
from tenon.apis.nodepool import BUDGET_NODES_PATTERN, SCHEDULE_PATTERN, SCHEDULES_PAIRED, NodePoolStatus
from tenon.apis.nodepool import TemplateMetadata as TemplateMetadataV1


def _unchanged(adjective: str, sentence: str) -> Rule:
    """Return a transition rule: the value of the expression over ``self`` must not change."""
    return Rule(f"({adjective}) == ({adjective.replace('self.', 'oldSelf.')})", sentence, SERVER)


class ClassReference(ApiModel):
    """The object with the cloud's part of a node's description, such as an EC2NodeClass."""

    rules: ClassVar[tuple[Rule, ...]] = (
        _unchanged(
            f"has(self.apiVersion) && self.apiVersion != '' ? self.apiVersion.split('/')[0] : '{labels.AWS_GROUP}'",
            "the group of nodeClassRef.apiVersion cannot be changed",
        ),
        _unchanged(
            "has(self.kind) && self.kind != '' ? self.kind : 'EC2NodeClass'", "nodeClassRef.kind cannot be changed"
        ),
    )

    api_version: str | None = None
    """The API version of the class, such as karpenter.k8s.aws/v1beta1."""
    kind: str | None = None
    """The kind of the class, such as EC2NodeClass."""
    name: Annotated[str, Field(min_length=1)]
    """The name of the class."""


class Requirement(OldRequirement):
    """A rule on the value of one label."""

    rules: ClassVar[tuple[Rule, ...]] = (*OldRequirement.rules, MIN_VALUES_LISTED)

    min_values: Annotated[int, Field(ge=1, le=50)] | None = None
    """How many different values of the label a launch must allow at least."""


class NodeSpec(ApiModel):
    """What NodePools and NodeClaims say of a node."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.requirements.all(term, {cel_open('term.key')})",
            "requirements must not use a reserved label",
            kind=FaultKind.RESERVED_REQUIREMENTS,
        ),
    )

    taints: list[Taint] = []
    """Taints of the node, from its registration to its end."""
    startup_taints: list[Taint] = []
    """Taints that something else removes before the node counts as initialized."""
    requirements: Annotated[list[Requirement], Field(max_length=MAX_REQUIREMENTS)]
    """Rules on the labels of the node."""
    kubelet: OldKubelet | None = None
    """Settings of the node's kubelet; in v1 they belong to the EC2NodeClass."""
    node_class_ref: ClassReference
    """The object that says how instances are launched, such as an EC2NodeClass."""


class NodeClaimSpec(NodeSpec):
    """What the node must be like; fixed once it is written."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("self == oldSelf", "the spec of a NodeClaim cannot be changed", SERVER),
        *NodeSpec.rules,
    )

    resources: NodeResources = Field(default_factory=NodeResources)
    """What the node must offer."""


class NodeClaim(ApiModel):
    """One node, requested or running: what it must be like, and its status."""

    api_version: Literal["karpenter.sh/v1beta1"] = "karpenter.sh/v1beta1"
    kind: Literal["NodeClaim"] = "NodeClaim"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: NodeClaimSpec
    status: NodeClaimStatus = Field(default_factory=NodeClaimStatus)


class TemplateMetadata(TemplateMetadataV1):
    """Labels and annotations of every node of the pool."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"!has(self.labels) || self.labels.all(key, key != '{labels.NODEPOOL}' && {cel_open('key')})",
            "labels must not use a reserved label",
            kind=FaultKind.RESERVED_LABELS,
        ),
    )


class TemplateSpec(NodeSpec):
    """What every node of the pool is like."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *NodeSpec.rules,
        Rule(
            f"self.requirements.all(term, term.key != '{labels.NODEPOOL}')",
            f"requirements must not use the label {labels.NODEPOOL}: it is set from the NodePool's name",
        ),
    )

    resources: Annotated[dict[str, Any], Field(max_length=0)] = {}
    """Always empty: what the nodes must offer follows from the pods."""


class Template(ApiModel):
    """The description of the pool's nodes."""

    metadata: TemplateMetadata = Field(default_factory=TemplateMetadata)
    """Labels and annotations of the nodes."""
    spec: TemplateSpec
    """What the nodes are like."""


class Budget(ApiModel):
    """How many nodes may be leaving at one time."""

    nodes: Annotated[str, Field(pattern=BUDGET_NODES_PATTERN)] = "10%"
    """A number of nodes, or a percentage of the pool's nodes."""
    schedule: Annotated[str, Field(pattern=SCHEDULE_PATTERN)] | None = None
    """When the budget begins to apply: cron with five fields, or @daily and the like, in UTC; unset means always."""
    duration: BudgetDuration | None = None
    """How long the budget applies after each time of the schedule, in hours and minutes."""


class Disruption(ApiModel):
    """When nodes of the pool may be removed."""

    rules: ClassVar[tuple[Rule, ...]] = (
        SCHEDULES_PAIRED,
        Rule(
            "self.consolidationPolicy != 'WhenEmpty' || has(self.consolidateAfter)",
            "consolidationPolicy WhenEmpty needs consolidateAfter",
        ),
        Rule(
            "self.consolidationPolicy != 'WhenUnderutilized' || !has(self.consolidateAfter) || "
            "self.consolidateAfter == 'Never'",
            "consolidationPolicy WhenUnderutilized takes no consolidateAfter before v1: leave one of them out",
        ),
    )

    consolidation_policy: Literal["WhenEmpty", "WhenUnderutilized"] = "WhenUnderutilized"
    """Which nodes may be removed to save money."""
    consolidate_after: Duration | None = None
    """How long an empty node is kept; with WhenEmpty only."""
    expire_after: Duration = Duration("720h")
    """How old a node may become; Never turns expiry off."""
    budgets: Annotated[list[Budget], Field(max_length=50)] = [Budget(nodes="10%")]
    """How many nodes may be leaving at one time; if several budgets apply, the strictest counts."""


class NodePoolSpec(ApiModel):
    """The desired state of the pool."""

    template: Template
    """The description of the pool's nodes."""
    disruption: Disruption = Field(
        default_factory=Disruption,
        json_schema_extra={"default": {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h"}},
    )
    """When nodes may be removed."""
    limits: Amounts = {}
    """The most that all nodes of the pool may have together, for each resource."""
    weight: Annotated[int, Field(ge=1, le=100)] | None = None
    """Pools of a higher weight are tried first; unset is the lowest."""


class NodePool(ApiModel):
    """Which nodes may be launched, and when they may be removed."""

    api_version: Literal["karpenter.sh/v1beta1"] = "karpenter.sh/v1beta1"
    kind: Literal["NodePool"] = "NodePool"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: NodePoolSpec
    status: NodePoolStatus = Field(default_factory=NodePoolStatus)
