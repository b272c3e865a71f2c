"""A real Temporal server that can be stopped and started again on the same database file and port."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client
from temporalio.service import RPCError

from sandbox.ports import free_ports
from tests.temporal_fixture import temporal_binary
from tests.workflows.waiting import until


@dataclass(frozen=True)
class Connected:
    """A connection that is never made again."""

    client: Client


class DevServer:
    """One server, on one port of the loopback."""

    def __init__(self, folder: Path) -> None:
        self._database = folder / "temporal.db"
        (self._port,) = free_ports(1)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Starts the server; it may take a moment to serve."""
        self._process = await asyncio.create_subprocess_exec(
            temporal_binary(),
            *("server", "start-dev", "--headless", "--log-level", "error"),
            *("--ip", "127.0.0.1", "--port", str(self._port), "--db-filename", str(self._database)),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )

    async def stop(self) -> None:
        """Ends the server; what it knew is in the file."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()

    async def connect(self) -> Client:
        """A client, once the server serves."""
        clients: list[Client] = []

        async def connected() -> bool:
            try:
                clients.append(await Client.connect(self.address))
            except (RuntimeError, RPCError):
                return False
            return True

        await until(connected)
        return clients[0]
