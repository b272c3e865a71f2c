"""The limit on requests per second, in time that only the tests move."""

from __future__ import annotations

import asyncio

import pytest

from activities.kubernetes.transport import RateLimit

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


async def waiting(limit: RateLimit, count: int) -> list[asyncio.Task[float]]:
    """So many requests that wait in this order; each gives the time at which it may go."""

    async def one() -> float:
        await limit.acquire()
        return asyncio.get_running_loop().time()

    tasks = [asyncio.create_task(one()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def test_requests_go_at_the_rate_in_their_order_after_the_burst() -> None:
    limit = RateLimit(qps=10.0, burst=3)
    assert await asyncio.gather(*await waiting(limit, 6)) == pytest.approx([0, 0, 0, 0.1, 0.2, 0.3])


async def test_a_cancelled_request_gives_its_turn_back() -> None:
    """A drain that is overtaken cancels its requests: they must not hold up the ones behind them."""
    limit = RateLimit(qps=10.0, burst=1)
    first, *cancelled = await waiting(limit, 3001)
    assert await first == 0
    (last,) = await waiting(limit, 1)
    for task in cancelled:
        task.cancel()
    assert await last == pytest.approx(0.1)


async def test_time_without_requests_gives_one_burst_back() -> None:
    limit = RateLimit(qps=10.0, burst=2)
    await asyncio.gather(*await waiting(limit, 2))
    await asyncio.sleep(60)
    assert await asyncio.gather(*await waiting(limit, 3)) == pytest.approx([60, 60, 60.1])
