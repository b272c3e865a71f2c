"""When a node may be consolidated: consolidateAfter has passed since a pod last came or went (DIS-30)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from tenon.disruption.model import ManagedNode, PoolPolicy
from tenon.kube.claim_record import ClaimRecord


def consolidatable_at(claim: ClaimRecord, policy: PoolPolicy, last_pod_event: datetime | None) -> datetime | None:
    """Return from when on the condition Consolidatable is True; None if it is not for now.

    Args:
        claim: the NodeClaim.
        policy: what its NodePool says.
        last_pod_event: the last one that was seen, if it is later than what the claim's status records.
    """
    since = claim.initialized_at
    if policy.consolidate_after is None or since is None:
        return None
    for event in (claim.last_pod_event, last_pod_event):
        if event is not None:
            since = max(since, event)
    return since + policy.consolidate_after


def moves_from(
    nodes: Iterable[ManagedNode], policies: Mapping[str, PoolPolicy], quiet_since: Mapping[str, datetime]
) -> datetime | None:
    """Return from when on a node with pods may be consolidated, at the earliest; None if none may.

    It is cheap and only says when a look for moves is worth its time: a busy cluster often has no quiet node.

    Args:
        nodes: all nodes.
        policies: by NodePool.
        quiet_since: by NodeClaim, the last pod event, or the initialization if that is later.
    """
    due = (may_move_from(node, policies, quiet_since) for node in nodes)
    return min((time for time in due if time is not None), default=None)


def may_move_from(
    node: ManagedNode, policies: Mapping[str, PoolPolicy], quiet_since: Mapping[str, datetime]
) -> datetime | None:
    """Return from when on consolidation may move the pods of a node; None if it may not, or the node has none.

    Args:
        node: the node.
        policies: by NodePool.
        quiet_since: by NodeClaim, the last pod event, or the initialization if that is later.
    """
    policy, since = policies.get(node.pool), quiet_since.get(node.claim)
    if policy is None or since is None or node.leaving or node.empty:
        return None
    if policy.consolidate_after is None or policy.consolidation_policy == "WhenEmpty":
        return None
    return since + policy.consolidate_after


def settles_at(
    nodes: Iterable[ManagedNode],
    policies: Mapping[str, PoolPolicy],
    quiet_since: Mapping[str, datetime],
    now: datetime,
    step: timedelta,
) -> datetime:
    """Return when the nodes that become due one after another have all done so; ``now`` if none is due within a step.

    When a load falls, nodes lose their pods within seconds of each other. A look between the first and the last of them
    finds room on the first ones, and only full nodes whose pods could use it. A moment later the same room would take
    the few pods of nodes that are nearly empty, and save as much.

    Args:
        nodes: all nodes.
        policies: by NodePool.
        quiet_since: by NodeClaim, the last pod event, or the initialization if that is later.
        now: the current time.
        step: the longest time between two that follow each other.
    """
    found = []
    for node in nodes:
        policy, since = policies.get(node.pool), quiet_since.get(node.claim)
        if policy is not None and policy.consolidate_after is not None and since is not None and not node.leaving:
            found.append(since + policy.consolidate_after)
    settled = now
    for due in sorted(due for due in found if due > now):
        if due - settled > step:
            break
        settled = due
    return settled
