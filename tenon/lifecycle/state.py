"""What a node's workflow remembers: everything needed to go on after any restart, in a few kilobytes.

The state is the argument of every continue-as-new, so its fields are only ever added, with defaults.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from tenon.lifecycle.messages import ClaimRef, Instance, LaunchRequest, Message


class Stage(StrEnum):
    """Where a node is in its life; the order of the members is the order of a life."""

    PREPARING = "preparing"
    LAUNCHING = "launching"
    REGISTERING = "registering"
    INITIALIZING = "initializing"
    BINDING = "binding"
    LIVE = "live"
    CORDONING = "cordoning"
    DRAINING = "draining"
    DETACHING = "detaching"
    TERMINATING = "terminating"
    RELEASING = "releasing"
    ENDED = "ended"

    @classmethod
    def _missing_(cls, value: object) -> Stage:  # noqa: ARG003 - its signature
        """A stage of a newer version, met after a rollback: the life is taken up again from claim and instance."""
        return cls.PREPARING

    @property
    def leaving(self) -> bool:
        """Whether the node is on its way out in this stage."""
        return self in LEAVING_STAGES


LEAVING_STAGES = frozenset(
    {Stage.CORDONING, Stage.DRAINING, Stage.DETACHING, Stage.TERMINATING, Stage.RELEASING, Stage.ENDED}
)


class TimelineEntry(Message):
    """One line of a node's story."""

    at: datetime
    text: str


class Leave(Message):
    """Why and how a node leaves. ``only_if_empty`` withdraws the leave when pods turn out to be there."""

    reason: str
    message: str = ""
    force: bool = False
    only_if_empty: bool = False
    command: str = ""
    asked_at: datetime


class PendingDisruption(Message):
    """A disruption that waits out the rest of its time to live."""

    command: str
    reason: str
    due: datetime
    since: datetime | None = None
    only_if_empty: bool = False


class NodeState(Message):
    """A node's life so far."""

    claim: ClaimRef
    stage: Stage = Stage.PREPARING
    created_at: datetime | None = None
    pool: str = ""
    node_class: str = ""
    attempt: int = 1
    launch_failures: int = 0
    """How many tries in a row to launch an instance have failed."""
    launch_unsettled_until: datetime | None = None
    """A fleet request was sent whose outcome nobody saw: until then an instance of it may still appear."""
    request: LaunchRequest | None = None
    instance: Instance | None = None
    node_name: str = ""
    planned_pods: int = 0
    bound_pods: int = 0
    evicted_pods: int = 0
    drain_rounds: int = 0
    deadline: datetime | None = None
    """When the current stage must be over, or looked at again."""
    expires_at: datetime | None = None
    keep_until: datetime | None = None
    keep_recorded: bool = True
    look: bool = False
    """Something changed on the cluster since the node was last looked at."""
    pending: PendingDisruption | None = None
    leave: Leave | None = None
    force_at: datetime | None = None
    volumes_attached: int = 0
    deletion_started_at: datetime | None = None
    failures: int = 0
    """How often in a row the present step used up its tries."""
    blocked: str = ""
    """What the node waits for that somebody should look at, in a sentence."""
    registered: bool = False
    initialized: bool = False
    timeline: tuple[TimelineEntry, ...] = ()
    first_run_id: str = ""
    instance_gone: bool = False
    """EC2 has no such instance any more: there is nothing left to drain or to wait for."""
    last_look: bool = False
    """The time to join is over; whoever joined while nobody could look is looked for once more."""
    registered_at: datetime | None = None
    looks: int = 0
    """How often the node was looked at in vain since it registered."""
    initialization_timeout_seconds: float | None = None
    disrupted: bool = False
    """The Node has the disruption taint although it stays; the taint is removed next."""
    explanation: tuple[str, ...] = ()
    """Why the node was bought, in lines."""
    running_pods: int | None = None
    """How many pods ran here once its own were bound, also those that it was not bought for; None: not known."""
    spread_until: datetime | None = None
    """Overdue since long, with many others, after an outage: this node's turn comes then."""


class NodeClaimInput(Message):
    """Starts a node's workflow: afresh with only the claim, or from the state of the run before."""

    claim: ClaimRef
    pool: str = ""
    state: NodeState | None = None


class Life(Message):
    """The result of a node's workflow: the whole life, readable without a worker."""

    claim: str
    pool: str
    reason: str
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
    explanation: list[str] = Field(default_factory=list)
    timeline: list[TimelineEntry] = Field(default_factory=list)
