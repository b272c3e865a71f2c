"""Decides which changes in the cluster wake up a node's workflow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tenon.apis import labels
from tenon.apis.nodeclaim import DISRUPTION_REASON
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.records import NodeRecord
from tenon.kube.taints import Taint
from tenon.messages.node import Poke
from tenon.node.leave_text import recorded
from tenon.node.reboot_record import recorded_request
from tenon.node.registration import minutes_late


def poke_for(claim: ClaimRecord, node: NodeRecord | None, now: datetime, *, several_nodes: bool = False) -> Poke | None:
    """Return the poke for the current state of a NodeClaim and its Node; None if the workflow waits for none of it.

    The same state always gives the same poke, so that a sender can detect that it was already sent. If several Nodes
    have the claim's provider ID, the poke names none of them, so that registration finds and reports them all.
    """
    if claim.deleting:  # the same while the Node is deleted and goes, because each poke is billed
        return Poke(claim_deleting=True, removals=recorded(claim.annotations), reason="deleted")
    if node is None:
        minutes = minutes_late(claim, now)
        return Poke(minutes_late=minutes, reason=f"no Node after {minutes} minutes") if minutes else None
    if node.deleting:
        return Poke(node_name=node.name, node_deleting=True, reason="deleted")
    if not claim.registered:
        return Poke(node_name="" if several_nodes else node.name, reason="joined")
    if (reboot := recorded_request(claim)) is not None:
        rebooted = bool(claim.pre_boot_id) and node.boot_id not in ("", claim.pre_boot_id)
        ready = rebooted and node.ready
        return Poke(node_name=node.name, reboot=reboot, rebooted=rebooted, node_ready=ready, reason="reboots")
    if not claim.initialized and node.ready and not _waiting(claim.startup_taints, node.taints):
        return Poke(node_name=node.name, node_ready=True, reason="ready")
    tainted = any((taint.key, taint.effect) == labels.DISRUPTED_TAINT for taint in node.taints)
    prepared = bool(claim.disrupted_by)  # taint and condition belong to an open command, so they stay
    if claim.initialized and not prepared and (tainted or claim.is_true(DISRUPTION_REASON)):
        return Poke(node_name=node.name, disrupted=True, reason="disrupted")
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
