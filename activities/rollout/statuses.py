"""Writes the status of a NodeRollout, which launches and disruption follow, and publishes its events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from temporalio import activity

from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.resources import NODEPOOLS, NODEROLLOUTS
from tenon.apis.json_object import JsonObject
from tenon.apis.noderollout import MAX_WAVE_CLAIMS, NodePoolRollout
from tenon.kube import object_json
from tenon.messages.base import ActivityName
from tenon.messages.rollout import PoolProgress, RolloutAnnouncement, RolloutWritten, WriteRolloutInput


class RolloutStatuses:
    """The activity that writes status.nodePools and publishes what happened."""

    def __init__(self, kube: Kube, recorder: EventPublisher) -> None:
        self._kube = kube
        self._recorder = recorder

    @activity.defn(name=ActivityName.WRITE_ROLLOUT)
    async def write(self, write_input: WriteRolloutInput) -> RolloutWritten:
        """Write the status. It replaces the list as a whole, so writing it twice is the same as once.

        An event that is published twice is counted in the first one. A NodeRollout that was deleted and created again
        starts over, so it gets neither.
        """
        name = write_input.name
        present = await self._kube.get(NODEROLLOUTS, name)
        if present is None:
            return RolloutWritten(exists=False)
        body = {"status": {"nodePools": status_rows(write_input.pools)}}
        patched = await change(
            self._kube,
            NODEROLLOUTS,
            name,
            lambda _: body,
            uid=write_input.uid or object_json.uid(present),
            subresource="status",
            read_object=present,
        )
        if patched is not None:
            await self._announce(patched, write_input.announcements)
        return RolloutWritten()

    async def _announce(self, rollout: JsonObject, announcements: Sequence[RolloutAnnouncement]) -> None:
        pools: dict[str, JsonObject | None] = {}
        for announcement in announcements:
            if announcement.pool not in pools:
                pools[announcement.pool] = await self._kube.get(NODEPOOLS, announcement.pool)
            for about in (rollout, pools[announcement.pool]):
                if about is not None:
                    await self._recorder.publish(about, announcement.reason, announcement.message)


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
        cause=progress.cause,
    )
    return row.to_dict()
