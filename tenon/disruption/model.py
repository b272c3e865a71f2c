"""The input and output of disruption: nodes, the policies of their NodePools, and commands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tenon.apis import labels
from tenon.apis.approvals import DEFAULT_WITHIN, EVERY_REASON, ApprovalRule, read_approval_rules, read_approve_within
from tenon.apis.boolean_annotations import read_boolean
from tenon.apis.consolidation_limits import LeastSaving, read_least_saving, read_rest
from tenon.apis.disruption_windows import DisruptionWindow, read_windows
from tenon.apis.disruptionfreeze import DisruptionFreeze
from tenon.apis.expiration import expires_within_budgets
from tenon.apis.nodepool import NODES, Budget, ConsolidationPolicy, NodePool
from tenon.apis.reasons import Reason
from tenon.disruption.freezes.freeze import Freeze, freezes_for
from tenon.disruption.history.arrivals import Arrival
from tenon.disruption.repair.decision import RepairDecision
from tenon.disruption.repair.policies import RepairAction
from tenon.disruption.repair.pool_policies import PoolRepair
from tenon.kube.pod import Pod
from tenon.kube.records import NodeCondition
from tenon.messages.base import REBOOT
from tenon.rollout.versions import PoolRollout
from tenon.scheduling.cluster_facts import ClusterFacts
from tenon.scheduling.model import PlannedClaim, Pool, Problem
from tenon.scheduling.type_table import TypeTables

if TYPE_CHECKING:  # plans for pending pods use some of this, and no message
    from tenon.messages.disruption import PassCursor
    from tenon.messages.terminate_first import TerminateFirstReason

ValueT = TypeVar("ValueT")
AbsentT = TypeVar("AbsentT")
BrokenT = TypeVar("BrokenT")

_TOO_MUCH = LeastSaving(dollars=inf)
_TOO_LONG = timedelta(days=36500)


@dataclass(frozen=True, slots=True)
class PoolPolicy:
    """What a NodePool says about disruption. ``consolidate_after`` is None for Never."""

    name: str
    consolidate_after: timedelta | None
    budgets: tuple[Budget, ...] = (Budget(),)
    consolidation_policy: ConsolidationPolicy = "WhenEmptyOrUnderutilized"
    replicas: int | None = None
    """The number of nodes of a static pool; None for a pool that follows its pods."""
    least_saving: LeastSaving | None = None
    """What a consolidation must save at least (WSH-02); None if the NodePool does not say."""
    rest_after_move: timedelta = timedelta()
    """How long consolidation leaves alone a node that was created for a consolidation (WSH-01)."""
    windows: tuple[DisruptionWindow, ...] | None = ()
    """The only times at which its nodes may be disrupted (WSH-14): always if empty, never if None."""
    takes_pods_early: bool = False
    """Consolidation moves pods to its nodes although consolidateAfter is not over for them."""
    expire_within_budgets: bool = False
    """Expired nodes wait for the budgets (WSH-28). Without it, their workflows remove them at once."""
    approvals: tuple[ApprovalRule, ...] = ()
    """Which of its commands wait until a person approves them."""
    approve_within: timedelta = DEFAULT_WITHIN
    """How long they wait."""
    freezes: tuple[Freeze, ...] = ()
    """The DisruptionFreezes that are meant for it, whether or not they hold now."""

    @property
    def keeps_nodes_with_pods(self) -> bool:
        """Whether consolidation removes only empty nodes."""
        return self.consolidation_policy == "WhenEmpty"


def policies_of(pools: Iterable[NodePool], freezes: Sequence[DisruptionFreeze] = ()) -> dict[str, PoolPolicy]:
    """Return the policy of each NodePool by its name."""
    return {pool.metadata.name: policy_of(pool, freezes) for pool in pools}


def policy_of(pool: NodePool, freezes: Sequence[DisruptionFreeze] = ()) -> PoolPolicy:
    """Return the policy of a NodePool. A static pool keeps its nodes whether or not they are empty.

    ``freezes``: all DisruptionFreezes of the cluster.
    """
    disruption = pool.spec.disruption
    seconds = None if pool.spec.replicas is not None else disruption.consolidate_after.seconds
    return PoolPolicy(
        name=pool.metadata.name,
        consolidate_after=None if seconds is None else timedelta(seconds=seconds),
        budgets=tuple(disruption.budgets),
        consolidation_policy=disruption.consolidation_policy,
        replicas=pool.spec.replicas,
        least_saving=_annotated(pool, labels.LEAST_SAVING, read_least_saving, absent=None, broken=_TOO_MUCH),
        takes_pods_early=_annotated(pool, labels.TAKES_PODS_EARLY, read_boolean, absent=False, broken=False),
        rest_after_move=_annotated(pool, labels.REST_AFTER_MOVE, read_rest, absent=timedelta(), broken=_TOO_LONG),
        windows=_annotated(pool, labels.DISRUPTION_WINDOWS, read_windows, absent=(), broken=None),
        expire_within_budgets=expires_within_budgets(pool.metadata.annotations),
        approvals=_annotated(pool, labels.APPROVE, read_approval_rules, absent=(), broken=EVERY_REASON),
        approve_within=_annotated(
            pool, labels.APPROVE_WITHIN, read_approve_within, absent=DEFAULT_WITHIN, broken=DEFAULT_WITHIN
        ),
        freezes=freezes_for(freezes, pool.metadata.name, pool.metadata.labels),
    )


def _annotated(
    pool: NodePool, key: str, read: Callable[[str], ValueT], *, absent: AbsentT, broken: BrokenT
) -> ValueT | AbsentT | BrokenT:
    text = pool.metadata.annotations.get(key)
    if text is None:
        return absent
    try:
        return read(text)
    except ValueError:  # the NodePool's condition ValidationSucceeded says why
        return broken


@dataclass(frozen=True, slots=True)
class ManagedNode:
    """A NodeClaim with its Node as disruption sees them, so that methods need neither the cache nor JSON.

    It only says whether there are pods: ``empty`` is true if no pod on the node would need another node, and none is on
    its way. ``quiet_since`` is set only for empty nodes: the last pod event, or the initialization if that is later.
    ``protected_by`` covers annotations of Node and NodeClaim; ``held_by`` covers pods, but only those of empty nodes.
    """

    claim: str
    uid: str
    pool: str
    initialized: bool
    ready: bool
    leaving: bool
    empty: bool
    quiet_since: datetime | None
    node: str = ""
    """The name of its Node."""
    terminating: bool = False
    """Its instance is being terminated. Budgets no longer count the node (DIS-50)."""
    protected_by: str = ""
    """The annotation that protects it, as `tenon.kube.protection.node_protection` says it."""
    protected_until: datetime | None = None
    """When that ends; None if time alone does not end it."""
    held_by: str = ""
    """The DaemonSet or static pod of an empty node, and what protects it, that keeps graceful methods away (DIS-13)."""
    drifted: bool = False
    """Its NodeClaim has the condition Drifted."""
    disrupted_by: str = ""
    """The ID of the open command that prepares to remove it."""
    replacement_for: str = ""
    """The ID of the open command that it was created for."""
    created_for: str = ""
    """The reason of the command that it was created for, which may have ended long ago."""
    arrivals: tuple[Arrival, ...] = ()
    """Which pods commands moved to it in the last day."""
    bought_in_shortage: bool = False
    """It cost far more than what EC2 refused at the time, so it is to be replaced soon and takes no pods."""
    usual_price: float = 0.0
    """What EC2 refused at the time, in dollars an hour; 0 if unknown."""
    expires_at: datetime | None = None
    """When it expires, or the end of an operator's keep request if that is later; None if never."""

    registered: bool = True
    """Its Node has joined. It may not be initialized yet."""
    unhealthy: tuple[NodeCondition, ...] = ()
    """The conditions of its Node that may be faults. Most nodes have none."""
    node_created_at: datetime | None = None
    """When its Node was created."""
    repair_veto: str = ""
    """The kind of the object, Node or NodeClaim, with the annotation that keeps repair away."""
    rebooting: bool = False
    """Its machine reboots, so no method takes it."""
    reboots: tuple[datetime, ...] = ()
    """When reboots of it were committed in the last day."""
    rebooted_at: datetime | None = None
    """When its last reboot ended."""
    cpu: int = 0
    """The allocatable CPU of its Node in millicores; 0 if it has no Node."""
    warm: bool = False
    """It is a warm node: stopped, or about to be, or starting for its first pods. It counts as ready."""

    def named_in(self, names: frozenset[str]) -> bool:
        """True if the names contain its NodeClaim or its Node."""
        return self.claim in names or self.node in names


@dataclass(frozen=True, slots=True)
class NodeDetail:
    """What a method that moves pods needs to know of a node, in addition to `ManagedNode`."""

    node: str
    """The name of the Node; empty if the instance has none yet."""
    instance_type: str
    zone: str
    capacity_type: str
    price: float
    """Dollars an hour of its own offering; 0 if unknown (DIS-25)."""
    pods: tuple[Pod, ...]
    """The pods that need another node if this one leaves."""
    cost: float
    """The cost of moving its pods (`rescheduling_cost`)."""
    surges: tuple[str, ...] = ()
    """Deployments (``namespace/name``) with a pod on it that asks to start its new pod first."""
    held_by: str = ""
    """The pod, and what protects it, that keeps graceful methods away from the node (DIS-13); empty if none does."""
    has_grace_period: bool = False
    """Its NodeClaim has a terminationGracePeriod, so pods that are protected do not keep drift away (DIS-14)."""
    drifted: str = ""
    """The reason of its NodeClaim's condition Drifted; empty while it is not True."""
    drift_message: str = ""
    """The message of that condition: which field or value made it drift."""
    drifted_since: datetime | None = None
    quiet_since: datetime | None = None
    """The last pod event, or the initialization if that is later. consolidateAfter counts from it (DIS-30)."""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClusterModel:
    """The cluster for methods that move pods, which simulate where the pods would go. Expensive to build."""

    problem: Problem
    """All nodes, and the pools with their instance types and prices. It has no pods to place."""
    details: Mapping[str, NodeDetail]
    """By NodeClaim name. Those without an instance, or whose Node is gone, are missing."""
    static_pools: Mapping[str, Pool] = field(default_factory=dict)
    """By name, the static NodePools, from which plans do not buy."""
    wave_pools: Mapping[str, Pool] = field(default_factory=dict)
    """By name, the NodePools of which a rollout replaces nodes now, in the version that those nodes get."""
    tables: TypeTables = field(default_factory=TypeTables, compare=False, repr=False)
    """The index of the instance types, which all simulations share."""
    facts: ClusterFacts = field(default_factory=ClusterFacts, compare=False, repr=False)
    """What all simulations know of the nodes and NodePools."""
    launching: frozenset[str] = field(init=False, compare=False)
    """The NodePools of which the instance types are known (DIS-12)."""

    def __post_init__(self) -> None:
        """Remember which NodePools launch nodes, because each node asks."""
        object.__setattr__(
            self, "launching", frozenset(pool.name for pool in self.problem.pools if pool.instance_types)
        )

    def version_for(self, pool: str) -> Mapping[str, Pool]:
        """Return the NodePool in the version that the nodes of a wave get, by name; empty if it is the usual one."""
        wave_pool = self.wave_pools.get(pool)
        return {pool: wave_pool} if wave_pool is not None else {}


def model_of(
    problem: Problem,
    details: Mapping[str, NodeDetail],
    static: Collection[str],
    refused: Collection[str] = (),
    tables: TypeTables | None = None,
) -> ClusterModel:
    """Return the model of a problem.

    Args:
        problem: the cluster, without pods to place.
        details: by NodeClaim, what is known of its node.
        static: the names of the static NodePools.
        refused: the names of NodePools whose launches EC2 refuses, so that a move must not depend on one.
        tables: those of an earlier model, which are used again while the instance types are the same objects.
    """
    pools = [at_limit(pool) if pool.name in refused else pool for pool in problem.pools]
    return ClusterModel(
        problem=replace(problem, pools=[pool for pool in pools if pool.name not in static]),
        details=details,
        static_pools={pool.name: pool for pool in pools if pool.name in static},
        tables=TypeTables(tables),
    )


def details_only(details: Mapping[str, NodeDetail]) -> ClusterModel:
    """Return a model that knows no more than the details of nodes, for questions that place no pods."""
    return ClusterModel(Problem(pods=(), pools=()), details)


def at_limit(pool: Pool) -> Pool:
    """Return the pool at its limit. It launches nothing, but its zones still count for spread constraints."""
    return replace(pool, limits={NODES: 0}, usage={})


@dataclass(frozen=True, slots=True)
class AskedApproval:
    """A command that waits for a person, or that one refused, as it concerns one of its nodes."""

    command: str
    """Its ID; empty while it has none, in the decision that proposes it."""
    reason: Reason
    pool: str
    since: datetime
    refused: str = ""
    """Why the node is left alone, in a clause; empty while the command waits."""
    until: datetime | None = None
    """When it is not left alone any more."""
    hosts: tuple[str, ...] = ()
    """The Nodes and NodeClaims that the command moves pods to. Only the entry of its first node has them."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that disruption decisions depend on."""

    nodes: Sequence[ManagedNode]
    policies: Mapping[str, PoolPolicy]
    now: datetime
    under_command: frozenset[str] = frozenset()
    """NodeClaims that an open command removes."""
    postponed: frozenset[str] = frozenset()
    """NodeClaims that a command could not remove and that are left alone for a while. Budgets do not count them."""
    approvals: Mapping[str, AskedApproval] = field(default_factory=dict)
    """By NodeClaim whose command waits for a person, or was refused. Budgets do not count them."""
    awaiting_replacement: Mapping[str, str] = field(default_factory=dict)
    """NodeClaims that leave, or are gone, before their replacement runs, with their NodePool. Budgets count them."""
    nominated: frozenset[str] = frozenset()
    """Nodes and NodeClaims that pending pods are expected to run on (DIS-10)."""
    buffer_hosts: frozenset[str] = frozenset()
    """Nodes and NodeClaims on which CapacityBuffers reserve capacity."""
    model: ClusterModel | None = None
    """Only set for methods that move pods."""
    slowed: Mapping[str, str] = field(default_factory=dict)
    """By NodePool whose last consolidation commands saved less than predicted: why it must wait now, or an empty text
    if it may start one command."""
    cursor: PassCursor | None = None
    """Which nodes consolidation looks at next, if there are too many for one pass; None to look at all of them."""
    blocked_at: Mapping[str, datetime] = field(default_factory=dict)
    """By NodeClaim, when a method last found that it cannot leave. Others come first, so that it holds up none."""
    destinations: frozenset[str] = frozenset()
    """Nodes and NodeClaims that commands which have just been decided move pods to."""
    quiet_since: Mapping[str, datetime] | None = None
    """By NodeClaim, the last pod event, or the initialization if that is later. Stands in for that of the model."""
    repair: PoolRepair | None = None
    """What node repair does; None without the feature gate NodeRepair."""
    rollouts: Mapping[str, PoolRollout] = field(default_factory=dict)
    """By name, what holds for each NodePool that a NodeRollout selects."""

    def rollout_replaces(self, node: ManagedNode) -> PoolRollout | None:
        """Return the rollout that may replace the node now; None if none may."""
        rollout = self.rollouts.get(node.pool)
        return rollout if rollout is not None and rollout.may_replace(node.claim) else None

    @property
    def knows_pod_events(self) -> bool:
        """Whether it says of nodes with pods when a pod last came or went."""
        return self.model is not None or self.quiet_since is not None

    def detail_of(self, node: ManagedNode) -> NodeDetail | None:
        """Return what the model knows of a node."""
        return self.model.details.get(node.claim) if self.model is not None else None

    def quiet_since_of(self, node: ManagedNode) -> datetime | None:
        """Return since when the pods of a node have not changed; None if that is not known."""
        if (detail := self.detail_of(node)) is not None:
            return detail.quiet_since or node.quiet_since
        return node.quiet_since if self.quiet_since is None else self.quiet_since.get(node.claim)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that a method wants to remove."""

    node: ManagedNode
    since: datetime
    """When the method's reason started to hold."""


@dataclass(frozen=True, slots=True)
class TerminateFirst:
    """How a node is replaced that must leave before its replacement can start (N15-191)."""

    reason: TerminateFirstReason
    intended: tuple[PlannedClaim, ...]
    """What comes in its place once it is gone, as far as is known now. Ordinary provisioning buys it."""
    reservation: str = ""
    """The ID of the capacity reservation that gets a place when the node leaves; empty if it is in none."""


@dataclass(frozen=True, slots=True)
class Command:
    """Nodes to remove together for one reason, and what comes in their place."""

    method: str
    reason: Reason
    consolidation_type: str
    candidates: tuple[Candidate, ...]
    only_if_empty: bool = False
    """Each node stays if it has a pod after it was tainted."""
    replacements: tuple[PlannedClaim, ...] = ()
    """New nodes that must be initialized before the candidates leave, each with the pods that it is for."""
    destinations: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    """Existing node -> the pods that are expected to move there."""
    moves_pods: bool = False
    """The candidates may have pods. The command is validated, and undone if something fails (DIS-60 to DIS-65)."""
    graceful: bool = True
    """The command gives way to a pod that may not be moved, and is validated after a delay (DIS-46)."""
    expected: float = 0.0
    """Dollars an hour that the command saves, if every new node is launched as its cheapest type; negative if it costs
    more, as a drift may. This is the saving that people read of a command."""
    guaranteed_saving: float = 0.0
    """What it saves if every new node is launched as its dearest type."""
    explanation: tuple[str, ...] = ()
    """A few lines that say why, for the command's page in the Temporal UI. The first one is also the detail of the
    removal."""
    repair: RepairDecision | None = None
    """The fault that the command repairs."""
    terminate_first: TerminateFirst | None = None
    """Set if the node leaves before its replacement starts. Then the command has no ``replacements``."""
    approve_within: timedelta | None = None
    """How long it waits until a person approves it; None if it does not wait."""

    @property
    def decision(self) -> str:
        """Return what the command does, as the label ``decision`` of metrics (N15-238)."""
        if self.repair is not None and self.repair.action is RepairAction.REBOOT:
            return REBOOT
        if self.terminate_first is not None:
            return "terminate-first"
        return "replace" if self.replacements else "delete"

    @property
    def new_claims(self) -> tuple[PlannedClaim, ...]:
        """The nodes that are bought for the command, before or after its candidates leave."""
        return self.terminate_first.intended if self.terminate_first is not None else self.replacements

    @property
    def freed_places(self) -> Mapping[str, int]:
        """By ID of a capacity reservation, how many of its places a plan may use that the candidates still have."""
        name = self.terminate_first.reservation if self.terminate_first is not None else ""
        return {name: 1} if name else {}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a NodePool with the policy Balanced says about a move (DIS-42)."""

    pool: str
    claims: tuple[str, ...]
    """The NodeClaims that the move removes, of any NodePool."""
    score: float
    approved: bool
    """Whether the move is made: every Balanced NodePool with a node in it must approve it (DIS-44)."""


class Blocked(NamedTuple):
    """Why a node cannot leave although a method wants it to."""

    cause: str
    """Why it should leave, in a clause."""
    why: str
    """What is in the way, in a clause."""

    def __str__(self) -> str:
        """Return both, in a sentence for an event."""
        return f"{self.cause}, but {self.why}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A method's answer: its commands, and when to run it again if nothing changes (None: only on a change)."""

    commands: tuple[Command, ...] = ()
    next_pass: datetime | None = None
    blocked: Mapping[str, Blocked] = field(default_factory=dict)
    """By NodeClaim, why it cannot leave although the method's reason holds (DIS-15)."""
    unconsolidatable: Mapping[str, str] = field(default_factory=dict)
    """By NodeClaim, why consolidation leaves its node as it is, in a sentence for an event (EVT-02)."""
    verdicts: tuple[Verdict, ...] = ()
    """The moves that Balanced judged."""
    cursor: PassCursor | None = None
    """Where the next pass goes on; None if this one looked at all nodes."""
    is_cut: bool = False
    """Whether it ended before it had tried every candidate."""
    failed: Exception | None = None
    """What failed, if the method has an answer all the same: what it decided about other nodes, or where the next pass
    goes on."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer of all methods."""

    commands: tuple[Command, ...] = ()
    next_pass: datetime | None = None
    failed: Mapping[str, Exception] = field(default_factory=dict)
    """By method name, the exception it raised. Other methods are not affected."""
    eligible: Mapping[Reason, int] = field(default_factory=dict)
    """By reason, how many nodes the methods would disrupt now if the budgets had no limit (MET-32)."""
    blocked: Mapping[str, Blocked] = field(default_factory=dict)
    """By NodeClaim, why it cannot leave although a method's reason holds, by the first such method."""
    unconsolidatable: Mapping[str, str] = field(default_factory=dict)
    """By NodeClaim, why consolidation leaves its node as it is."""
    verdicts: tuple[Verdict, ...] = ()
    """The moves that Balanced judged."""
    cursor: PassCursor | None = None
    """Where the next pass of consolidation goes on; None if this one looked at all nodes, or failed."""
    is_cut: bool = False
    """Whether a method ended before it had tried every candidate."""
