"""Workflows under the names of Tenon's that only wait: of a large cluster they are open, and not what is measured."""

from __future__ import annotations

from typing import Any

from temporalio import workflow


@workflow.defn(name="NodeClaim")
class WaitingNodeClaim:
    """A node's workflow that only waits: its life is not what is measured."""

    @workflow.run
    async def run(self, _: Any) -> None:
        """For ever."""
        await workflow.wait_condition(lambda: False)

    @workflow.signal
    def poke(self, _: Any) -> None:
        """Nothing to do."""


@workflow.defn(name="NodeClass")
class WaitingNodeClass:
    """The same for an EC2NodeClass."""

    @workflow.run
    async def run(self, _: Any) -> None:
        """For ever."""
        await workflow.wait_condition(lambda: False)

    @workflow.signal
    def poke(self) -> None:
        """Nothing to do."""


@workflow.defn(name="DisruptionCommand")
class WaitingCommand:
    """A command whose nodes never answer."""

    @workflow.run
    async def run(self, _: Any) -> None:
        """For ever."""
        await workflow.wait_condition(lambda: False)


@workflow.defn(name="Housekeeping")
class WaitingHousekeeping:
    """No sweep."""

    @workflow.run
    async def run(self, _: Any) -> None:
        """At once."""


WAITING = (WaitingNodeClaim, WaitingNodeClass, WaitingCommand, WaitingHousekeeping)
