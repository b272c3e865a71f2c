"""The messages between a node's workflow, its activities and the controllers: steps, pokes and commands."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, Field

from tenon.messages.base import ClaimRef, Message


class Removal(Message):
    """Why a node is removed and who removes it. The NodeClaim keeps it as an annotation, and the node's workflow
    repeats it in its timeline, its events and its result.
    """

    reason: str
    """A `Reason`, the kind of a notice about the instance, or an error code of EC2."""
    detail: str = ""
    """What exactly: the notice, or the condition and for how long; a clause."""
    actor: str = ""
    """The controller, disruption command or person."""
    by_workflow: bool = False
    """The node's own workflow deletes the NodeClaim, so it needs no poke about the deletion."""
    trace: str = ""
    """The span that asked for it, as a traceparent; empty if that was not traced."""

    @property
    def plain(self) -> "Removal":
        """The same without what a subclass adds."""
        return Removal(reason=self.reason, detail=self.detail, actor=self.actor, trace=self.trace)


class Operator(Message):
    """Who asks something of a node, and why, for its timeline, its result and its events."""

    by: str = ""
    """Who asks: a user of Kubernetes, or USER@HOST."""
    reason: str = ""
    ticket: str = ""
    """Where the reason is written down, such as the key of an issue."""


class OperatorAnswer(Message):
    """Whether the node does what an operator asked. ``why`` explains a refusal."""

    accepted: bool
    why: str = ""


class NodeInput(Message):
    """A step on the node of a claim. ``provider_id`` identifies the node; ``node_name`` is only a hint."""

    claim: ClaimRef
    provider_id: str = ""
    node_name: str = ""


class RegisterResult(Message):
    """``node_name`` is set if the node is registered. Otherwise ``reason`` and ``message`` say what it waits for."""

    node_name: str = ""
    reason: str = ""
    message: str = ""
    console: str = ""
    """What the instance's console output says, if its Node should have joined by now."""


class InitializeInput(NodeInput):
    """Checks that the node is initialized."""

    binds: bool = False
    """Also binds its planned pods then, which saves an activity of its own."""


class InitializeResult(Message):
    """Whether the node is initialized. If not, ``reason`` says why (NodeNotReady, StartupTaintsExist ...)."""

    initialized: bool = False
    reason: str = ""
    message: str = ""
    binding: "BindResult | None" = None
    """What binding the planned pods did; None if that failed or was not asked for."""


class BindResult(Message):
    """How many planned pods were bound here.

    The others already had a node, were gone, or were left to kube-scheduler.
    """

    bound: int = 0
    planned: int = 0
    for_scheduler: int = 0
    running: int | None = None
    """All pods on the node that would need another node if it left, including those it was not bought for."""


class CordonInput(NodeInput):
    """Cordons the claim and its node. With ``only_if_empty``, gives up and removes the taint if the node has pods."""

    removal: Removal = Removal(reason="")
    """Why the node leaves."""
    only_if_empty: bool = False
    termination_timestamp: datetime | None = None
    """When the drain becomes forced, if that is before the end of the claim's own grace period."""
    fault: str = ""
    """The type of the condition for which node repair removes the node."""
    why: str = ""
    """The same with since when it holds, for events."""
    life: str = ""
    """What the node was and how long it lived, for events."""
    drain: "DrainInput | None" = None
    """How to drain the node at once if no pod has to leave, which saves an activity of its own."""


class CordonResult(Message):
    """``cordoned`` is false only if ``only_if_empty`` found pods. ``force_at`` is when the drain becomes forced."""

    cordoned: bool = True
    node_name: str = ""
    pods: int = 0
    force_at: datetime | None = None
    claim_exists: bool = True
    node_exists: bool = True
    drained: "DrainResult | None" = None
    """What the drain did, if no pod had to leave; None if it has not begun."""


class DrainInput(NodeInput):
    """Evicts the node's pods until all are gone or ``budget_seconds`` have passed. ``force`` deletes them at once."""

    force_at: datetime | None = None
    force: bool = False
    budget_seconds: float = 60.0
    report_blocked_after: float | None = None
    """After how many seconds the drain reports what blocks it, if something does, before the budget is over."""
    pool: str = ""
    instance_gone: bool = False
    """The instance is gone, so no container runs that could shut down gracefully."""
    reason: str = ""
    """Why the node leaves."""
    why: str = ""
    """The same with detail and actor, for events."""


class BlockedPods(Message):
    """Pods that a drain waits for, and what keeps them. `tenon.node.drain_blockers` makes the sentence."""

    pods: tuple[str, ...]
    """The first few, as ``namespace/name``."""
    more: int = 0
    """How many others there are."""
    why: str
    """What keeps them: the rest of a sentence that begins with their names."""
    budgets: tuple[str, ...] = ()
    """The PodDisruptionBudgets that keep them, as ``namespace/name``."""
    annotation: str = ""
    """The annotation that keeps them."""
    finalizers: tuple[str, ...] = ()
    """The finalizers that keep them."""
    deleted_at: datetime | None = None
    """When they are deleted, whatever keeps them."""


MAX_WORKLOADS = 20
"""How many workloads of evicted pods the workflow of a node and the record name."""


class DrainResult(Message):
    """Whether the node is drained. If not, ``blocked`` says which pods it waits for and why."""

    drained: bool = False
    evicted: int = 0
    workloads: list[str] = Field(default_factory=list)
    """What the evicted pods are of (`tenon.kube.pod_workload`), without DaemonSets; at most `MAX_WORKLOADS`."""
    remaining: int = 0
    blocked: list[BlockedPods] = Field(default_factory=list)
    volumes_attached: int = 0
    next_force_at: datetime | None = None
    """When the next remaining pod may be deleted without eviction."""
    idle: str = ""
    """Which nodes stand empty meanwhile, because they were bought for the remaining pods."""


class DetachInput(NodeInput):
    """Waits until the volumes of drained pods are detached. Does not wait past ``force_at``."""

    force_at: datetime | None = None
    budget_seconds: float = 60.0


class DetachResult(Message):
    """Whether all volumes are detached; if not, ``attached`` says how many are left."""

    detached: bool = False
    attached: int = 0


class TerminateInput(Message):
    """Terminates the instance of a claim. Without an ID, terminates any instance with the claim's tag."""

    claim: ClaimRef
    instance_id: str = ""
    zone: str = ""
    search_until: datetime | None = None
    """Without an ID, an instance may still appear until this time, so the search goes on if it finds none."""
    shown: bool = False
    """EC2 has described the instance before. If EC2 does not know it now, it is gone, not just slow to appear."""
    release: "ReleaseInput | None" = None
    """How to release Node and NodeClaim once the instance is gone, which saves an activity of its own."""


class TerminateResult(Message):
    """Whether EC2 reports the instance as gone, and its last state."""

    terminated: bool = False
    state: str = ""
    released: "ReleaseResult | None" = None
    """What the release did; None if it failed or was not asked for."""
    asked_at: datetime | None = None
    """When EC2 was first asked to terminate it; None if that was not recorded."""
    stopped: str = ""
    """When it was stopped, as the annotation of its claim says (`tenon.kube.stopped_times`)."""


class ReleaseInput(NodeInput):
    """Removes the finalizers of the Node and the NodeClaim, as the last step of the workflow."""

    pool: str = ""
    capacity_type: str = ""
    zone: str = ""
    reason: str = ""
    created_at: datetime | None = None
    deletion_started_at: datetime | None = None
    already_deleted: bool = False
    """The workflow did not request the deletion of the NodeClaim. Whoever did has counted the disruption."""


class ReleaseResult(Message):
    """One sentence for each object that other controllers' finalizers keep."""

    held_by: list[str] = Field(default_factory=list)


def _with_zone(instant: datetime) -> datetime:
    """Read a time without a zone as UTC. Python cannot compare it, and the node's workflow would fail its tasks."""
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)


def _whole_seconds(instant: datetime) -> datetime:
    return _with_zone(instant).replace(microsecond=0)


class RebootRequest(Message):
    """Asks a node to reboot its machine in place. The NodeClaim records it, so that every restart finds it again."""

    operation_id: str
    """The same for each repetition of this request: `tenon.node.reboot_record.operation_id` makes it."""
    reason: str
    """What the reboot is for: the condition and its reason as CONDITION/REASON, or an operator's words."""
    repairs: bool = False
    """Node repair asks. If the reboot fails, the node is replaced in any case."""
    policy: str = ""
    """The NodeRepairPolicy that asks; empty if an operator does."""
    drain_seconds: float | None = None
    """For how long pods are evicted at most. The others stay and ride through. None for no limit, 0 for no drain."""
    requested_at: Annotated[datetime, AfterValidator(_whole_seconds)]
    """In whole seconds, as the NodeClaim records it."""
    actor: str = ""
    """The controller or person."""
    ticket: str = ""
    """Where an operator's reason is written down."""


class RebootAnswer(Message):
    """Whether the node reboots for a request. ``why`` explains a refusal."""

    accepted: bool
    why: str = ""


class Poke(Message):
    """Tells the workflow that its node changed. Level-triggered, so lost or duplicate pokes are harmless."""

    node_name: str = ""
    claim_deleting: bool = False
    node_deleting: bool = False
    node_ready: bool = False
    reason: str = ""
    """What changed, for the Temporal UI."""
    removals: tuple[Removal, ...] = ()
    """Why the NodeClaim is being deleted, the first reason first. Empty if Tenon did not delete it."""
    claim_gone: bool = False
    """The NodeClaim is gone although its workflow has not released it."""
    instance_gone: bool = False
    """EC2 no longer knows the instance, or ended it without a request from this workflow."""
    disrupted: bool = False
    """The Node or NodeClaim has the marks of a disruption command, although neither is being deleted."""
    minutes_late: int = 0
    """For how many minutes the instance has had no Node, if its Node should have joined by now."""
    reboot: RebootRequest | None = None
    """The reboot that the NodeClaim records."""
    rebooted: bool = False
    """The Node reports another boot ID than the NodeClaim recorded before that reboot."""


class Disrupt(Message):
    """Asks a node to leave. With ``only_if_empty``, it stays if it has pods."""

    command: str
    reason: str
    detail: str = ""
    since: datetime | None = None
    only_if_empty: bool = False
    drain_seconds: float | None = None
    """The most time that the drain may take, if that is less than the NodeClaim's terminationGracePeriod."""
    fault: str = ""
    """The type of the condition for which node repair removes the node."""
    trace: str = ""
    """The span that asks for it, as a traceparent; empty if that is not traced."""


class DisruptAnswer(Message):
    """Whether the node accepts the command. ``why`` explains a refusal."""

    accepted: bool
    why: str = ""
    leaving: bool = False
    """It refused because it is already leaving, or is gone."""
    price: float = 0.0
    """Dollars an hour of its instance; 0 if it is not known."""


class Keep(Operator):
    """An operator's request to keep a node at least until a given time. People type it in Temporal's UI.

    A time that is over ends an earlier request.
    """

    until: Annotated[datetime, AfterValidator(_with_zone)]


class ExpirationInput(Message):
    """Asks whether an expired node may leave at once."""

    claim: ClaimRef
    pool: str
    expired_at: datetime | None = None
    """When it expired."""


class ExpirationResult(Message):
    """Whether the node waits until a freeze ends, or until the budgets of its NodePool allow it to leave.

    In the second case, a disruption command then removes it.
    """

    waits: bool = False
    frozen: str = ""
    """What freezes its NodePool, in a clause; empty if nothing does."""
    frozen_until: datetime | None = None
    """When the node no longer waits for that."""


class KeepInput(Message):
    """Writes an operator's keep request to the claim, so that it outlives the workflow."""

    claim: ClaimRef
    until: datetime
