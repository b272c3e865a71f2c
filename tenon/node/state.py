"""The state of a node's workflow: everything needed to resume after a restart, in a few kilobytes.

The state is the argument of every continue-as-new, so from release 0.1.0 on, only add fields, with defaults.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from tenon.messages.base import ClaimRef, Message, TimelineEntry, WorkflowInput
from tenon.messages.launch import Instance, LaunchRequest
from tenon.messages.node import RebootRequest, Removal
from tenon.messages.node_steps import BlockedPods
from tenon.messages.reboot import RebootResult


class Stage(StrEnum):
    """The stage of a node's lifecycle. Members are in the order of the lifecycle."""

    PREPARING = "preparing"
    LAUNCHING = "launching"
    REGISTERING = "registering"
    INITIALIZING = "initializing"
    BINDING = "binding"
    LIVE = "live"
    REBOOTING = "rebooting"
    CORDONING = "cordoning"
    DRAINING = "draining"
    DETACHING = "detaching"
    TERMINATING = "terminating"
    RELEASING = "releasing"
    ENDED = "ended"

    @classmethod
    def _missing_(cls, value: object) -> "Stage":  # noqa: ARG003 - its signature
        """Map an unknown stage to PREPARING: after a rollback, the workflow resumes from claim and instance."""
        return cls.PREPARING

    @property
    def leaving(self) -> bool:
        """True if the node is leaving in this stage."""
        return self in LEAVING_STAGES


LEAVING_STAGES = frozenset(
    {Stage.CORDONING, Stage.DRAINING, Stage.DETACHING, Stage.TERMINATING, Stage.RELEASING, Stage.ENDED}
)


class Leave(Removal):
    """Why and how a node leaves. With ``only_if_empty``, the node stays if it turns out to have pods."""

    force: bool = False
    only_if_empty: bool = False
    already_deleted: bool = False
    """Its NodeClaim was being deleted before the workflow asked for that."""
    unused: bool = False
    """It was bought for a command that has failed, so nothing that protects it keeps it."""
    later: tuple[Removal, ...] = ()
    """Further reasons to remove the node that came while it was leaving."""
    since: datetime | None = None
    """Since when the reason of a disruption command holds, such as when the node became empty."""
    drain_seconds: float | None = None
    """The most time that the drain may take, if a disruption command says it."""
    fault: str = ""
    """The type of the condition for which node repair removes the node."""
    asked_at: datetime


class Blocked(Message):
    """What keeps a node from its next stage. `tenon.node.timeline.why_blocked` makes the sentence."""

    message: str = ""
    """What it waits for, or what failed; empty if it waits for pods."""
    pods: tuple[BlockedPods, ...] = ()
    more: int = 0
    """How many other things keep pods."""
    idle: str = ""
    """Which nodes stand empty meanwhile."""
    since: datetime | None = None
    """Since when pods are waited for."""


class DrainBlock(Message):
    """Something that kept pods of a leaving node, or the node itself, for a time that may have interruptions."""

    cause: str
    """Such as ``PodDisruptionBudget shop/web``."""
    pods: tuple[str, ...] = ()
    """The first few that it kept, as ``namespace/name``."""
    pod_count: int = 0
    """The most that it kept at one time."""
    since: datetime
    """When it was reported first."""
    seconds: float = 0.0
    """How long it kept them, without the time since ``lasts_since``."""
    lasts_since: datetime | None = None
    """Since when it keeps them now; None if it does not."""


class RebootPhase(StrEnum):
    """What a reboot does next, in this order. Between `ISSUING` and `RECOVERING` no restart may issue it again."""

    FENCING = "fencing"
    DRAINING = "draining"
    RECORDING = "recording"
    """Its boot ID is recorded."""
    ISSUING = "issuing"
    SETTLING = "settling"
    """EC2 may have accepted the reboot, but no answer came."""
    RECOVERING = "recovering"
    """EC2 has accepted the reboot."""
    FAILING = "failing"


class Reboot(Message):
    """A reboot that goes on."""

    request: RebootRequest
    phase: RebootPhase = RebootPhase.FENCING
    boot_id: str = ""
    """The boot ID before the reboot; empty until it is recorded."""
    issuing_since: datetime | None = None
    """When EC2 was first to be asked."""
    refusals: int = 0
    """How often EC2 refused."""
    asked_at: datetime | None = None
    """When EC2 was asked last without an answer."""
    issued_at: datetime | None = None
    """When EC2 accepted the reboot, or was asked if the answer is lost."""
    booted: bool = False
    """The Node reports another boot ID."""
    result: RebootResult | None = None
    """Why it failed."""
    message: str = ""
    """The same in words."""
    stays: bool = False
    """Although the reboot failed, the node stays."""


class NodeState(Message):
    """The state of a node's workflow so far, with what no NodeClaim says: attempts, deadlines, the timeline."""

    claim: ClaimRef
    stage: Stage = Stage.PREPARING
    created_at: datetime | None = None
    pool: str = ""
    node_class: str = ""
    attempt: int = 1
    launch_failures: int = 0
    """How many launch attempts in a row have failed."""
    launch_unsettled_until: datetime | None = None
    """The outcome of a fleet request is unknown: until this time, an instance of it may still appear."""
    request: LaunchRequest | None = None
    instance: Instance | None = None
    node_name: str = ""
    planned_pods: int = 0
    bound_pods: int = 0
    evicted_pods: int = 0
    evicted_workloads: tuple[str, ...] = ()
    """What these pods are of (`tenon.kube.pod_workload`); at most `MAX_WORKLOADS`."""
    drain_rounds: int = 0
    drain_stalls: int = 0
    """How many drain attempts in a row evicted no pod."""
    deadline: datetime | None = None
    """When the current stage times out, or is checked again."""
    expires_at: datetime | None = None
    keep_until: datetime | None = None
    keep_recorded: bool = True
    check_now: bool = False
    """Something changed in the cluster since the last check of the node."""
    leave: Leave | None = None
    force_at: datetime | None = None
    volumes_attached: int = 0
    deletion_started_at: datetime | None = None
    failures: int = 0
    """How many times in a row the current step used up its retries."""
    blocked: Blocked | None = None
    """What the node waits for, if a person should look at it."""
    registered: bool = False
    initialized: bool = False
    timeline: tuple[TimelineEntry, ...] = ()
    first_run_id: str = ""
    began_at: datetime | None = None
    """When the first run of this workflow began."""
    instance_gone: bool = False
    """EC2 no longer has the instance, so there is nothing left to drain or to wait for."""
    last_check: bool = False
    """The registration timeout is over. One last check finds a Node that joined while no activity could run."""
    registered_at: datetime | None = None
    checks: int = 0
    """How many checks since registration found the node not initialized."""
    initialization_timeout_seconds: float | None = None
    disrupted: bool = False
    """The Node has the disruption taint although it stays. The next step removes the taint."""
    explanation: tuple[str, ...] = ()
    """Why the node was bought, in lines."""
    bought_for: str = ""
    """What it was bought for, in a clause."""
    running_pods: int | None = None
    """How many pods ran on the node after its planned pods were bound, including other pods; None if unknown."""
    expired: bool = False
    """The node has expired. The next step asks whether its NodePool makes it wait for the budgets."""
    expiry_waits_until: datetime | None = None
    """The expired node waits for the budgets of its NodePool, and asks again at this time."""
    expiry_waits_for: str = ""
    """What freezes the NodePool that the expired node waits for, in a clause; empty if it waits for the budgets."""
    spread_until: datetime | None = None
    """When this node leaves, if it is overdue together with many others after an outage."""
    reboot: Reboot | None = None
    reboots: tuple[datetime, ...] = ()
    """When the reboots of the last 24 hours were requested, the oldest first."""
    failed_reboot: datetime | None = None
    """When the last of its reboots that failed was requested; None if none has failed."""
    pods_were_bound: bool = False
    """Its planned pods were bound once. After a reboot they are not bound again."""
    terminated_at: datetime | None = None
    """When EC2 accepted the termination of its instance, which costs nothing from then on."""
    stopped: str = ""
    """When its instance was stopped (`tenon.kube.stopped_times`)."""
    drain_blocks: tuple[DrainBlock, ...] = ()
    """What kept its drain, the first cause first."""


def expiry(state: NodeState) -> datetime | None:
    """Return when the node expires; an operator's keep request postpones it."""
    if state.expires_at is None or state.keep_until is None:
        return state.expires_at
    return max(state.expires_at, state.keep_until)


class NodeClaimInput(WorkflowInput):
    """Starts a node's workflow: a new one with only the claim, a continued one with the state of the previous run."""

    claim: ClaimRef
    pool: str = ""
    state: NodeState | None = None
    origin: str = ""
    """What the NodeClaim says about the span that created it; empty if that was not traced."""


class NodeClaimResult(Message):
    """The result of a node's workflow: a summary of the node's life, readable without a worker."""

    claim: str
    pool: str
    reason: str
    detail: str = ""
    actor: str = ""
    """Who removed the node: the controller, disruption command or person."""
    instance_id: str = ""
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    price_per_hour: float = 0.0
    lived_seconds: float = 0.0
    cost: float = 0.0
    pods_planned: int = 0
    pods_bound: int = 0
    pods_evicted: int = 0
    evicted_workloads: list[str] = Field(default_factory=list)
    """What these pods are of (`tenon.kube.pod_workload`); at most `MAX_WORKLOADS`."""
    explanation: list[str] = Field(default_factory=list)
    timeline: list[TimelineEntry] = Field(default_factory=list)
    node_name: str = ""
    created_at: datetime | None = None
    launched_at: datetime | None = None
    """When EC2 launched its instance; None if it never had one."""
    asked_at: datetime | None = None
    """When it was asked to leave."""
    terminated_at: datetime | None = None
    """When EC2 accepted the termination of its instance, which costs nothing from then on."""
    stopped: str = ""
    """When its instance was stopped (`tenon.kube.stopped_times`)."""
    drain_blocks: list[DrainBlock] = Field(default_factory=list)
    """What kept its drain, the first cause first."""
