"""One list for all who ask at once, in time that only the tests move."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

from activities.kubernetes.errors import ApiUnreachableError
from activities.kubernetes.shared_list import PAUSE_SECONDS, SharedList

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


class Metadata(msgspec.Struct):
    name: str


class ListedObject(msgspec.Struct):
    metadata: Metadata


class Server:
    """Answers a list after a second, in pages of two."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.lists = 0
        self.fails: Exception | None = None

    async def page(self, token: str) -> bytes:
        self.lists += not token
        names, start = list(self.names), int(token or 0)
        await asyncio.sleep(1)
        if self.fails is not None:
            raise self.fails
        more = str(start + 2) if start + 2 < len(names) else ""
        items = [{"metadata": {"name": name, "uid": "u"}, "spec": {}} for name in names[start : start + 2]]
        return json.dumps({"metadata": {"continue": more}, "items": items}).encode()


def names(founds: list[ListedObject]) -> list[str]:
    return [item.metadata.name for item in founds]


async def test_all_who_ask_at_once_share_one_list() -> None:
    server = Server("a", "b", "c", "d", "e")
    shared = SharedList(ListedObject, server.page)
    answers = await asyncio.gather(*(shared.read() for _ in range(50)))
    assert {tuple(names(answer)) for answer in answers} == {("a", "b", "c", "d", "e")}
    assert server.lists == 1


async def test_fifty_who_ask_every_two_seconds_cost_one_list_every_two_seconds() -> None:
    server = Server("a")
    shared = SharedList(ListedObject, server.page)

    async def poll() -> None:
        for _ in range(30):
            await shared.read()
            await asyncio.sleep(2)

    await asyncio.gather(*(poll() for _ in range(50)))
    assert server.lists <= asyncio.get_running_loop().time() / PAUSE_SECONDS + 1


async def test_an_answer_is_never_older_than_the_question() -> None:
    server = Server("a")
    shared = SharedList(ListedObject, server.page)
    first = asyncio.create_task(shared.read())
    await asyncio.sleep(0.5)
    server.names.append("b")  # after the list under way was read
    assert names(await shared.read()) == ["a", "b"]
    assert names(await first) == ["a"]


async def test_one_who_is_cancelled_does_not_end_the_list_of_the_others() -> None:
    shared = SharedList(ListedObject, Server("a").page)
    task, other = asyncio.create_task(shared.read()), asyncio.create_task(shared.read())
    await asyncio.sleep(0.5)
    task.cancel()
    assert names(await other) == ["a"]


async def test_an_error_is_that_of_all_who_asked_and_of_no_later_one() -> None:
    server = Server("a")
    shared = SharedList(ListedObject, server.page)
    server.fails = ApiUnreachableError("https://x", "refused")
    for answer in await asyncio.gather(shared.read(), shared.read(), return_exceptions=True):
        assert isinstance(answer, ApiUnreachableError)
    server.fails = None
    assert names(await shared.read()) == ["a"]
