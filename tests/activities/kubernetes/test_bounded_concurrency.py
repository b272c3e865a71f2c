"""Requests side by side: never too many, and none left behind."""

from __future__ import annotations

import asyncio

import pytest

from activities.kubernetes.bounded_concurrency import bounded


async def test_answers_keep_their_order_and_few_are_in_flight() -> None:
    flying, most = 0, 0

    async def act(item: int) -> int:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        for _ in range(item % 3):
            await asyncio.sleep(0)
        flying -= 1
        return -item

    assert await bounded(range(50), 4, act) == [-item for item in range(50)]
    assert most == 4


async def test_the_first_error_stops_what_has_not_begun() -> None:
    begun: list[int] = []

    async def act(item: int) -> None:
        begun.append(item)
        await asyncio.sleep(0)
        if item == 1:
            raise ValueError("no")
        await asyncio.Event().wait()

    with pytest.raises(ValueError, match="no"):
        await bounded(range(50), 2, act)
    assert len(begun) < 10
