"""The limit on requests per second, in time that only the tests move."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from activities.kubernetes.errors import TooManyRequestsError
from activities.kubernetes.rate_limit import RateLimit, RequestClass, requests_as
from activities.kubernetes.transport import Transport

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


async def of(kind: RequestClass, limit: RateLimit, count: int) -> list[asyncio.Task[float]]:
    """So many requests of a class that wait."""
    with requests_as(kind):
        return await waiting(limit, count)


@pytest.mark.parametrize("kind", [RequestClass.START, RequestClass.LEAVE])
async def test_a_node_that_starts_or_is_cordoned_does_not_wait_behind_a_drain_of_200_nodes(kind: RequestClass) -> None:
    """200 nodes with 30 pods each: an eviction and an event for each pod, before everything else."""
    limit = RateLimit(qps=200.0, burst=300)
    evictions = await of(RequestClass.EVICT, limit, 200 * 30)
    events = await of(RequestClass.EVENT, limit, 200 * 30)
    await asyncio.sleep(1)
    waits = []
    for _ in range(15):
        began = asyncio.get_running_loop().time()
        with requests_as(kind):
            await limit.acquire()
        waits.append(asyncio.get_running_loop().time() - began)
    assert max(waits) < 0.05, "it takes turns with each class"
    assert not evictions[-1].done()
    await asyncio.gather(*evictions, *events)
    assert asyncio.get_running_loop().time() == pytest.approx((12_000 + 15 - 300) / 200, abs=0.1), "no turn is lost"


async def test_no_class_starves_while_others_wait() -> None:
    limit = RateLimit(qps=16.0, burst=1)
    tasks = {kind: await of(kind, limit, 200) for kind in RequestClass}
    await asyncio.sleep(10)
    went = {kind: sum(task.done() for task in tasks[kind]) for kind in RequestClass}
    assert went == {kind: pytest.approx(10 * kind.value, abs=2) for kind in RequestClass}
    for task in (task for kind in tasks.values() for task in kind):
        task.cancel()


async def test_a_class_that_was_quiet_has_saved_no_turns() -> None:
    limit = RateLimit(qps=12.0, burst=1)
    evictions = await of(RequestClass.EVICT, limit, 1000)
    await asyncio.sleep(50)
    starts = await of(RequestClass.START, limit, 1000)
    before = sum(task.done() for task in evictions)
    await asyncio.sleep(11)
    assert sum(task.done() for task in evictions) - before == pytest.approx(36, abs=2)
    for task in (*evictions, *starts):
        task.cancel()


async def test_a_class_does_not_pay_later_for_what_it_sent_while_no_other_waited() -> None:
    limit = RateLimit(qps=10.0, burst=1)
    for _ in range(50):
        (event,) = await of(RequestClass.EVENT, limit, 1)
        await event
        await asyncio.sleep(1)
    starts = await of(RequestClass.START, limit, 101)
    events = await of(RequestClass.EVENT, limit, 5)
    await asyncio.sleep(5)
    assert sum(task.done() for task in events) == pytest.approx(5, abs=1)
    for task in (*starts, *events):
        task.cancel()


async def test_nothing_is_sent_during_a_pause_that_the_api_server_asked_for() -> None:
    limit = RateLimit(qps=10.0, burst=3)
    first = await waiting(limit, 4)
    limit.pause(5)
    assert await asyncio.gather(*first, *await waiting(limit, 1)) == pytest.approx([0, 0, 0, 5, 5], abs=0.01)


async def test_a_short_pause_does_not_end_a_longer_one() -> None:
    """The answers of requests that were sent together may arrive in any order."""
    limit = RateLimit(qps=10.0, burst=3)
    limit.pause(10)
    limit.pause(1)
    assert await asyncio.gather(*await waiting(limit, 1)) == pytest.approx([10], abs=0.01)


async def test_events_that_the_api_server_throttles_hold_up_no_node_that_starts() -> None:
    """The admission plugin EventRateLimit refuses events alone."""
    limit = RateLimit(qps=10.0, burst=1)
    with requests_as(RequestClass.EVENT):
        limit.pause(30)
    events, starts = await of(RequestClass.EVENT, limit, 2), await of(RequestClass.START, limit, 40)
    await asyncio.sleep(5)
    assert all(task.done() for task in starts), "so many that events would have had their turn"
    assert not any(task.done() for task in events)
    await asyncio.sleep(30)
    assert all(task.done() for task in events)


class Throttled(Transport):
    """A transport that meets these answers, one for each request that it sends."""

    def __init__(self, *answers: TooManyRequestsError) -> None:
        self._limit = RateLimit(qps=200.0, burst=300)
        self._answers = list(answers)
        self.sent_at: list[float] = []

    async def _request(self, *_request: Any) -> bytes:
        await self._limit.acquire()
        self.sent_at.append(asyncio.get_running_loop().time())
        if self._answers:
            raise self._answers.pop(0)
        return b"{}"


def throttling(seconds: float, *causes: tuple[str, str]) -> TooManyRequestsError:
    return TooManyRequestsError(429, "TooManyRequests", "slow down", retry_after=seconds, causes=causes)


async def test_a_throttling_api_server_is_left_alone_for_as_long_as_it_asked() -> None:
    transport = Throttled(throttling(3), throttling(1))
    assert await transport.request("GET", "/version") == b"{}"
    await transport.request("GET", "/version")
    assert transport.sent_at == pytest.approx([0, 3, 4, 4], abs=0.02)


async def test_the_caller_gets_the_error_of_a_server_that_throttles_for_long() -> None:
    transport = Throttled(*[throttling(4)] * 5)
    with pytest.raises(TooManyRequestsError):
        await transport.request("GET", "/version")
    assert transport.sent_at == pytest.approx([0, 4, 8], abs=0.02)
    assert await Throttled().request("GET", "/version") == b"{}"


async def test_no_pause_is_longer_than_half_a_minute() -> None:
    transport = Throttled(throttling(3600))
    with pytest.raises(TooManyRequestsError):
        await transport.request("GET", "/version")
    await transport.request("GET", "/version")
    assert transport.sent_at == pytest.approx([0, 30], abs=0.02)


@pytest.mark.parametrize("error", [throttling(0), throttling(10, ("DisruptionBudget", "budget b needs 2"))])
async def test_a_budget_that_blocks_an_eviction_does_not_stop_other_requests(error: TooManyRequestsError) -> None:
    transport = Throttled(error)
    with pytest.raises(TooManyRequestsError):
        await transport.request("POST", "/eviction")
    await transport.request("GET", "/version")
    assert transport.sent_at == pytest.approx([0, 0], abs=0.02)
