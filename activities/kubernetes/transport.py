"""Sends requests to the API server and returns raw bytes.

The official client provides configuration, credentials and TLS. Its typed models cost milliseconds and tens of
kilobytes per object, so this module does not use them.
"""

from __future__ import annotations

import asyncio
import copy
import os
import socket
import time
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Self

import aiohttp

from activities import metrics
from activities.gate import Gate
from activities.kubernetes.access import Access
from activities.kubernetes.errors import (
    ApiUnreachableError,
    StreamSilentError,
    TooManyRequestsError,
    WriteStoppedError,
    from_status,
)
from activities.kubernetes.rate_limit import RateLimit
from activities.tracing.kubernetes_requests import recorded

CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 60.0
MAX_PAUSE = 30.0
"""The longest pause, in seconds, that one answer of a throttling API server causes."""
PATIENCE = 10.0
"""Seconds that a request waits for a throttling API server before its caller gets the error."""
KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
"""Detects within a minute that a peer vanished silently, for example a control plane node that lost power."""


GATHER_SECONDS = 0.05
"""How long a stream lets lines gather before it reads again. On a busy cluster, each line that arrives by itself would
wake the event loop, which costs more than reading the line.
"""
BACKLOG = 32 * 1024
"""A stream that reads this many bytes at once is behind, and reads on immediately."""


class Transport:
    """An authenticated HTTP connection pool to one API server, with a limit on requests per second."""

    def __init__(self, access: Access, *, qps: float, burst: int, gate: Gate | None = None) -> None:
        """``gate``: stops writes while it is closed."""
        self._access = access
        self._limit = RateLimit(qps, burst)
        self._gate = gate

    @classmethod
    async def connect(
        cls,
        kubeconfig: str | None = None,
        context: str | None = None,
        *,
        qps: float = 200.0,
        burst: int = 300,
        gate: Gate | None = None,
    ) -> Self:
        """Configure a client from the given kubeconfig file, else ``KUBECONFIG``, the pod's service account, or
        ``~/.kube/config``. Sends nothing yet.

        Raises:
            ConfigError: none of them can be used.
        """
        return cls(await Access.gain(kubeconfig, context), qps=qps, burst=burst, gate=gate)

    def without_gate(self) -> Self:
        """The same connection and limit for writes that must be sent even while Tenon stands by."""
        other = copy.copy(self)
        other._gate = None
        return other

    @property
    def host(self) -> str:
        """The base address of the API server."""
        return str(self._access.client.configuration.host)

    async def close(self) -> None:
        """Close all connections. Open streams end."""
        await self._access.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        seconds: float = REQUEST_SECONDS,
    ) -> bytes:
        """Send a request and return the body of a successful answer.

        If the API server throttles requests and says for how long, this process sends none for that time, and then
        repeats this one, as Kubernetes' own clients do.

        Raises:
            ApiError: the subclass for the status of any other answer.
            ApiUnreachableError: there was no answer.
        """
        waited = 0.0
        while True:
            try:
                return await self._request(method, path, query, body, content_type, seconds)
            except TooManyRequestsError as error:
                pause = min(error.retry_after, MAX_PAUSE)
                if not pause or error.budgets:
                    raise
                self._limit.pause(pause)
                waited += pause
                if waited > PATIENCE:
                    raise

    async def _request(
        self, method: str, path: str, query: Mapping[str, str] | None, body: Any, content_type: str, seconds: float
    ) -> bytes:
        limits = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        response = await self._send(method, path, limits, query=query, body=body, content_type=content_type)
        try:
            content: bytes = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ApiUnreachableError(self.host, _why(error)) from error
        finally:
            response.release()
        _raise_for_status(response, content)
        return content

    async def server_time(self) -> datetime:
        """Return the time of the API server, in whole seconds. Any answer has it, even a refusal.

        Raises:
            ApiUnreachableError: there was no answer, or it does not say the time.
        """
        limits = aiohttp.ClientTimeout(total=CONNECT_SECONDS)
        response = await self._send("GET", "/version", limits, query=None)
        response.release()
        try:
            return parsedate_to_datetime(response.headers.get("Date", ""))
        except ValueError as error:
            raise ApiUnreachableError(self.host, "it does not say the time") from error

    async def stream(
        self, path: str, query: Mapping[str, str] | None = None, *, idle_seconds: float = 330.0
    ) -> AsyncIterator[bytes]:
        """Yield the lines of an endless answer, of any length, without their line ends.

        Close the iterator when leaving it early. It ends when the server ends the answer.

        Raises:
            ApiError: the server refused the request.
            StreamSilentError: the connection was open, but nothing arrived on it for ``idle_seconds``.
            ApiUnreachableError: there was no answer, or the connection broke.
        """
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=idle_seconds)
        silent = f"nothing came for {idle_seconds:.0f} s on an open watch"
        try:
            response = await self._send("GET", path, limits, query=query)
        except ApiUnreachableError as error:
            if isinstance(error.__cause__, aiohttp.SocketTimeoutError):  # held back before its first byte
                raise StreamSilentError(self.host, silent) from error
            raise
        try:
            if not 200 <= response.status <= 299:
                _raise_for_status(response, await response.read())
            _keep_alive(response)
            parts: list[bytes] = []
            async for chunk in response.content.iter_any():
                *ended, rest = chunk.split(b"\n")
                for end in ended:
                    line = b"".join([*parts, end])
                    parts.clear()
                    if line:
                        yield line
                if rest:
                    parts.append(rest)
                if len(chunk) < BACKLOG:
                    await self._gather(response)
        except TimeoutError as error:
            raise StreamSilentError(self.host, silent) from error
        except aiohttp.ClientError as error:
            raise ApiUnreachableError(self.host, _why(error)) from error
        finally:
            response.close()

    async def _gather(self, response: aiohttp.ClientResponse) -> None:
        """Read nothing for a moment, so that what arrives meanwhile is read at once."""
        transport = response.connection.transport if response.connection is not None else None
        if transport is None:
            return  # the answer has ended
        transport.pause_reading()
        await asyncio.sleep(GATHER_SECONDS)
        transport.resume_reading()

    async def _send(
        self,
        method: str,
        path: str,
        limits: aiohttp.ClientTimeout,
        *,
        query: Mapping[str, str] | None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> aiohttp.ClientResponse:
        from activities.kubernetes.asynchronous import config

        await self._limit.acquire()
        headers = {"Content-Type": content_type, "Accept": "application/json", "User-Agent": "tenon"}
        await self._access.renew()
        client = self._access.client
        try:
            await client.update_params_for_auth(headers, [], ["BearerToken"])
            if method != "GET" and self._gate is not None and self._gate.why:  # asked after all waits
                metrics.STOPPED_CALLS.labels("kubernetes").inc()
                raise WriteStoppedError(self.host, self._gate.why)
            began = time.perf_counter()
            call = client.rest_client.request(
                method,
                self.host + path,
                query_params=dict(query or {}),
                headers=headers,
                body=body,
                _preload_content=False,
                _request_timeout=limits,
            )
            response: aiohttp.ClientResponse = await recorded(call, method, path, query)
        except (aiohttp.ClientError, TimeoutError, OSError, config.ConfigException) as error:
            # A service account's token is read repeatedly, and may be missing for a moment while it is replaced.
            metrics.KUBERNETES_REQUESTS.labels("<error>", method).inc()
            raise ApiUnreachableError(self.host, _why(error)) from error
        metrics.KUBERNETES_REQUESTS.labels(str(response.status), method).inc()
        labels = request_labels(method, path, is_watch="watch" in (query or {}))
        metrics.KUBERNETES_SECONDS.labels(*labels).observe(time.perf_counter() - began)
        return response


def request_labels(method: str, path: str, *, is_watch: bool) -> tuple[str, str, str, str, str]:
    """The verb, group, version, kind (as paths name it) and subresource of a request, as metrics name them."""
    parts = path.strip("/").split("/")
    group, rest = ("", parts[1:]) if parts[0] == "api" else (parts[1] if len(parts) > 1 else "", parts[2:])
    version, rest = (rest[0], rest[1:]) if rest else ("", rest)
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    kind, name, subresource = (*rest, "", "", "")[:3]
    verb = {"POST": "CREATE", "PUT": "UPDATE"}.get(method, method)
    if method == "GET" and not name:
        verb = "WATCH" if is_watch else "LIST"
    return verb, group, version, kind, subresource


def _raise_for_status(response: aiohttp.ClientResponse, content: bytes) -> None:
    if not 200 <= response.status <= 299:
        raise from_status(
            response.status,
            content,
            phrase=response.reason or "",
            retry_after=response.headers.get("Retry-After", ""),
        )


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    transport = response.connection.transport if response.connection is not None else None
    if transport is not None and (connection := transport.get_extra_info("socket")) is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEP_ALIVE:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _why(error: BaseException) -> str:
    if type(error) is aiohttp.ClientConnectorError and error.errno and error.errno > 0:
        return os.strerror(error.errno)  # without the address, which the message already has, and without a class name
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
