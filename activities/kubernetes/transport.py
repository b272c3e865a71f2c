"""Bytes to and from the API server.

The official client gives us configuration, credentials and TLS. Its typed models cost milliseconds and tens of
kilobytes an object, so requests and answers stay raw here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import threading
import urllib.request
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import yaml

from activities.kubernetes.errors import ApiUnreachable, ConfigError, from_status

log = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 60.0
READ_BUFFER_BYTES = 2**21
"""As the official client has it: an object may be larger than aiohttp's own buffer."""
KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
"""A peer that vanished without a word (a node of the control plane that lost power) is noticed within a minute."""
LOAD_SECONDS = 60.0
"""For a kubeconfig whose credentials a command hands out."""
_LOADING = threading.Lock()
_NO_KUBECONFIG = (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError)
"""What the client's loader fails with on a file that is something else."""


class StreamSilent(ApiUnreachable):
    """A stream was open, and nothing came on it for as long as its reader would wait."""


class Transport:
    """An authenticated HTTP connection pool to one API server, with a limit on requests per second."""

    def __init__(self, client: Any, *, qps: float, burst: int) -> None:
        self._client = client
        self._limit = RateLimit(qps, burst)
        self._refresh: asyncio.Task[None] | None = None

    @classmethod
    async def connect(cls, kubeconfig: str | None, context: str | None, *, qps: float, burst: int) -> Self:
        """A transport by the kubeconfig file given, else ``KUBECONFIG``, the pod's service account, ``~/.kube/config``.

        Raises:
            ConfigError: none of them can be used.
        """
        from activities.kubernetes.asynchronous import client, config

        settings = client.Configuration()
        loader, path = None, None
        try:
            path = _kubeconfig(kubeconfig or os.environ.get("KUBECONFIG"))
            if path:
                loader = await asyncio.to_thread(_loaded, path, context, settings)
            else:
                config.load_incluster_config(client_configuration=settings)
            settings.proxy = settings.proxy or _proxy_of_environment(settings.host)
            api = client.ApiClient(settings)  # reads the certificates
        except (config.ConfigException, OSError, *_NO_KUBECONFIG) as error:
            said = _said(error, path or "the service account")
            raise ConfigError(
                f"The Kubernetes client cannot be configured: {said}. "
                "Set KUBECONFIG to a readable kubeconfig file, or run in a pod with a service account."
            ) from error
        _settle_environment(api)
        transport = cls(api, qps=qps, burst=burst)
        if loader is not None:
            transport._refresh = asyncio.create_task(_keep_refreshed(loader, settings), name="kubernetes token refresh")
        return transport

    @property
    def host(self) -> str:
        """The base address of the API server."""
        return str(self._client.configuration.host)

    async def close(self) -> None:
        """Closes all connections; streams that are open end."""
        if self._refresh is not None:
            self._refresh.cancel()
            await asyncio.gather(self._refresh, return_exceptions=True)
        await self._client.close()

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
        """The body of a successful answer.

        Raises:
            ApiError: any other answer, by status.
            ApiUnreachable: no answer.
        """
        limits = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        response = await self._send(method, path, limits, query=query, body=body, content_type=content_type)
        try:
            content: bytes = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ApiUnreachable(self.host, _why(error)) from error
        finally:
            response.release()
        _raise_for_status(response, content)
        return content

    async def stream(
        self, path: str, query: Mapping[str, str] | None = None, *, idle_seconds: float = 330.0
    ) -> AsyncIterator[bytes]:
        """The lines of an endless answer, of any length each, without their line ends.

        Close the iterator when leaving it early. It ends when the server ends the answer.

        Raises:
            ApiError: the server refused.
            StreamSilent: the connection stood, and nothing came on it for ``idle_seconds``.
            ApiUnreachable: there was no answer, or the connection broke.
        """
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=idle_seconds)
        silent = f"nothing came for {idle_seconds:.0f} s on an open watch"
        try:
            response = await self._send("GET", path, limits, query=query)
        except ApiUnreachable as error:
            if isinstance(error.__cause__, aiohttp.SocketTimeoutError):  # held back before its first byte
                raise StreamSilent(self.host, silent) from error
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
        except TimeoutError as error:
            raise StreamSilent(self.host, silent) from error
        except aiohttp.ClientError as error:
            raise ApiUnreachable(self.host, _why(error)) from error
        finally:
            response.close()

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
        try:
            await self._client.update_params_for_auth(headers, [], ["BearerToken"])
            response: aiohttp.ClientResponse = await self._client.rest_client.request(
                method,
                self.host + path,
                query_params=dict(query or {}),
                headers=headers,
                body=body,
                _preload_content=False,
                _request_timeout=limits,
            )
        except (aiohttp.ClientError, TimeoutError, OSError, config.ConfigException) as error:
            # A service account's token is read again and again, and may be away for a moment while it is replaced.
            raise ApiUnreachable(self.host, _why(error)) from error
        return response


class RateLimit:
    """At most ``qps`` requests a second after a first ``burst``; waiters go in order of arrival.

    A request takes its place in time only when it may go, so one that is cancelled while it waits costs the others
    nothing.
    """

    def __init__(self, qps: float, burst: int) -> None:
        self._interval = 1.0 / qps
        self._allowance = burst * self._interval
        self._next = float("-inf")
        self._turn = asyncio.Lock()

    async def acquire(self) -> None:
        """Waits until one more request may be sent."""
        async with self._turn:
            now = asyncio.get_running_loop().time()
            due = max(self._next, now - self._allowance) + self._interval
            if due > now:
                await asyncio.sleep(due - now)
            self._next = due


def _said(error: Exception, source: str) -> str:
    """What is wrong with a configuration, as a sentence's middle."""
    if isinstance(error, ssl.SSLError):
        return f"the certificates of {source} cannot be read ({error.reason or error})"
    return f"{source} is not a kubeconfig" if isinstance(error, _NO_KUBECONFIG) else str(error).rstrip(".")


def _loaded(path: str, context: str | None, settings: Any) -> Any:
    """The loader of a kubeconfig, which has set up ``settings``.

    The client keeps certificates that stand in a kubeconfig in files which all threads of a process share, and hands
    their names out before it has written them: another thread would read an empty one.
    """
    from activities.kubernetes.asynchronous import config

    async def load() -> Any:
        async with asyncio.timeout(LOAD_SECONDS):
            return await config.load_kube_config(path, context, client_configuration=settings, persist_config=False)

    with _LOADING:
        try:
            return asyncio.run(load())
        except TimeoutError:
            sentence = f"the command that {path} names gave no credentials within {LOAD_SECONDS:.0f} s"
            raise config.ConfigException(sentence) from None


async def _keep_refreshed(loader: Any, settings: Any) -> None:
    """Renew the token of a kubeconfig that a command hands out; a command that fails now may succeed in a minute."""
    from activities.kubernetes.asynchronous import config

    while True:
        try:
            await config.refresh_token(loader, settings)
            return  # nothing to renew: the kubeconfig holds lasting credentials
        except (config.ConfigException, OSError, ValueError) as error:
            log.warning("The Kubernetes token could not be renewed; trying again in a minute: %s", error)


def _proxy_of_environment(url: str) -> str | None:
    """The proxy that HTTPS_PROXY, NO_PROXY and the like name for this address."""
    address = urlsplit(url)
    if urllib.request.proxy_bypass(address.hostname or ""):
        return None
    return urllib.request.getproxies().get(address.scheme)


def _settle_environment(api: Any) -> None:
    """The client's session would read the environment's proxies and the netrc file anew for each request, which costs
    more than the rest of it; this one uses the proxy that was found once."""
    first = api.rest_client.pool_manager
    api.rest_client.pool_manager = aiohttp.ClientSession(connector=first.connector, read_bufsize=READ_BUFFER_BYTES)
    first.detach()


def _kubeconfig(stated: str | None) -> str:
    """The kubeconfig path(s) to use; empty inside a pod, whose service account serves when nothing is stated."""
    if stated:
        if not any(Path(part).exists() for part in stated.split(os.pathsep)):
            raise FileNotFoundError(f"there is no file {stated}")
        return stated
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return ""
    default = Path.home() / ".kube" / "config"
    return str(default) if default.exists() else ""


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
        return os.strerror(error.errno)  # without the address, which is told already, and the name of a class
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
