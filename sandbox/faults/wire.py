"""A wire between one worker and Temporal that can be cut: what is sent is not delivered, and no connection ends.

That is how a machine looks from outside that lost its power: a process that is only killed has its connections closed
by its kernel, and whoever waits for it hears of it at once. With ``tls`` the wire is also a TLS front of a server that
has none.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

LOOPBACK = "127.0.0.1"
CHUNK = 65536


class Wire:
    """Passes the bytes of each connection on to a server. ``async with Wire.to(sandbox.temporal_address) as wire``."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._whole = asyncio.Event()
        self._whole.set()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.address = ""
        """Where to connect instead of to the server."""

    @classmethod
    @asynccontextmanager
    async def to(cls, address: str, *, tls: ssl.SSLContext | None = None, port: int = 0) -> AsyncIterator[Self]:
        """A wire to the server at ``host:port``, on this port of loopback or a free one; it takes TLS with ``tls``."""
        host, _, its_port = address.rpartition(":")
        wire = cls(host, int(its_port))
        server = await asyncio.start_server(wire._serve, LOOPBACK, port, ssl=tls)
        wire.address = f"{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
        try:
            yield wire
        finally:
            server.close()
            wire.drop()

    def cut(self) -> None:
        """Deliver nothing more; new connections are accepted and nothing of them is delivered either."""
        self._whole.clear()

    def mend(self) -> None:
        """Deliver what was sent meanwhile, for a sender's kernel sends it again and again, and all that follows."""
        self._whole.set()

    def drop(self) -> None:
        """Close all connections, as a server does that restarts."""
        for connection in self._connections:
            connection.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._connect(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # one of the two sides went away, or the wire is dropped
        finally:
            self._connections.discard(task)
            writer.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._whole.wait()
        from_server, to_server = await asyncio.open_connection(*self._target)
        ways = [
            asyncio.create_task(self._pass_on(reader, to_server)),
            asyncio.create_task(self._pass_on(from_server, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            to_server.close()

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK):
                await self._whole.wait()
                target.write(data)
                await target.drain()
            await self._whole.wait()
