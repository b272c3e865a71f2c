"""Since when pods have neither come to a node nor left it, from which consolidateAfter counts."""

from __future__ import annotations

from datetime import datetime

from tenon.kube.claim_record import ClaimRecord
from tenon.kube.records import NodeRecord
from tenon.kube.timestamps import from_epoch
from worker.cache.state import ClusterState


def quiet_since(state: ClusterState, claim: ClaimRecord, node: NodeRecord) -> datetime | None:
    """Return when the last pod came to a node or left it, or when it was initialized if that is later."""
    last_event = state.last_pod_event(node.name)
    times = (claim.initialized_at, claim.last_pod_event, from_epoch(last_event))
    return max((time for time in times if time is not None), default=None)
