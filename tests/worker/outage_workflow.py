"""A workflow that does something, waits to be told, and does something more."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow


@workflow.defn
class OutageWorkflow:
    """Adds one, waits, adds one."""

    def __init__(self) -> None:
        self._number = 0
        self._going_on = False

    @workflow.run
    async def run(self, number: int) -> int:
        """The number and two."""
        self._number = await self._add(number)
        await workflow.wait_condition(lambda: self._going_on)
        return await self._add(self._number)

    async def _add(self, number: int) -> int:
        answer: int = await workflow.execute_activity(
            "add", number, result_type=int, start_to_close_timeout=timedelta(seconds=30)
        )
        return answer

    @workflow.signal
    def go_on(self) -> None:
        """Add the second one."""
        self._going_on = True

    @workflow.update
    async def reached(self) -> int:
        """The number after the first step."""
        await workflow.wait_condition(lambda: self._number > 0)
        return self._number
