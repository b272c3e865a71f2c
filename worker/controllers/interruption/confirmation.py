"""Asks EC2 whether it confirms what messages in the interruption queue say.

Everyone who may send to the queue can write such a message, and an old one may arrive again. EC2 itself knows whether
an instance stops, is terminated or has a scheduled event. One call for each batch of messages answers for all of them.
Two minutes before the end of a spot instance nothing is asked: the call has to wait for its turn, and EC2 shows the
interruption only in the spot request. Such a message concerns spot instances only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tenon.ec2.instances.interruption import Evidence, NoticeKind


@dataclass(frozen=True, slots=True)
class InstanceReader:
    """What EC2 says about instances. Both calls block, and may raise EC2Error."""

    states: Callable[[Sequence[str]], Mapping[str, str]]
    """Instance ID to state. Instances that EC2 does not know are left out."""
    scheduled: Callable[[], Collection[str]]
    """The instances that have a scheduled event."""


class InterruptionCheck:
    """The evidence for one batch of messages. Each call is made at most once, and only if a message needs it."""

    def __init__(self, reader: InstanceReader, notices: Iterable[tuple[NoticeKind, str]]) -> None:
        """``notices``: the kind of each message, and an instance of this cluster that it names."""
        self._reader = reader
        self._ids = sorted({instance_id for kind, instance_id in notices if kind.asks_for_state})
        self._states: asyncio.Future[Mapping[str, str]] | None = None
        self._scheduled: asyncio.Future[Collection[str]] | None = None

    async def evidence(self, kind: NoticeKind, instance_id: str) -> Evidence:
        """What EC2 says about an instance, as far as the kind of the message needs it.

        Raises:
            EC2Error: the call failed.
        """
        state, scheduled = "", False
        if kind.asks_for_state:
            if self._states is None:
                self._states = asyncio.ensure_future(asyncio.to_thread(self._reader.states, self._ids))
            state = (await self._states).get(instance_id, "")
        if kind.asks_for_events:
            if self._scheduled is None:
                self._scheduled = asyncio.ensure_future(asyncio.to_thread(self._reader.scheduled))
            scheduled = instance_id in await self._scheduled
        return Evidence(state=state, scheduled=scheduled)
