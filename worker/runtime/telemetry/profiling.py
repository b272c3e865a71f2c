"""ENABLE_PROFILING: profiles of the worker's processes, on the metrics port under /debug/pprof/.

A profile counts stacks, one per line as ``frame;frame;frame count``, the format of speedscope and flamegraph.pl. Each
process samples itself, so that nothing needs to be installed and no other process needs permissions for it. Each
process answers on a socket in the worker's private folder. The parent, which serves the port, queries all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from urllib.parse import parse_qs, urlsplit

SOCKETS = "profile-*.sock"
HERTZ = 100
MAX_SECONDS = 120.0
DEFAULT_SECONDS = 30.0
REQUEST_TIMEOUT = 15.0
"""Seconds in addition to the profile's own that a process has to answer."""

_gathering = threading.Lock()
Frames = Callable[[], dict[int, FrameType]]


async def serve_profiles(folder: str, process: str) -> None:
    """Serve profiles of this process until cancelled."""
    path = Path(folder) / SOCKETS.replace("*", process)
    loop = asyncio.get_running_loop()
    own_thread = ThreadPoolExecutor(1, thread_name_prefix="profile")  # the default executor is for AWS

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            query = json.loads(await reader.readline())
            work = stacks if query["what"] == "goroutine" else sample
            text = await loop.run_in_executor(own_thread, work, process, query["seconds"])
            writer.write(text.encode())
            await writer.drain()
        writer.close()

    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    async with await asyncio.start_unix_server(answer, path) as server:
        await server.serve_forever()


def sample(process: str, seconds: float, frames: Frames = sys._current_frames) -> str:
    """Sample the stacks of this process's threads for ``seconds``."""
    counts: Counter[str] = Counter()
    own = threading.get_ident()
    end = time.monotonic() + seconds
    while True:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, frame in frames().items():
            if ident != own:
                counts[";".join((process, names.get(ident, "thread"), *_stack(frame)))] += 1
        if time.monotonic() >= end:
            return "".join(f"{stack} {count}\n" for stack, count in sorted(counts.items()))
        time.sleep(1 / HERTZ)


def stacks(process: str, _seconds: float) -> str:
    """The current stacks of this process's threads, as tracebacks."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "".join(
        f"{process}: {names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}\n"
        for ident, frame in sys._current_frames().items()
    )


def asked(path: str) -> tuple[str, float] | None:
    """The profile that a path under /debug/pprof/ requests, and its seconds. None if there is no such profile."""
    parts = urlsplit(path)
    profile = parts.path.removeprefix("/debug/pprof/")
    if not parts.path.startswith("/debug/pprof/") or profile not in ("profile", "goroutine"):
        return None
    try:
        seconds = float(parse_qs(parts.query).get("seconds", [str(DEFAULT_SECONDS)])[0])
    except ValueError:
        return None
    if not math.isfinite(seconds):
        return None
    return profile, min(max(seconds, 0.0), MAX_SECONDS)


def gather(folder: str, profile: str, seconds: float) -> str | None:
    """The answers of all processes, sorted by process name. Blocks for the length of the profile.

    Returns None immediately if another profile is being taken, because the two would show each other.
    """
    if not _gathering.acquire(blocking=False):
        return None
    try:
        return asyncio.run(_gather(sorted(Path(folder).glob(SOCKETS)), profile, seconds))
    finally:
        _gathering.release()


async def _gather(sockets: list[Path], profile: str, seconds: float) -> str:
    return "".join(await asyncio.gather(*(_ask(path, profile, seconds) for path in sockets)))


async def _ask(path: Path, profile: str, seconds: float) -> str:
    try:
        async with asyncio.timeout(seconds + REQUEST_TIMEOUT):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(json.dumps({"what": profile, "seconds": seconds}).encode() + b"\n")
            await writer.drain()
            text = (await reader.read()).decode()
            writer.close()
            return text
    except (OSError, TimeoutError):
        return f"{path.stem.removeprefix('profile-')};(no answer) 1\n"


def _stack(frame: FrameType | None) -> list[str]:
    return list(reversed([*_names(frame)]))


def _names(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        yield f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}"
        frame = frame.f_back
