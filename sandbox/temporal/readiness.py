"""Runs a program as a component: answers on ``/readyz`` when it serves, and ends with it.

The supervisor asks each component by HTTP whether it is ready. PostgreSQL does not speak HTTP, and temporal-server
serves before its namespace exists. So a small process starts each and answers for it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable

from aiohttp import web

from sandbox.ports import LOOPBACK


async def run(
    process: asyncio.subprocess.Process, prepare: Callable[[], Awaitable[None]], port: int, stop_by: signal.Signals
) -> int:
    """Await ``prepare``, serve ``/readyz`` from then on, and return when the program has ended.

    Args:
        process: the program.
        prepare: returns when the program serves.
        port: where to answer.
        stop_by: the signal that stops the program.

    Returns:
        The exit status: 0 after a request to stop, else 1.
    """
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    ended = asyncio.create_task(process.wait())
    stopped = asyncio.create_task(stopping.wait())
    serving = asyncio.create_task(_serve_when(prepare, port))
    try:
        await asyncio.wait({ended, stopped, serving}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            runner = await serving
            await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
            await runner.cleanup()
    finally:
        serving.cancel()
        stopped.cancel()
        if process.returncode is None:
            process.send_signal(stop_by)
        await ended
    return 0 if stopping.is_set() else 1


async def _serve_when(prepare: Callable[[], Awaitable[None]], port: int) -> web.AppRunner:
    await prepare()
    app = web.Application()
    app.router.add_get("/readyz", _answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, port).start()
    return runner


async def _answer(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")
