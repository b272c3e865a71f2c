"""The connection to Temporal, which is replaced when its certificate files are renewed.

Temporal's client reads its certificates once. An open connection outlives them, but the next one fails. Therefore the
files are read periodically. If their content has changed, a new client is created, which also shows that they work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self

from temporalio.client import Client
from temporalio.envconfig import ClientConnectConfig
from temporalio.worker import Worker

from activities import loggers
from worker.log_rate_limit import LogRateLimiter
from worker.runtime.cancellation import interrupted
from worker.runtime.outage import Outage, ReadinessLike
from worker.runtime.temporal.temporal_client import (
    TemporalError,
    TemporalUnreachableError,
    check_namespace,
    connect_by,
    connection_config,
)

log = loggers.TEMPORAL

PERIOD = 30.0
"""Seconds between two reads of the files. The kubelet updates the files of a Secret about once a minute."""


OPEN_PAUSE_SECONDS = 2.0
"""Seconds between two attempts to open the first connection."""
CONSEQUENCE = "this worker waits for it, and serves what needs no Temporal: interruptions, conversions, health"


class Connection:
    """The current client. Passes each new one on to its users."""

    def __init__(self, client: Client, config: ClientConnectConfig, connect: Connect) -> None:
        self.client = client
        self._config = config
        self._connect = connect
        self._renewed = asyncio.Event()
        self._log_limiter = LogRateLimiter()

    @classmethod
    async def open(cls, *, tracing: bool = False) -> Self:
        """Open a connection with the standard environment.

        Raises:
            TemporalError: Temporal cannot be reached, or refuses the credentials.
        """

        async def connect(config: ClientConnectConfig) -> Client:
            return await connect_by(config, tracing=tracing)

        config = connection_config()
        client = await connect(config)
        await check_namespace(client)
        return cls(client, config, connect)

    @classmethod
    async def open_when_up(
        cls, readiness: ReadinessLike, *, tracing: bool = False, pause: float = OPEN_PAUSE_SECONDS
    ) -> Self:
        """Open a connection, and wait while Temporal does not answer. The process is not ready meanwhile and says why.

        Raises:
            TemporalError: Temporal refuses the credentials, or the configuration cannot be used.
        """
        outage: Outage | None = None
        while True:
            try:
                opened = await cls.open(tracing=tracing)
            except TemporalUnreachableError as error:
                if outage is None:
                    outage = Outage(error.where, CONSEQUENCE, log)
                    readiness.checks.append(outage)
                outage.note(error.why)
                await asyncio.sleep(pause)
            else:
                if outage is not None:
                    outage.note("")
                return opened

    async def run(self, period: float = PERIOD) -> None:
        """Check the files until cancelled."""
        while True:
            await asyncio.sleep(period)
            await self.check()

    async def check(self) -> None:
        """Check the files once. If they cannot be read, or do not work, the client stays as it is until the
        next check.
        """
        try:
            config = await asyncio.to_thread(connection_config)
            if _credentials(config) == _credentials(self._config):
                return
            self.client = await self._connect(config)
        except TemporalError as error:
            if self._log_limiter.count(str(error)) is not None:
                log.warning(
                    "The new certificates for Temporal cannot be used, and the worker keeps the old ones",
                    extra={"error": str(error)},
                )
            return
        log.info("The certificates for Temporal changed, and the worker connected with the new ones")
        self._config = config
        renewed, self._renewed = self._renewed, asyncio.Event()
        renewed.set()

    async def next_client(self, after: Client) -> Client:
        """Wait for a client other than ``after``."""
        while self.client is after:
            await self._renewed.wait()
        return self.client

    async def follow(self, *workers: Worker) -> None:
        """Give each new client to these workers, which share one client, until cancelled. Their running tasks
        continue.
        """
        while True:
            client = await self.next_client(workers[0].client)
            for worker in workers:
                worker.client = client

    async def serve(self, work: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
        """Run ``work`` with the client, and restart it with each new client. Returns when it ends by itself."""
        again = True
        while again:
            client = self.client
            again = await interrupted(work(client), self.next_client(client), name="a new connection to Temporal")


async def connected(connecting: asyncio.Future[Connection], work: Callable[[Connection], Awaitable[None]]) -> None:
    """Do ``work`` once the connection is open. If this is canceled, others still wait for ``connecting``."""
    await work(await asyncio.shield(connecting))


Connect = Callable[[ClientConnectConfig], Awaitable[Client]]


def _credentials(config: ClientConnectConfig) -> tuple[object, ...]:
    """The settings that may change while a worker runs. A new address or namespace needs a restart."""
    return config.get("tls"), config.get("api_key")
