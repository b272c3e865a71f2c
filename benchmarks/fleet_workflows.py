"""Idle workflows under Tenon's workflow names. A large cluster has them open; the benchmark does not measure them."""

from __future__ import annotations

from typing import Any

from temporalio import workflow


@workflow.defn(name="NodeClaim")
class WaitingNodeClaim:
    """A NodeClaim workflow that only waits, because the benchmark does not measure it."""

    @workflow.run
    async def run(self, _: Any) -> None:
        """Wait forever."""
        await workflow.wait_condition(lambda: False)

    @workflow.signal
    def poke(self, _: Any) -> None:
        """Ignore the signal."""


@workflow.defn(name="NodeClass")
class WaitingNodeClass:
    """An EC2NodeClass workflow that only waits."""

    @workflow.run
    async def run(self, _: Any) -> None:
        """Wait forever."""
        await workflow.wait_condition(lambda: False)

    @workflow.signal
    def poke(self) -> None:
        """Ignore the signal."""


@workflow.defn(name="DisruptionCommand")
class WaitingCommand:
    """A disruption command that never ends."""

    @workflow.run
    async def run(self, _: Any) -> None:
        """Wait forever."""
        await workflow.wait_condition(lambda: False)


@workflow.defn(name="GarbageCollection")
class WaitingGarbageCollection:
    """A garbage collection workflow without sweeps."""

    @workflow.run
    async def run(self, _: Any) -> None:
        """Complete at once."""


WAITING = (WaitingNodeClaim, WaitingNodeClass, WaitingCommand, WaitingGarbageCollection)
