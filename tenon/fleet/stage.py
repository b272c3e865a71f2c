"""The stage of a node, as far as its NodeClaim and its Node say it without the node's workflow."""

from __future__ import annotations

from tenon.apis.nodeclaim import DRAINED, VOLUMES_DETACHED
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.records import NodeRecord
from tenon.kube.taints import DISRUPTED
from tenon.node.state import Stage


def stage_of(claim: ClaimRecord | None, node: NodeRecord | None) -> Stage:
    """Return the stage of a node. A Node without a NodeClaim is live unless its deletion was requested."""
    if claim is None:
        return Stage.DRAINING if node is not None and node.deleting else Stage.LIVE
    if claim.deleting or (node is not None and node.deleting):
        return _leaving_stage(claim, node)
    if claim.rebooting:
        return Stage.REBOOTING
    if not claim.launched:
        return Stage.LAUNCHING
    if not claim.registered:
        return Stage.REGISTERING
    return Stage.LIVE if claim.initialized else Stage.INITIALIZING


def _leaving_stage(claim: ClaimRecord, node: NodeRecord | None) -> Stage:
    if claim.terminating or node is None:
        return Stage.TERMINATING
    if claim.condition(VOLUMES_DETACHED).get("status") in ("True", "False"):  # False: they are not waited for
        return Stage.TERMINATING
    if claim.is_true(DRAINED):
        return Stage.DETACHING
    return Stage.DRAINING if DISRUPTED in node.taints else Stage.CORDONING
