"""Writes how far a rollout is into the status of its NodeRollout, which launches and disruption follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from temporalio import activity

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEROLLOUTS
from tenon.apis.noderollout import MAX_WAVE_CLAIMS, NodePoolRollout
from tenon.messages.base import ActivityName
from tenon.messages.rollout import PoolProgress, RolloutWritten, WriteRolloutInput


class RolloutStatuses:
    """The activity that writes status.nodePools."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    @activity.defn(name=ActivityName.WRITE_ROLLOUT)
    async def write(self, write_input: WriteRolloutInput) -> RolloutWritten:
        """Write the status. It replaces the list as a whole, so writing it twice is the same as once."""
        body = {"status": {"nodePools": status_rows(write_input.pools)}}
        patched = await self._kube.patch(NODEROLLOUTS, write_input.name, body, subresource="status")
        return RolloutWritten(exists=patched is not None)


def status_rows(pools: Sequence[PoolProgress]) -> list[dict[str, Any]]:
    """Return status.nodePools of a NodeRollout as JSON."""
    return [_row(progress) for progress in pools]


def _row(progress: PoolProgress) -> dict[str, Any]:
    row = NodePoolRollout(
        name=progress.pool,
        current_revision=progress.current,
        target_revision=progress.target,
        phase=progress.phase,
        wave=progress.wave + 1 if progress.wave is not None else None,
        wave_claims=progress.claims[:MAX_WAVE_CLAIMS],
        message=progress.message,
    )
    return row.to_dict()
