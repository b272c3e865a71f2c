"""A TCP proxy between one worker and Temporal that can stop delivering data without closing connections.

This is how a machine that lost power looks from outside. If a process is only killed, its kernel closes its
connections, and its peers notice immediately. With ``tls`` the proxy also terminates TLS for a server that has none.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from sandbox.ports import LOOPBACK

CHUNK = 65536


class Wire:
    """Forwards the data of each connection to a server. ``async with Wire.to(sandbox.temporal_address) as wire``."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._whole = asyncio.Event()
        self._whole.set()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.address = ""
        """The address to use instead of the server's."""

    @classmethod
    @asynccontextmanager
    async def to(cls, address: str, *, tls: ssl.SSLContext | None = None, port: int = 0) -> AsyncIterator[Self]:
        """Open a wire to the server at ``host:port``, on this loopback port or a free one. With ``tls`` it
        accepts TLS.
        """
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
        """Stop delivering data. New connections are accepted, but nothing of them is delivered either."""
        self._whole.clear()

    def restore(self) -> None:
        """Deliver data again, including what was sent while the wire was cut, because the sender's kernel retransmits
        it.
        """
        self._whole.set()

    def drop(self) -> None:
        """Close all connections, as a server does when it restarts."""
        for connection in self._connections:
            connection.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._connect(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # one of the two sides closed the connection, or the wire was dropped
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
