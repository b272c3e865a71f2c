"""Nodes that cannot leave: after a time, they give their place in a wave to other nodes.

A pod with the annotation karpenter.sh/do-not-disrupt may keep its node for days. Without this, one such node would keep
a new version from all other nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from tenon.evolve import evolve
from tenon.kube.timestamps import time_text
from tenon.messages.rollout import HeldNode, PoolProgress
from tenon.rollout.nodes import PoolNode
from tenon.sentences import counted, shortened

HELD_AFTER = timedelta(minutes=30)
"""How long a node of a wave may be unable to leave, and how long it may drain. It is twice as long as one try to
replace a node with the pause after it (`REPLACEMENTS_WITHIN`, `FAILED_PAUSE`), so that one failure gives up no node."""
MAX_HELD = 50
"""How many held nodes are remembered. Those that are forgotten are tried again."""
MAX_TIMED = 500
"""Of how many nodes it is remembered since when they wait: all NodePools of a rollout share a message."""
MAX_WHY = 200
_NAMED = 3


def with_held_nodes(progress: PoolProgress, nodes: Sequence[PoolNode], now: datetime) -> PoolProgress:
    """Take the nodes out of the wave that were unable to leave for too long, and remember why they stay.

    Others are tried in their place. A node comes back when all others have been tried.
    """
    present = {node.claim: node for node in nodes}
    waiting = [
        node
        for claim in progress.claims
        if (node := present.get(claim)) is not None and not (node.leaving or node.under_command)
    ]
    since = {node.claim: progress.waiting_since.get(node.claim, now) for node in waiting[:MAX_TIMED]}
    late = [node for node in waiting if node.blocked and now - since.get(node.claim, now) >= HELD_AFTER]
    late_claims = {node.claim for node in late}
    before = [
        held_node
        for held_node in progress.held_nodes
        if held_node.claim not in late_claims
        and (node := present.get(held_node.claim)) is not None
        and not (node.leaving or node.under_command)
    ]
    drains = [
        HeldNode(claim=node.claim, since=node.leaving_since, why=_drains(node.leaving_since))
        for node in nodes
        if node.leaving_since is not None and lingers(node, now)
    ]
    held_nodes = [HeldNode(claim=node.claim, since=now, why=shortened(node.blocked, MAX_WHY)) for node in late]
    return evolve(
        progress,
        claims=[claim for claim in progress.claims if claim not in late_claims],
        waiting_since={claim: at for claim, at in since.items() if claim not in late_claims},
        held_nodes=[*before, *held_nodes, *drains][-MAX_HELD:],
    )


def lingers(node: PoolNode, now: datetime) -> bool:
    """Return whether a node drains for so long that no wave waits for its end. Its replacement runs already."""
    return node.leaving and node.leaving_since is not None and now - node.leaving_since >= HELD_AFTER


def held_text(progress: PoolProgress) -> str:
    """Say which nodes cannot leave, and why, as the end of a message; empty if there are none."""
    held_nodes = progress.held_nodes
    if not held_nodes:
        return ""
    lines = [f"{held_node.claim} ({held_node.why})" for held_node in held_nodes[:_NAMED]]
    more = len(held_nodes) - len(lines)
    others = f" and {more} more" if more > 0 else ""
    return f"; {counted(len(held_nodes), 'node')} cannot leave: {', '.join(lines)}{others}"


def _drains(since: datetime) -> str:
    return f"it drains since {time_text(since)}: `tenon node list --blocked` says why"
