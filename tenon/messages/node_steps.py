"""The steps of a node's workflow: the inputs and results of its activities after the launch."""

from datetime import datetime

from pydantic import Field

from tenon.messages.base import ClaimRef, Message
from tenon.messages.node import Removal


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
    """Cordons the claim and its node.

    With ``only_if_empty``, gives up and removes the taint if the node has pods or is protected.
    """

    removal: Removal = Removal(reason="")
    """Why the node leaves."""
    only_if_empty: bool = False
    unused: bool = False
    """The node was bought for a command that has failed: an annotation that protects it does not keep it."""
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
    """``cordoned`` is false only if ``only_if_empty`` found pods, or an annotation that protects the node.

    ``force_at`` is when the drain becomes forced.
    """

    cordoned: bool = True
    node_name: str = ""
    pods: int = 0
    protection: str = ""
    """The annotation because of which the node stays, in a clause; empty if none does."""
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
    allowed_from: int = 0
    """From how many pods on their PodDisruptionBudget allows an eviction, if minAvailable keeps all; 0 otherwise."""
    workload: str = ""
    """Their controller, as ``Deployment/web``, if `allowed_from` is set and all of them have the same."""
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
    force_at: datetime | None = None
    """When the drain becomes forced, if it is not over: the NodeClaim may say an earlier time since it began."""


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
    """When EC2 first accepted its termination, or did not know it; None if that was not recorded."""
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
    """The workflow did not request the deletion of the NodeClaim. What did has counted the disruption."""


class ReleaseResult(Message):
    """One sentence for each object that other controllers' finalizers keep."""

    held_by: list[str] = Field(default_factory=list)


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
