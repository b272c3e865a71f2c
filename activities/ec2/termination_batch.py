"""Ends instances for all nodes of a process: an ending node never asks EC2 by itself.

Everything that is to be ended is asked for in few calls, and one call a second looks at what is ending. EC2 is asked
once to end an instance: a look that fails is repeated, the request is not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from activities.ec2.errors import EC2Error, Throttled

log = logging.getLogger("controller.nodeclaim.lifecycle")

TERMINATED = "terminated"
COLLECT_SECONDS = 0.1
"""How long the first request waits for others."""
ROUND_SECONDS = 1.0
"""Between two looks at what is ending."""
MOST_LOOKED_AT = 200
"""As many ids as one filter of EC2 takes."""

Pause = Callable[[float], Awaitable[None]]


class Machines(Protocol):
    """EC2, as far as needed here. Both methods block."""

    def end(self, instance_ids: Sequence[str]) -> Mapping[str, str | EC2Error | None]:
        """Asks EC2 to end instances: for each its new state, None for one that EC2 does not know, or the error."""

    def states(self, instance_ids: Sequence[str]) -> Mapping[str, str]:
        """The states of those of the instances that EC2 knows."""


@dataclass(eq=False)
class _Ending:
    asked: bool = False
    state: str = ""
    waiters: list[asyncio.Future[str | None]] = field(default_factory=list)

    def settle(self, outcome: str | EC2Error | None) -> None:
        for waiter in self.waiters:
            if waiter.done():
                continue
            if isinstance(outcome, EC2Error):
                waiter.set_exception(outcome)
            else:
                waiter.set_result(outcome)


class Endings:
    """The instances that a process is ending. For one event loop."""

    def __init__(self, machines: Machines, *, pause: Pause = asyncio.sleep) -> None:
        self._machines = machines
        self._pause = pause
        self._open: dict[str, _Ending] = {}
        self._working: asyncio.Task[None] | None = None

    async def end(self, instance_id: str, patience: float) -> str | None:
        """Ends an instance and waits until EC2 has.

        Returns:
            The last state that EC2 showed within ``patience`` seconds; None when EC2 does not know the instance.

        Raises:
            EC2Error: EC2 refused.
        """
        waiter: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        ending = self._open.setdefault(instance_id, _Ending())
        ending.waiters.append(waiter)
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work(), name="ending instances")
        try:
            async with asyncio.timeout(patience):
                return await waiter
        except TimeoutError:
            return ending.state
        finally:
            ending.waiters.remove(waiter)
            if not ending.waiters and self._open.get(instance_id) is ending:
                del self._open[instance_id]

    async def _work(self) -> None:
        """Works until no caller waits for an instance to end."""
        await self._pause(COLLECT_SECONDS)
        while self._open:
            try:
                await self._ask()
                await self._look()
            except Exception as error:  # the callers get it: nothing else would end their wait
                log.exception("the instances that are ending could not be looked after")
                self._settle_all(EC2Error("Unexpected", f"ending instances: {error}", retryable=True))
            if self._open:
                await self._pause(ROUND_SECONDS)

    async def _ask(self) -> None:
        """Asks EC2 to end what it was not asked to end yet. What is throttled is asked for again in the next round."""
        new = [instance_id for instance_id, ending in self._open.items() if not ending.asked]
        if not new:
            return
        for instance_id, outcome in (await asyncio.to_thread(self._machines.end, new)).items():
            if isinstance(outcome, Throttled):
                continue
            if outcome is None or isinstance(outcome, EC2Error) or outcome == TERMINATED:
                self._settle(instance_id, outcome)
            elif instance_id in self._open:
                self._open[instance_id].asked = True
                self._open[instance_id].state = outcome

    async def _look(self) -> None:
        """Looks at the instances whose last look is the longest ago."""
        asked = [instance_id for instance_id, ending in self._open.items() if ending.asked][:MOST_LOOKED_AT]
        if not asked:
            return
        try:
            states = await asyncio.to_thread(self._machines.states, asked)
        except EC2Error as error:
            if not error.retryable:
                for instance_id in asked:
                    self._settle(instance_id, error)
            log.info("EC2 does not say how far instances have ended", extra={"error": str(error), "count": len(asked)})
            return
        for instance_id in asked:
            state = states.get(instance_id)
            if state is None or state == TERMINATED:
                self._settle(instance_id, state)
            elif instance_id in self._open:
                ending = self._open.pop(instance_id)  # to the end of the line
                ending.state = state
                self._open[instance_id] = ending

    def _settle(self, instance_id: str, outcome: str | EC2Error | None) -> None:
        ending = self._open.pop(instance_id, None)
        if ending is not None:
            ending.settle(outcome)

    def _settle_all(self, outcome: EC2Error) -> None:
        for instance_id in list(self._open):
            self._settle(instance_id, outcome)
