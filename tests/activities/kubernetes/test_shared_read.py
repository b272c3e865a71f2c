"""One read of an object for callers that ask at the same time."""

from __future__ import annotations

import asyncio

import pytest

from activities.kubernetes.errors import ApiError
from activities.kubernetes.shared_read import SharedRead
from tenon.apis.json_object import JsonObject


class Server:
    """Answers each read when the test says so."""

    def __init__(self) -> None:
        self.version = 1
        self.exists = True
        self.reads = 0
        self.begun: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue()
        self.parsed: list[int] = []
        self.shared = SharedRead(self.read, self.parse)

    async def read(self, name: str) -> JsonObject | None:
        version = self.version
        self.reads += 1
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.begun.put_nowait(future)
        await future
        return {"metadata": {"name": name, "uid": "u", "resourceVersion": str(version)}} if self.exists else None

    def parse(self, raw: JsonObject) -> int:
        self.parsed.append(int(raw["metadata"]["resourceVersion"]))
        return self.parsed[-1]

    def ask(self) -> asyncio.Task[int | None]:
        return asyncio.create_task(self.shared.get("a"))

    async def answer(self) -> None:
        (await self.begun.get()).set_result(None)


async def test_callers_at_the_same_time_share_a_read() -> None:
    server = Server()
    requests = [server.ask() for _ in range(10)]
    await server.answer()
    assert await asyncio.gather(*requests) == [1] * 10
    assert server.reads == 1


async def test_an_answer_is_never_older_than_the_question() -> None:
    """The object may have changed after the API server answered the read that is under way."""
    server = Server()
    first = server.ask()
    under_way = await server.begun.get()
    server.version = 2
    late = [server.ask(), server.ask()]
    under_way.set_result(None)
    assert await first == 1
    await server.answer()
    assert await asyncio.gather(*late) == [2, 2]
    assert server.reads == 2


async def test_each_version_is_parsed_once() -> None:
    server = Server()
    for version, exists in [(1, True), (1, True), (2, True), (2, False), (2, True)]:
        server.version, server.exists = version, exists
        requests = server.ask()
        await server.answer()
        assert await requests == (version if exists else None)
    assert server.parsed == [1, 2, 2]


async def test_a_failed_read_is_everybodys_error_and_not_remembered() -> None:
    server = Server()
    requests = [server.ask(), server.ask()]
    (await server.begun.get()).set_exception(ApiError(500, "InternalError", "broken"))
    for item in requests:
        with pytest.raises(ApiError):
            await item
    again = server.ask()
    await server.answer()
    assert await again == 1


async def test_a_cancelled_caller_does_not_end_the_read_of_the_others() -> None:
    server = Server()
    leaves, stays = server.ask(), server.ask()
    under_way = await server.begun.get()
    leaves.cancel()
    under_way.set_result(None)
    assert await stays == 1
    assert leaves.cancelled()
