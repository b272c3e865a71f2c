"""Plans in a process of its own, because only a process can be given limits: ``python -m cli.playing.plan_process``.

The process reads requests from stdin and writes pages to stdout, each after its length. It lives as long as it answers,
so that a page does not wait for Python to start.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import struct
import sys
from asyncio.subprocess import PIPE, Process
from typing import BinaryIO

import msgspec

from cli.playing.setup import PageRequest
from tenon.errors import TenonError

MEMORY_MIB = 4096
"""Of addresses. The libraries of the solver reserve many that they never use."""
MAX_WAITING = 8
"""How many requests may wait for the process."""
_LENGTH = struct.Struct(">I")


class BusyError(TenonError):
    """Too many requests wait. The message is one sentence."""


class PlanProcess:
    """The process that plans, one page at a time. It ends a plan that takes too long, and is started again."""

    def __init__(self, seconds: int) -> None:
        """``seconds``: how long a page may take."""
        self._seconds = seconds
        self._process: Process | None = None
        self._lock = asyncio.Lock()
        self._waiting = 0

    async def start(self) -> Process:
        """Start the process, if it does not run."""
        if self._process is None or self._process.returncode is not None:
            arguments = ("-P", "-m", "cli.playing.plan_process", str(self._seconds))
            self._process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdin=PIPE, stdout=PIPE)
        return self._process

    async def page(self, request: PageRequest) -> str:
        """Return the page of a request. If no plan is possible within the limits, the page says so.

        Raises:
            BusyError: too many requests wait.
        """
        if self._waiting > MAX_WAITING:
            raise BusyError("The playground plans for other pages: try again in a moment.")
        self._waiting += 1
        try:
            async with self._lock:
                text = await self._answer(request)
                if text is None:
                    refused = msgspec.structs.replace(request, refusal=await self._why_ended())
                    text = await self._answer(refused)
        finally:
            self._waiting -= 1
        if text is None:
            raise BusyError(f"No page can be drawn: {await self._why_ended()}")
        return text

    async def stop(self) -> None:
        """End the process."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _answer(self, request: PageRequest) -> str | None:
        """Return the answer of the process; None if it ended without one."""
        process = await self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        body = msgspec.json.encode(request)
        try:
            process.stdin.write(_LENGTH.pack(len(body)) + body)
            await process.stdin.drain()
            (length,) = _LENGTH.unpack(await process.stdout.readexactly(_LENGTH.size))
            return (await process.stdout.readexactly(length)).decode()
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        except asyncio.CancelledError:  # the answer would be taken for that of the next request
            process.kill()
            raise

    async def _why_ended(self) -> str:
        assert self._process is not None
        if await self._process.wait() == -signal.SIGALRM:
            return f"The plan takes more than {self._seconds} s: leave out pods, or start with a larger --timeout."
        return (
            f"The process that plans has ended, at {MEMORY_MIB // 1024} GiB of memory at the latest: the terminal of "
            "tenon playground says why."
        )


def main() -> None:
    """Answer requests until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends Ctrl-C to this process, too
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MIB * 2**20,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests, pages = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no page
    from cli.playing.drawing import drawn_page
    from cli.simulating.files import read_catalogue_file

    read_catalogue_file(None)
    seconds = int(sys.argv[1])
    while (body := _read(requests)) is not None:
        request = msgspec.json.decode(body, type=PageRequest)
        signal.alarm(0 if request.refusal else seconds)  # without a plan, the page takes no time
        page = drawn_page(request).encode()
        signal.alarm(0)
        pages.write(_LENGTH.pack(len(page)) + page)
        pages.flush()


def _read(requests: BinaryIO) -> bytes | None:
    header = requests.read(_LENGTH.size)
    return requests.read(_LENGTH.unpack(header)[0]) if len(header) == _LENGTH.size else None


if __name__ == "__main__":
    main()
