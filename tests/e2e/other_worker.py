"""Other workers in place of the one that the tests share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager

from tests.e2e.worker import Worker


@contextmanager
def without(worker: Worker) -> Iterator[None]:
    """Stop the usual worker, and start it again afterwards: later tests need it, whatever failed here."""
    stopped = worker.stop()
    try:
        assert stopped == 0, f"see {worker.log}"
        yield
    finally:
        worker.start()


@contextmanager
def in_place_of(worker: Worker, other: Worker) -> Iterator[None]:
    """Run another worker, and the usual one again afterwards."""
    with without(worker):
        try:
            other.start()
            yield
            stopped = other.stop()
        finally:
            if other.running:
                other.stop()
    assert stopped == 0, f"see {other.log}"


@asynccontextmanager
async def in_thread(manager: AbstractContextManager[None]) -> AsyncIterator[None]:
    """Enter and leave one of the above without holding up the event loop, whose watches go on."""
    stack = ExitStack()
    await asyncio.to_thread(stack.enter_context, manager)
    try:
        yield
    finally:
        await asyncio.to_thread(stack.close)
