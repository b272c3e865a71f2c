"""What the workflow of a rollout remembers, and what operators send it."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from datetime import datetime
from typing import Literal

from tenon.apis.noderollout import RolloutPhase
from tenon.kube.event_reasons import EventReason
from tenon.messages.base import Message, WorkflowInput

RolloutAction = Literal["start", "approve", "pause", "resume", "abort", "rollback"]


class WaveRecord(Message):
    """One wave that ended, for the page of the rollout."""

    name: str
    began: datetime
    ended: datetime
    outcome: str
    """How it ended, in a clause."""
    passed: bool = False
    """Whether its gates held to the end."""
    evidence: list[str] = []
    """What each gate said, a line each."""


class NodesBefore(Message):
    """What the nodes of a NodePool were like before the first wave. It says nothing about the new version."""

    unready_owners: list[str] = []
    """The UIDs of the controllers with pods that had not been Ready for longer than the gate allows."""
    faults: list[str] = []
    """The conditions of Nodes that were faults, as type and status."""
    containers: int = 0
    crash_loops: int = 0


class HeldNode(Message):
    """A node that cannot leave, so that no wave waits for it."""

    claim: str
    since: datetime
    """When it gave its place in a wave to another node, or began to drain."""
    why: str
    """What keeps it, in a clause."""


class RolloutOperation(Message):
    """What an operator asked of the rollout of a NodePool, and why."""

    action: RolloutAction
    at: datetime
    by: str
    reason: str = ""
    ticket: str = ""
    wave: int | None = None
    """For approve: the number of the wave, from 1."""


class PoolProgress(Message):
    """How far the rollout of one NodePool is."""

    pool: str
    current: str = ""
    """The last version that passed; empty before the first check."""
    target: str = ""
    """The version that is rolled out, or that failed; empty if all nodes may have the current one."""
    phase: RolloutPhase = "Settled"
    segment: str = ""
    """The zone of the wave; empty if waves go over the whole NodePool."""
    wave: int | None = None
    """The place of the wave among those of the strategy, from 0; None before the first one."""
    began: datetime | None = None
    """When the wave began; None while it waits for an approval, a window or its turn."""
    awaits_approval: bool = False
    """Whether the wave waits for an approval."""
    replaced_at: datetime | None = None
    """When the last node of the wave was replaced."""
    soaking_since: datetime | None = None
    """Since when, after that, all gates pass."""
    replaced: int = 0
    """How many nodes had the new version at the last check."""
    moved_at: datetime | None = None
    """When the wave last got on."""
    first_began: datetime | None = None
    """When the first wave began."""
    passed: bool = False
    """Whether all waves passed. What is left are nodes that cannot leave, and those that were launched meanwhile."""
    wave_count: int = 0
    """How many waves the strategy has; 0 before the first one."""
    before: NodesBefore | None = None
    aborted: bool = False
    """Whether an operator stopped it, so that nothing goes on or back of itself."""
    claims: list[str] = []
    """The NodeClaims that may be replaced now."""
    waiting_since: dict[str, datetime] = {}
    """By NodeClaim of the wave that nothing removes yet, since when it waits."""
    held_nodes: list[HeldNode] = []
    """The nodes that cannot leave, the latest last."""
    starting_since: datetime | None = None
    """Since when nodes of the new version are being started and none became initialized; None if none is."""
    approved: list[int] = []
    """The numbers of the waves, from 1, that an operator approved for this version."""
    rotate_before: datetime | None = None
    """Nodes that were created before this time are replaced, whatever their version."""
    message: str = ""
    cause: str = ""
    """Why the version began, with the operator who asked for it and the reason, in a clause. It stays to the end."""
    operations: list[RolloutOperation] = []
    """The last things that operators asked for, the latest last."""
    history: list[WaveRecord] = []
    """The waves of this version, the latest last."""


class RolloutInput(WorkflowInput):
    """The rollout of one NodeRollout, and how far it is when the run begins."""

    cluster: str
    name: str
    plan_queue: str = ""
    """The task queue of the leader; empty while no leader is known."""
    uid: str = ""
    """The UID of the NodeRollout; empty before the first check."""
    pools: list[PoolProgress] = []


class AdvanceRolloutInput(Message):
    """Asks how a rollout goes on."""

    cluster: str
    name: str
    uid: str = ""
    """The UID of the NodeRollout that the progress is of; empty before the first check."""
    pools: list[PoolProgress] = []


class RolloutAdvance(Message):
    """How far the rollout is now."""

    exists: bool = True
    """False once the NodeRollout is gone."""
    uid: str = ""
    pools: list[PoolProgress] = []
    written: bool = False
    """Whether the status says this already, as far as the leader sees."""
    look_again: float | None = None
    """Seconds until the rollout is looked at again; None if nothing changes by time alone."""


class RolloutAnnouncement(Message):
    """An event on a NodeRollout and one of its NodePools."""

    pool: str
    reason: EventReason
    message: str


class WriteRolloutInput(Message):
    """What the status of a NodeRollout says about its NodePools, and what happened since it was written last."""

    cluster: str
    name: str
    uid: str = ""
    """The UID of the NodeRollout; empty before the first check."""
    pools: list[PoolProgress] = []
    announcements: list[RolloutAnnouncement] = []


class RolloutWritten(Message):
    """``exists`` is false once the NodeRollout is gone."""

    exists: bool = True


class RolloutOperator(Message):
    """Who asks something of a rollout, and why."""

    pool: str
    """The NodePool."""
    by: str
    """Who asks: a user of Kubernetes, or USER@HOST."""
    reason: str = ""
    ticket: str = ""
    """Where the reason is written down, such as the key of an issue."""
    wave: int | None = None
    """For approve: the number of the wave, from 1; None for the one that waits."""


class RolloutAnswer(Message):
    """Whether the rollout does what an operator asked."""

    accepted: bool
    message: str
    """What happens now, or why it is refused."""


class RolloutRequest(Message):
    """What an operator asks of a rollout."""

    action: RolloutAction
    operator: RolloutOperator
