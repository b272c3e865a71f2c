"""What is done about one node with several faults: the action, the drain bound, and the node's place in the order.

The conditions of a node, the policies of its NodePool and the history of its reboots decide alone (N15-109 to N15-115),
so the same data give the same decision to every caller, and in whatever order the conditions are listed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tenon.disruption.repair.policies import LadderStep, RepairAction, RepairPolicy, RepairPolicySet
from tenon.kube.records import NodeCondition
from tenon.kube.timestamps import clock_instant
from tenon.sentences import lasting

MINUTES_PER_RANK = 30
"""A node that has waited for so many minutes goes before one with the next higher priority (N15-114)."""
_UNBOUNDED = timedelta.max


@dataclass(frozen=True, slots=True)
class NodeHistory:
    """What counts for the faults of a node besides its conditions."""

    created_at: datetime | None = None
    """When its Node was created. No fault is older, and one that does not say since when counts from it (N15-109)."""
    rebooted_at: datetime | None = None
    """When its last reboot ended, well or badly. No fault is older (N15-109)."""
    reboots: Collection[datetime] = ()
    """When reboots of the node were committed, in any order."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A condition that a policy names, and what is next because of it."""

    condition: NodeCondition
    policy: RepairPolicy
    rank: int
    """The rank of the policy's priority in its set."""
    since: datetime
    """When the toleration began."""
    action: RepairAction
    """What the policy does next. It is to wait if the policy does nothing more."""
    due: datetime | None
    """When the action is to be taken; None if nothing is."""
    is_escalated: bool = False
    """Whether the node was rebooted as often as the policy allows, so that a later step is next."""

    @property
    def text(self) -> str:
        """The condition as events show it, such as ``StorageReady is False (IOError)``."""
        reason = f" ({self.condition.reason})" if self.condition.reason else ""
        return f"{self.condition.type} is {self.condition.status}{reason}"


@dataclass(frozen=True, slots=True)
class RepairDecision:
    """What is done about a node now."""

    action: RepairAction
    fault: Fault
    """The fault that the action is for."""
    drain_bound: timedelta | None
    """The most time that a drain may take; None if the NodeClaim's terminationGracePeriod decides (N15-106)."""
    bound_by: Fault
    """The fault that the drain bound is for."""
    score: float
    """Nodes with a higher score go first (N15-114)."""

    def details(self) -> dict[str, str]:
        """Return what the log says of the decision, by field (N15-115)."""
        fault, policy = self.fault, self.fault.policy
        details = {
            "condition": fault.condition.type,
            "status": fault.condition.status,
            "reason": fault.condition.reason,
            "reason-regex": policy.reason or "",
            "fallback": str(policy.is_fallback).lower(),
            "action": self.action.text,
            "eligible-at": fault.due.isoformat() if fault.due is not None else "",
        }
        if self.drain_bound is not None:
            details["termination-grace-period"] = lasting(self.drain_bound)
            details["termination-grace-period-condition"] = self.bound_by.condition.type
        if fault.is_escalated:
            details["reboot-escalated"] = "true"
        return details


def faults_of(
    conditions: Iterable[NodeCondition], policies: RepairPolicySet, history: NodeHistory, now: datetime
) -> tuple[Fault, ...]:
    """Return the faults of a node, whether or not their tolerations are over, the one that is due first first."""
    faults = [
        _fault(condition, policy, policies, history, now)
        for condition in conditions
        for policy in policies.matching(condition)
    ]
    return tuple(sorted(faults, key=_order))


def decide_repair(faults: Sequence[Fault], now: datetime) -> RepairDecision | None:
    """Return what is done about a node with these faults now; None if none is due (N15-111)."""
    eligible = [(fault, fault.due) for fault in faults if fault.due is not None and fault.due <= now]
    if not eligible:
        return None
    due_faults = [fault for fault, _ in eligible]
    cause = min(due_faults, key=lambda fault: (-fault.action, -fault.rank, *_order(fault)))
    bound_by = min(due_faults, key=lambda fault: (_bound(fault), *_order(fault)))
    score = max(fault.rank + (now - due) / timedelta(minutes=MINUTES_PER_RANK) for fault, due in eligible)
    return RepairDecision(cause.action, cause, bound_by.policy.drain_bound, bound_by, score)


def next_due(faults: Iterable[Fault], now: datetime) -> datetime | None:
    """Return when the next fault of a node becomes due; None if no more do."""
    return min((fault.due for fault in faults if fault.due is not None and fault.due > now), default=None)


def _fault(
    condition: NodeCondition, policy: RepairPolicy, policies: RepairPolicySet, history: NodeHistory, now: datetime
) -> Fault:
    since = _since(condition, history)
    at, is_escalated = since + policy.toleration, False
    waited = timedelta()
    for step in policy.steps:
        if _is_used_up(step, history.reboots, now):
            is_escalated, waited = True, timedelta()  # the fault began again when the last reboot had ended
            continue
        waited += step.patience
        if step.action is not RepairAction.WAIT:
            return Fault(condition, policy, policies.rank(policy), since, step.action, at + waited, is_escalated)
    return Fault(condition, policy, policies.rank(policy), since, RepairAction.WAIT, None, is_escalated)


def _since(condition: NodeCondition, history: NodeHistory) -> datetime:
    starts = [clock_instant(condition.since), history.created_at, history.rebooted_at]
    return max(start for start in starts if start is not None)


def _is_used_up(step: LadderStep, reboots: Iterable[datetime], now: datetime) -> bool:
    if step.at_most is None or step.within is None:
        return False
    return sum(at > now - step.within for at in reboots) >= step.at_most


def _bound(fault: Fault) -> timedelta:
    return fault.policy.drain_bound if fault.policy.drain_bound is not None else _UNBOUNDED


def _order(fault: Fault) -> tuple[datetime, str, str, str]:
    """The earlier eligibility, then the lower name (N15-112, N15-113)."""
    due = fault.due or datetime.max.replace(tzinfo=UTC)
    return due, fault.condition.type, fault.condition.status, fault.policy.reason or ""
