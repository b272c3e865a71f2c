"""Waiting for a condition, never for a time.

A condition is evaluated again when something that it read has changed: a reader that hears of changes, such as
`tests.watching_kube`, says so with `reads`. Other conditions are evaluated again after a short pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta

from tests.machine_speed import slowness

FIRST_PAUSE, MAX_PAUSE = 0.02, 0.1
"""Seconds between two evaluations: each costs processor time that is then missing where the answer is made."""
DEAR_PAUSE, MAX_DEAR_PAUSE = 2.0, 0.5
"""Seconds of pause for each second that an evaluation took, and at most: some list 400 pods or run a command."""
LONG_PAUSE, MAX_LONG_PAUSE = 0.02, 1.0
"""Seconds of pause for each second that a condition without changes to hear of was waited for, and at most."""
UNCHANGED_PAUSE = 0.5
"""Seconds until the next evaluation if no change was heard of, because the condition may depend on other things too."""


PATIENCE = timedelta(seconds=60)
"""What a command in a test may take for an answer of the test's own server. People would not wait so long."""
MOST = 0.8
"""The part of a wait after which the speed of the machine is looked at."""


@dataclass(eq=False)
class Changing:
    """Something that conditions read, and that says when it changes."""

    changes: int = 0
    _waiting: set[asyncio.Event] = field(default_factory=set)

    def changed(self) -> None:
        """Wake every condition that read this."""
        self.changes += 1
        for event in self._waiting:
            event.set()


_READ: ContextVar[dict[Changing, int] | None] = ContextVar("read", default=None)
"""What the condition has read that is evaluated now, and how often that had changed before."""


def reads(changing: Changing) -> None:
    """Call this before a read, so that a condition is evaluated again once what it reads has changed."""
    read = _READ.get()
    if read is not None:
        read.setdefault(changing, changing.changes)


async def until(condition: Callable[[], Awaitable[bool]], *, within: float = 180.0) -> None:
    """Return once the condition holds; ``within`` seconds only bound a test that would otherwise hang.

    When most of them are over, a machine that is slow at that moment gets more.

    Raises:
        TimeoutError: it never held.
    """
    pause = FIRST_PAUSE
    time = asyncio.get_running_loop().time
    began = time()
    is_extended = False
    async with asyncio.timeout(within) as limit:
        while True:
            if not is_extended and time() > began + MOST * within:
                is_extended = True
                limit.reschedule(began + within * slowness())
            read: dict[Changing, int] = {}
            token = _READ.set(read)
            evaluated = time()
            try:
                if await condition():
                    return
            finally:
                _READ.reset(token)
            now = time()
            dear_pause = min(DEAR_PAUSE * (now - evaluated), MAX_DEAR_PAUSE)
            long_pause = 0.0 if read else min(LONG_PAUSE * (now - began), MAX_LONG_PAUSE)
            await asyncio.sleep(max(pause, dear_pause, long_pause))  # several changes at once need one evaluation
            pause = min(1.5 * pause, MAX_PAUSE)
            if read:
                await _change_of(read)


async def _change_of(read: dict[Changing, int]) -> None:
    """Return once one of these has changed since it was read, or after a pause."""
    event = asyncio.Event()
    for changing, changes in read.items():
        changing._waiting.add(event)
        if changing.changes != changes:
            event.set()
    try:
        async with asyncio.timeout(UNCHANGED_PAUSE):
            await event.wait()
    except TimeoutError:
        pass
    finally:
        for changing in read:
            changing._waiting.discard(event)
