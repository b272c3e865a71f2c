"""What kept pods of a leaving node, and for how long, so that people can read it after the node is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from tenon.evolve import evolve
from tenon.messages.node_steps import BlockedPods
from tenon.node.drain_blockers import NAMED_PODS
from tenon.node.state import DrainBlock, NodeState
from tenon.sentences import shortened

MAX_BLOCKS = 6
"""How many causes the state keeps: it is in the argument of every continue-as-new."""
MAX_CAUSE = 150
VOLUMES = "volumes that stay attached"


def cause_of(blocked: BlockedPods) -> str:
    """Return what keeps the pods, without their names, so that the same thing has the same name on all nodes."""
    for names, kind in (
        (blocked.budgets, "PodDisruptionBudget"),
        ((blocked.annotation,) if blocked.annotation else (), "annotation"),
        (blocked.finalizers, "finalizer"),
    ):
        if names:
            return shortened(f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names)}", MAX_CAUSE)
    return shortened(blocked.why, MAX_CAUSE)


def with_blocks(state: NodeState, blocked: Sequence[BlockedPods], now: datetime) -> NodeState:
    """Note what keeps pods now. What did before, and is not among it, does not keep them any more."""
    pods: dict[str, list[str]] = {}
    others: dict[str, int] = {}
    for blocked_pods in blocked:
        cause = cause_of(blocked_pods)
        pods.setdefault(cause, []).extend(blocked_pods.pods)
        others[cause] = others.get(cause, 0) + blocked_pods.more
    counts = {cause: (names, len(names) + others[cause]) for cause, names in pods.items()}
    return _with_causes(state, counts, now)


def with_volumes(state: NodeState, attached: int, now: datetime) -> NodeState:
    """Note whether volumes of drained pods keep the node."""
    return _with_causes(state, {VOLUMES: ((), 0)} if attached else {}, now)


def _with_causes(state: NodeState, causes: Mapping[str, tuple[Sequence[str], int]], now: datetime) -> NodeState:
    blocks = [
        _blocking(block, *causes[block.cause], now) if block.cause in causes else ended_block(block, now)
        for block in state.drain_blocks
    ]
    earlier = {block.cause for block in blocks}
    for cause, (names, count) in causes.items():
        if cause not in earlier and len(blocks) < MAX_BLOCKS:
            blocks.append(_blocking(DrainBlock(cause=cause, since=now), names, count, now))
    return state if tuple(blocks) == state.drain_blocks else evolve(state, drain_blocks=tuple(blocks))


def _blocking(block: DrainBlock, names: Sequence[str], count: int, now: datetime) -> DrainBlock:
    return evolve(
        block,
        pods=tuple(dict.fromkeys((*block.pods, *names)))[:NAMED_PODS],
        pod_count=max(block.pod_count, count),
        lasts_since=block.lasts_since or now,
    )


def ended_block(block: DrainBlock, now: datetime) -> DrainBlock:
    """Return the block as it is when it keeps nothing from ``now`` on."""
    if block.lasts_since is None:
        return block
    seconds = block.seconds + max(0.0, (now - block.lasts_since).total_seconds())
    return evolve(block, seconds=round(seconds, 3), lasts_since=None)
