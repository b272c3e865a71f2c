"""Shares one list request among concurrent callers, so that not every step of every node lists all objects.

Only the fields in the caller's shape are kept, because 5,000 complete Nodes are some 300 MB of dictionaries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import msgspec

Shape = TypeVar("Shape")

PAUSE_SECONDS = 2.0
"""The minimum number of seconds between the starts of two lists of the same resource."""


class _Meta(msgspec.Struct):
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct, Generic[Shape]):
    items: list[Shape] | None = None
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def page_decoder(shape: type[Shape]) -> msgspec.json.Decoder[_Page[Shape]]:
    """Return the decoder of a page of a list whose objects are reduced to ``shape``."""
    if shape not in _decoders:
        _decoders[shape] = msgspec.json.Decoder(_Page[shape])  # type: ignore[valid-type]
    return _decoders[shape]


ReadPage = Callable[[str], Awaitable[bytes]]
"""Reads the page of a list that starts at this continue token."""


class SharedList(Generic[Shape]):
    """The objects of one resource, shared by callers.

    An answer is never older than its request. A caller that asks during a list waits for the next one, which starts
    after the current one ends and at least `PAUSE_SECONDS` after the current one started.
    """

    def __init__(self, shape: type[Shape], read_page: ReadPage) -> None:
        self._decoder = page_decoder(shape)
        self._read_page = read_page
        self._began = float("-inf")
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[list[Shape]] | None = None

    async def read(self) -> list[Shape]:
        """All objects. If a caller is cancelled, the list continues for the others."""
        if self._next is None:
            self._next = asyncio.create_task(self._list())
            self._next.add_done_callback(_seen)
        return await asyncio.shield(self._next)

    async def _list(self) -> list[Shape]:
        async with self._turn:
            clock = asyncio.get_running_loop().time
            await asyncio.sleep(max(0.0, self._began + PAUSE_SECONDS - clock()))
            self._began, self._next = clock(), None
            records: list[Shape] = []
            token = ""
            while True:
                page = self._decoder.decode(await self._read_page(token))
                records += page.items or ()
                token = page.metadata.continue_
                if not token:
                    return records


def _seen(task: asyncio.Task[list[Shape]]) -> None:
    """Retrieve the task's error, so that asyncio does not warn if all callers were cancelled before it."""
    if not task.cancelled():
        task.exception()
