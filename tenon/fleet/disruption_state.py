"""What keeps a node, or is about to remove it, as far as Kubernetes says it: annotations, conditions, taints.

`tenon explain node` knows more, because it plans: budgets, prices of replacements, and whether the pods fit elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from tenon.apis.nodeclaim import CONSOLIDATABLE, DISRUPTION_REASON, DRIFTED
from tenon.apis.warm import FILLING, STARTING, STOPPED
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.protection import node_protection, pod_protection
from tenon.kube.records import NodeRecord, ObjectRecord, PodRecord
from tenon.kube.taints import UNSCHEDULABLE
from tenon.kube.timestamps import time_text
from tenon.node.leave_text import removal_of, removal_text
from tenon.sentences import counted

EXPIRES_SOON = timedelta(hours=24)


class DisruptionState(StrEnum):
    """What a row says about a node's disruption in one word."""

    LEAVING = "leaving"
    IN_COMMAND = "in command"
    """An open disruption command prepares to remove it."""
    STARTING = "starting"
    PROTECTED = "protected"
    """An annotation of its own or of a pod forbids disruption."""
    NEVER = "never"
    """Its NodePool does not consolidate."""
    IN_USE = "in use"
    """Its NodePool removes only empty nodes, and it has pods."""
    BLOCKED = "blocked"
    """An event DisruptionBlocked says what keeps it."""
    ASKED = "to approve"
    """A command that removes it waits for a person's approval."""
    FROZEN = "frozen"
    """A DisruptionFreeze stops the disruption of its NodePool."""
    DRIFTED = "drifted"
    EXPIRING = "expiring"
    CONSOLIDATABLE = "may move"
    """consolidateAfter is over. Whether a move saves money is another question."""
    RESTING = "resting"
    """A pod came or went a short time ago."""
    WARM = "warm"
    """Its instance is stopped, or about to be, until pods need it, or starts for them."""
    UNMANAGED = "unmanaged"
    """It has no NodeClaim."""


_WARM = {
    FILLING: "it is stopped in a moment, until pods need it",
    STOPPED: "its instance is stopped until pods need it",
    STARTING: "its instance starts for pods",
}


class NodeDisruption(NamedTuple):
    """The state, and why in a clause."""

    state: DisruptionState
    why: str = ""


def disruption_of(
    claim: ClaimRecord | None,
    node: NodeRecord | None,
    pods: Collection[PodRecord],
    pool: ObjectRecord | None,
    now: datetime,
    event: str = "",
) -> NodeDisruption:
    """Return what removes or keeps a node: the most important of all that holds.

    ``event``: the message of its last event DisruptionBlocked, if that is recent.
    """
    if claim is None:
        why = "cordoned" if node is not None and UNSCHEDULABLE in node.taints else ""
        leaves = node is not None and node.deleting
        return NodeDisruption(DisruptionState.LEAVING if leaves else DisruptionState.UNMANAGED, why)
    if claim.deleting or (node is not None and node.deleting):
        return NodeDisruption(DisruptionState.LEAVING, removal_text(removal_of(claim)))
    if claim.disrupted_by:
        reason = claim.condition(DISRUPTION_REASON).get("reason") or ""
        return NodeDisruption(
            DisruptionState.IN_COMMAND, f"command {claim.disrupted_by}{f': {reason}' if reason else ''}"
        )
    if not claim.initialized:
        return NodeDisruption(DisruptionState.STARTING)
    if claim.warm:
        return NodeDisruption(DisruptionState.WARM, _WARM[claim.warm])
    node_annotations = node.annotations if node is not None else {}
    if annotation := node_protection(claim.annotations, node_annotations, claim.keep_until, now):
        return NodeDisruption(DisruptionState.PROTECTED, annotation)
    if pod_text := _protected_pods(pods, now):
        return NodeDisruption(DisruptionState.PROTECTED, pod_text)
    if event:
        return NodeDisruption(DisruptionState.BLOCKED, event)
    return _of_conditions(claim, pool, sum(pod.reschedulable for pod in pods), now)


def _protected_pods(pods: Iterable[PodRecord], now: datetime) -> str:
    protected_pods = [(pod.key, why) for pod in pods if pod.do_not_disrupt and (why := pod_protection(pod, now))]
    if not protected_pods:
        return ""
    key, why = min(protected_pods)
    more = f" (and {len(protected_pods) - 1} more)" if len(protected_pods) > 1 else ""
    return f"pod {key}{more}: {why}"


def _of_conditions(claim: ClaimRecord, pool: ObjectRecord | None, pods: int, now: datetime) -> NodeDisruption:
    if claim.is_true(DRIFTED):
        condition = claim.condition(DRIFTED)
        return NodeDisruption(DisruptionState.DRIFTED, str(condition.get("message") or condition.get("reason") or ""))
    expires_at = expiry_of(claim)
    if expires_at is not None and expires_at - now <= EXPIRES_SOON:
        return NodeDisruption(DisruptionState.EXPIRING, f"expires at {time_text(expires_at)}")
    if pool is not None and (never := _never(pool)):
        return NodeDisruption(DisruptionState.NEVER, never)
    if pool is not None and pods and _rules(pool).get("consolidationPolicy") == "WhenEmpty":
        why = f"consolidationPolicy of NodePool {pool.name} is WhenEmpty, and it has {counted(pods, 'pod')}"
        return NodeDisruption(DisruptionState.IN_USE, why)
    if claim.is_true(CONSOLIDATABLE):
        return NodeDisruption(DisruptionState.CONSOLIDATABLE, "consolidateAfter is over")
    return NodeDisruption(DisruptionState.RESTING, "consolidateAfter is not over")


def expiry_of(claim: ClaimRecord) -> datetime | None:
    """Return when the node expires; None if it never does."""
    seconds, created_at = claim.expire_after_seconds, claim.created_at
    if not seconds or created_at is None:
        return None
    try:
        return created_at + timedelta(seconds=seconds)
    except OverflowError:
        return None


def _never(pool: ObjectRecord) -> str:
    if pool.spec.get("replicas") is not None:
        return f"NodePool {pool.name} is static"
    if _rules(pool).get("consolidateAfter") == "Never":
        return f"consolidateAfter of NodePool {pool.name} is Never"
    return ""


def _rules(pool: ObjectRecord) -> Mapping[str, Any]:
    """The disruption rules of a NodePool, which other clients than the API server may leave out."""
    rules = pool.spec.get("disruption")
    return rules if isinstance(rules, dict) else {}
