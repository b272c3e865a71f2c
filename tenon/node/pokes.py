"""Decides which changes in the cluster wake up a node's workflow."""

from __future__ import annotations

from collections.abc import Sequence

from tenon.apis import labels
from tenon.kube.taints import Taint
from tenon.messages.node import Poke, RebootRequest, Removal


def poke_for(
    *,
    claim_deleting: bool,
    removals: tuple[Removal, ...],
    registered: bool,
    initialized: bool,
    startup_taints: Sequence[Taint],
    node_name: str = "",
    several_nodes: bool = False,
    node_ready: bool = False,
    node_deleting: bool = False,
    node_taints: Sequence[Taint] = (),
    disruption_reason: bool = False,
    candidate: bool = False,
    minutes_late: int = 0,
    reboot: RebootRequest | None = None,
    rebooted: bool = False,
) -> Poke | None:
    """Return the poke for the current state of the objects; None if the workflow waits for none of it.

    ``disruption_reason``: the NodeClaim has the condition that a disruption command sets. ``candidate``: taint and
    condition belong to an open command, so they stay. ``minutes_late``: see
    `tenon.node.registration.minutes_late`. ``reboot``: the reboot that the NodeClaim records; ``rebooted``: the Node
    reports another boot than before it.

    The same state always gives the same poke, so that a sender can detect that it was already sent. If several Nodes
    have the claim's provider ID, the poke names none of them, so that registration finds and reports them all.
    """
    if claim_deleting:  # the same while the Node is deleted and goes, because each poke is billed
        return Poke(claim_deleting=True, removals=removals, reason="deleted")
    if node_deleting:
        return Poke(node_name=node_name, node_deleting=True, reason="deleted")
    if not node_name:
        late = minutes_late and not registered
        return Poke(minutes_late=minutes_late, reason=f"no Node after {minutes_late} minutes") if late else None
    if not registered:
        return Poke(node_name="" if several_nodes else node_name, reason="joined")
    if reboot is not None:
        ready = rebooted and node_ready
        return Poke(node_name=node_name, reboot=reboot, rebooted=rebooted, node_ready=ready, reason="reboots")
    if not initialized and node_ready and not _waiting(startup_taints, node_taints):
        return Poke(node_name=node_name, node_ready=True, reason="ready")
    tainted = any((taint.key, taint.effect) == labels.DISRUPTED_TAINT for taint in node_taints)
    if initialized and not candidate and (tainted or disruption_reason):
        return Poke(node_name=node_name, disrupted=True, reason="disrupted")
    return None


def is_known_to_workflow(poke: Poke) -> bool:
    """True if the poke says only what the node's workflow did itself: it deleted the NodeClaim."""
    return poke.claim_deleting and bool(poke.removals) and all(removal.by_workflow for removal in poke.removals)


def _waiting(startup_taints: Sequence[Taint], node_taints: Sequence[Taint]) -> bool:
    """True if the node still has a taint that initialization waits for."""
    awaited = {(taint.key, taint.effect) for taint in startup_taints}
    return any(
        (taint.key, taint.effect) in awaited or labels.is_ephemeral_taint(taint.key, taint.effect)
        for taint in node_taints
    )
