"""One timer for several waits, because Temporal Cloud bills each timer that is started."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from temporalio import workflow


class Timer:
    """The timer of a workflow that waits for one thing at a time."""

    def __init__(self) -> None:
        self._sleep: asyncio.Task[None] | None = None
        self._over_at: datetime | None = None

    @property
    def over_at(self) -> datetime | None:
        """When the timer that runs is over; None if none runs."""
        return None if self._sleep is None or self._sleep.done() else self._over_at

    def is_over(self) -> bool:
        """Whether the timer is over, or none was started."""
        return self.over_at is None

    def serve(self, at: datetime, slack: timedelta, summary: str) -> datetime:
        """Ensure that a timer runs that is over at the latest ``slack`` after ``at``. Return when it is over.

        A timer that runs already stays if it is early enough. ``summary`` says what happens at the time of a new one.
        """
        running_until = self.over_at
        if running_until is not None and running_until <= at + slack:
            return running_until
        if self._sleep is not None:
            self._sleep.cancel()
        self._over_at = at
        self._sleep = asyncio.create_task(_sleep(max(timedelta(), at - workflow.now()), summary))
        return at


async def _sleep(duration: timedelta, summary: str) -> None:
    await workflow.sleep(duration, summary=summary)
