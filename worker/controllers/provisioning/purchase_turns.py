"""Lets controllers that buy nodes under limits on costs take turns, so that each counts what the others bought.

All NodePools share MAX_HOURLY_COST, and the cache hears of new NodeClaims a moment after they are written.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from activities.kubernetes.errors import ApiError
from worker.cache.planning_view import PlanningView


class PurchaseTurns:
    """The turns of all controllers of a process."""

    def __init__(self, view: PlanningView) -> None:
        """``view``: what the controllers plan with."""
        self._view = view
        self._lock = asyncio.Lock()
        self._bought: list[str] = []

    @contextlib.asynccontextmanager
    async def next(self, *, limits_cost: bool) -> AsyncIterator[list[str]]:
        """Wait until the view has what was bought in earlier turns. If no limit on costs applies, nothing waits.

        Yields the list to which the caller adds the name of each NodeClaim before it writes it.

        Raises:
            ApiError: the view lacks NodeClaims, and the API server did not list them in time.
        """
        if not limits_cost:
            yield []
            return
        async with self._lock:
            try:
                await self._view.catch_up(self._bought)
            except TimeoutError:
                message = "The worker cannot list the NodeClaims again, and buys nothing more under a limit on costs"
                raise ApiError(0, "Timeout", message) from None
            self._bought = []
            yield self._bought
