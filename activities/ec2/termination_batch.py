"""Terminates instances in batches for all nodes of a process, so that no node calls EC2 on its own.

A few calls request all terminations, and one call per second checks their progress. Each termination is requested only
once. If a check fails, the check is repeated but not the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Protocol

from activities import loggers, metrics
from activities.ec2.errors import CallStoppedError, EC2Error, ThrottledError

log = loggers.NODECLAIM_LIFECYCLE

TERMINATED = "terminated"
COLLECT_SECONDS = 0.1
"""Seconds that the first request waits for others."""
ROUND_SECONDS = 1.0
"""Seconds between two checks of the instances that are terminating."""
MAX_CHECKED = 200
"""The maximum number of ids in one EC2 filter."""

Pause = Callable[[float], Awaitable[None]]
Accepted = Callable[[], Awaitable[object]]


class Ec2Instances(Protocol):
    """The part of EC2 that this module needs. Both methods block."""

    def terminate_instances(self, instance_ids: Sequence[str]) -> Mapping[str, str | EC2Error | None]:
        """Terminate instances. Return for each its new state, None if EC2 does not know it, or the error."""

    def states(self, instance_ids: Sequence[str]) -> Mapping[str, str]:
        """Instance id to state. Instances that EC2 does not know are left out."""


@dataclass(eq=False)
class _Termination:
    requested: bool = False
    in_flight: bool = False
    """A call that requests the termination is open."""
    state: str = ""
    """The last state that EC2 showed; empty until it has accepted the request."""
    first_answer: asyncio.Event = field(default_factory=asyncio.Event)
    """EC2 has accepted the request, refused it, or does not know the instance."""
    waiters: list[asyncio.Future[str | None]] = field(default_factory=list)
    context: Context = field(default_factory=copy_context)
    """That of the first caller, in whose trace the request is."""

    def accept(self, state: str) -> None:
        self.state = state
        self.first_answer.set()

    def resolve(self, outcome: str | EC2Error | None) -> None:
        if isinstance(outcome, str):
            self.state = outcome
        self.first_answer.set()
        for waiter in self.waiters:
            if waiter.done():
                continue
            if isinstance(outcome, EC2Error):
                waiter.set_exception(outcome)
            else:
                waiter.set_result(outcome)


class Terminations:
    """The instances that a process is terminating. Use it from one event loop only."""

    def __init__(self, ec2: Ec2Instances, *, pause: Pause = asyncio.sleep) -> None:
        self._ec2 = ec2
        self._pause = pause
        self._open: dict[str, _Termination] = {}
        self._working: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Task[None]] = set()

    async def terminate(self, instance_id: str, seconds: float, accepted: Accepted | None = None) -> str | None:
        """Terminate an instance and wait until it is terminated, for at most ``seconds`` seconds.

        ``accepted`` is called once EC2 has accepted the request, which may be minutes before the instance is gone.

        Returns:
            The last state that EC2 showed within this time, or None if EC2 does not know the instance.

        Raises:
            EC2Error: EC2 refused the request.
        """
        waiter: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        termination = self._open.setdefault(instance_id, _Termination())
        termination.waiters.append(waiter)
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work(), name="terminate instances")
        try:
            async with asyncio.timeout(seconds):
                await termination.first_answer.wait()
                if termination.state and accepted is not None:
                    await accepted()
                return await waiter
        except TimeoutError:
            return termination.state
        finally:
            termination.waiters.remove(waiter)
            if not termination.waiters and self._open.get(instance_id) is termination:
                del self._open[instance_id]

    async def _work(self) -> None:
        """Request and check terminations until no caller waits for one."""
        await self._pause(COLLECT_SECONDS)
        while self._open:
            try:
                await self._ask()
                await self._check()
            except Exception as error:  # pass it to the callers, because nothing else would end their wait
                log.exception("The worker failed to terminate instances")
                self._resolve_all(EC2Error("Unexpected", f"terminating instances failed: {error}", retryable=True))
            if self._open:
                await self._pause(ROUND_SECONDS)

    async def _ask(self) -> None:
        """Request the terminations that were not requested yet. The next round repeats those that EC2 throttled.

        A call that takes longer than a round goes on by itself, so that it delays no other instance.
        """
        new = {
            instance_id: termination
            for instance_id, termination in self._open.items()
            if not (termination.requested or termination.in_flight)
        }
        if not new:
            return
        context = next(iter(new.values())).context
        call = asyncio.create_task(self._request(new), name="request terminations", context=context)
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        pause = asyncio.ensure_future(self._pause(ROUND_SECONDS))
        await asyncio.wait({call, pause}, return_when=asyncio.FIRST_COMPLETED)
        pause.cancel()

    async def _request(self, new: Mapping[str, _Termination]) -> None:
        for termination in new.values():
            termination.in_flight = True
        outcomes: Mapping[str, str | EC2Error | None]
        metrics.BATCH_SIZE.labels("terminate_instances").observe(len(new))
        metrics.BATCH_SECONDS.labels("terminate_instances").observe(COLLECT_SECONDS)
        try:
            outcomes = await asyncio.to_thread(self._ec2.terminate_instances, list(new))
        except CallStoppedError as error:
            outcomes = dict.fromkeys(new, error)
        except Exception as error:  # pass it to the callers, because nothing else would end their wait
            log.exception("The worker failed to request terminations")
            outcomes = dict.fromkeys(
                new, EC2Error("Unexpected", f"terminating instances failed: {error}", retryable=True)
            )
        finally:
            for termination in new.values():
                termination.in_flight = False
        for instance_id, outcome in outcomes.items():
            if isinstance(outcome, ThrottledError):
                continue
            if outcome is None or isinstance(outcome, EC2Error) or outcome == TERMINATED:
                self._resolve(instance_id, outcome)
            elif instance_id in self._open:
                self._open[instance_id].requested = True
                self._open[instance_id].accept(outcome)

    async def _check(self) -> None:
        """Check the instances whose last check is the longest ago."""
        requested_ids = [instance_id for instance_id, termination in self._open.items() if termination.requested][
            :MAX_CHECKED
        ]
        if not requested_ids:
            return
        try:
            states = await asyncio.to_thread(self._ec2.states, requested_ids)
        except EC2Error as error:
            if not error.retryable:
                for instance_id in requested_ids:
                    self._resolve(instance_id, error)
            log.info(
                "The worker failed to describe terminating instances and retries",
                extra={"instance-count": len(requested_ids), "error": str(error)},
            )
            return
        for instance_id in requested_ids:
            state = states.get(instance_id)
            if state is None or state == TERMINATED:
                self._resolve(instance_id, state)
            elif instance_id in self._open:
                termination = self._open.pop(instance_id)  # move it to the end of the queue
                termination.state = state
                self._open[instance_id] = termination

    def _resolve(self, instance_id: str, outcome: str | EC2Error | None) -> None:
        termination = self._open.pop(instance_id, None)
        if termination is not None:
            termination.resolve(outcome)

    def _resolve_all(self, outcome: EC2Error) -> None:
        for instance_id in list(self._open):
            self._resolve(instance_id, outcome)
