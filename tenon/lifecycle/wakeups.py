"""When a node's workflow should look again: which changes on the cluster it waits for."""

from __future__ import annotations

from collections.abc import Sequence

from tenon.apis import labels
from tenon.kube.taints import Taint
from tenon.lifecycle.messages import Poke


def poke_for(
    *,
    claim_deleting: bool,
    registered: bool,
    initialized: bool,
    startup_taints: Sequence[Taint],
    node_name: str = "",
    several_nodes: bool = False,
    node_ready: bool = False,
    node_deleting: bool = False,
    node_taints: Sequence[Taint] = (),
    disruption_reason: bool = False,
) -> Poke | None:
    """The poke that the present level of things deserves; None when the workflow waits for nothing of it.

    ``disruption_reason``: the NodeClaim has the condition that a disruption command sets.

    The same level always gives the same poke, so that a sender can tell whether it was sent before. Of several Nodes
    with the claim's provider ID none is named, so that registration finds them all and says so.
    """
    if claim_deleting or node_deleting:
        return Poke(node_name=node_name, claim_deleting=claim_deleting, node_deleting=node_deleting, reason="deleted")
    if not node_name:
        return None
    if not registered:
        return Poke(node_name="" if several_nodes else node_name, reason="joined")
    if not initialized and node_ready and not _waiting(startup_taints, node_taints):
        return Poke(node_name=node_name, node_ready=True, reason="ready")
    tainted = any((taint.key, taint.effect) == labels.DISRUPTED_TAINT for taint in node_taints)
    if initialized and (tainted or disruption_reason):
        return Poke(node_name=node_name, disrupted=True, reason="disrupted")
    return None


def _waiting(startup_taints: Sequence[Taint], node_taints: Sequence[Taint]) -> bool:
    """Whether the node still carries a taint that initialization waits for."""
    awaited = {(taint.key, taint.effect) for taint in startup_taints}
    return any(
        (taint.key, taint.effect) in awaited or labels.is_ephemeral_taint(taint.key, taint.effect)
        for taint in node_taints
    )
