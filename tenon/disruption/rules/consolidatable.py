"""When a node may be consolidated: consolidateAfter has passed since a pod last came or went (DIS-30)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from tenon.disruption.nodes import ManagedNode
from tenon.disruption.pool_policy import PoolPolicy
from tenon.kube.claim_record import ClaimRecord


def over_at(policy: PoolPolicy, since: datetime | None) -> datetime | None:
    """Return when consolidateAfter is over; None if that is never, or it is not known when a pod last came or went."""
    return None if policy.consolidate_after is None or since is None else since + policy.consolidate_after


def is_over(policy: PoolPolicy, since: datetime | None, now: datetime) -> bool:
    """Return whether consolidateAfter is over. It is from the instant on at which it ends, as in Karpenter."""
    after = policy.consolidate_after  # thousands of nodes ask: not by way of `over_at`
    return after is not None and since is not None and since + after <= now


def takes_pods(policy: PoolPolicy | None, since: datetime | None, now: datetime) -> bool:
    """Return whether consolidation may move pods to a node: it is not inside consolidateAfter (DIS-31).

    The node's NodePool may open it early. Otherwise a busy cluster moves far fewer pods, because pods come and go on
    many of its nodes all the time.
    """
    if policy is None or policy.consolidate_after is None or policy.takes_pods_early:
        return True
    return is_over(policy, since, now)


def consolidatable_at(claim: ClaimRecord, policy: PoolPolicy, last_pod_event: datetime | None) -> datetime | None:
    """Return from when on the condition Consolidatable is True; None if it is not for now.

    Args:
        claim: the NodeClaim.
        policy: what its NodePool says.
        last_pod_event: the last one that was seen, if it is later than what the claim's status records.
    """
    if policy.consolidate_after is None or claim.initialized_at is None:
        return None
    return over_at(policy, claim.quiet_since(last_pod_event))


def moves_from(
    nodes: Iterable[ManagedNode], policies: Mapping[str, PoolPolicy], quiet_since: Mapping[str, datetime]
) -> datetime | None:
    """Return from when on a node with pods may be consolidated, at the earliest; None if none may.

    It is cheap and only says when a pass for moves is worth its time: a busy cluster often has no quiet node.

    Args:
        nodes: all nodes.
        policies: by NodePool.
        quiet_since: by NodeClaim, the last pod event, or the initialization if that is later.
    """
    due = (
        over_at(policy, quiet_since.get(node.claim))
        for node in nodes
        if not (node.leaving or node.empty)
        and (policy := policies.get(node.pool)) is not None
        and not policy.keeps_nodes_with_pods
    )
    return min((time for time in due if time is not None), default=None)


def settles_at(
    nodes: Iterable[ManagedNode],
    policies: Mapping[str, PoolPolicy],
    quiet_since: Mapping[str, datetime],
    now: datetime,
    step: timedelta,
) -> datetime:
    """Return when the nodes that become due one after another have all done so; ``now`` if none is due within a step.

    When a load falls, nodes lose their pods within seconds of each other. A pass between the first and the last of them
    finds room on the first ones, and only full nodes whose pods could use it. A moment later the same room would take
    the few pods of nodes that are nearly empty, and save as much.

    Args:
        nodes: all nodes.
        policies: by NodePool.
        quiet_since: by NodeClaim, the last pod event, or the initialization if that is later.
        now: the current time.
        step: the longest time between two that follow each other.
    """
    times = (
        over_at(policy, quiet_since.get(node.claim))
        for node in nodes
        if not node.leaving and (policy := policies.get(node.pool)) is not None
    )
    settled = now
    for due in sorted(time for time in times if time is not None and time > now):
        if due - settled > step:
            break
        settled = due
    return settled
