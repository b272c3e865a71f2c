"""One list for all who ask at once: what every step of every node would otherwise ask of the API server by itself.

Of each object only what the caller's shape names is kept: five thousand whole Nodes are some 300 MB of dictionaries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec

Shape = TypeVar("Shape")

PAUSE_SECONDS = 2.0
"""From the begin of one list to the begin of the next of the same resource."""


class _Meta(msgspec.Struct):
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct, Generic[Shape]):
    items: list[Shape] | None = None
    metadata: _Meta = msgspec.field(default_factory=_Meta)


ReadPage = Callable[[str], Awaitable[bytes]]
"""The answer of the API server to a list that goes on at this token."""


class SharedList(Generic[Shape]):
    """The objects of one resource, listed again for those who asked since the list before began.

    An answer is never older than the question. Whoever asks while a list is under way waits for the next one, which
    begins after it and at least `PAUSE_SECONDS` after its begin.
    """

    def __init__(self, shape: type[Shape], read_page: ReadPage) -> None:
        self._decoder = msgspec.json.Decoder(_Page[shape])  # type: ignore[valid-type]
        self._read_page = read_page
        self._began = float("-inf")
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[list[Shape]] | None = None

    async def read(self) -> list[Shape]:
        """All objects; the list goes on for the others when one who waits for it is cancelled."""
        if self._next is None:
            self._next = asyncio.create_task(self._list())
            self._next.add_done_callback(_seen)
        return await asyncio.shield(self._next)

    async def _list(self) -> list[Shape]:
        async with self._turn:
            clock = asyncio.get_running_loop().time
            await asyncio.sleep(max(0.0, self._began + PAUSE_SECONDS - clock()))
            self._began, self._next = clock(), None
            found: list[Shape] = []
            token = ""
            while True:
                page = self._decoder.decode(await self._read_page(token))
                found += page.items or ()
                token = page.metadata.continue_
                if not token:
                    return found


def _seen(task: asyncio.Task[list[Shape]]) -> None:
    """Take note of an error that all who waited were cancelled before."""
    if not task.cancelled():
        task.exception()
