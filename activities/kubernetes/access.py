"""The credentials and CA certificates of the Kubernetes client, from a kubeconfig or from the pod's service account.

The official client reads certificates only once, but they are renewed while a worker runs. Therefore this module checks
the files periodically, and reads all of them again if one has changed. The official client itself reads a service
account's token again.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import ssl
import threading
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import yaml

from activities import loggers
from activities.kubernetes import credential_files
from activities.kubernetes.errors import ConfigError

log = loggers.KUBERNETES

READ_BUFFER_BYTES = 2**21
"""The same size as in the official client, because an object may be larger than aiohttp's default buffer."""
LOAD_SECONDS = 60.0
"""The timeout for loading a kubeconfig, which may run a command to get credentials."""
CHECK_SECONDS = 30.0
"""Seconds between two checks of the files."""
_LOADING = threading.Lock()
_NO_KUBECONFIG = (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError)
"""The errors of the client's loader on a file that is not a kubeconfig."""


class Access:
    """Holds the current official client, and replaces it when the credentials change."""

    def __init__(self, kubeconfig: str | None, context: str | None) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self.client: Any = None
        self._earlier: Any = None
        """The previous client, whose connections may still have requests in flight."""
        self._refresh: asyncio.Task[None] | None = None
        self._files: dict[str, bytes] = {}
        self._next_look = 0.0

    @classmethod
    async def gain(cls, kubeconfig: str | None, context: str | None) -> Self:
        """Configure access from the given kubeconfig file, else ``KUBECONFIG``, the pod's service account, or
        ``~/.kube/config``.

        Raises:
            ConfigError: none of them can be used.
        """
        access = cls(kubeconfig, context)
        await access._gain()
        return access

    async def renew(self) -> None:
        """Read all files again if one has changed. If they cannot be used, keep the client until the next check."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + CHECK_SECONDS
        if _contents(self._files) == self._files:
            return
        try:
            await self._gain()
        except ConfigError as error:
            log.warning(
                "The new credentials for Kubernetes cannot be used, and the worker keeps the old ones",
                extra={"error": str(error)},
            )
        else:
            log.info("The credentials for Kubernetes changed, and the worker uses the new ones")

    async def close(self) -> None:
        """Close all connections. Open streams end."""
        await self._end_refresh()
        for client in (self._earlier, self.client):
            if client is not None:
                await client.close()

    async def _gain(self) -> None:
        from activities.kubernetes.asynchronous import client, config

        self._next_look = time.monotonic() + CHECK_SECONDS
        settings = client.Configuration()
        # No limit of its own: each node that starts holds a watch while it sends requests, and if watches had all
        # places, no request would be sent until they end. The rate limiter bounds requests.
        settings.connection_pool_maxsize = 0
        loader, path = None, None
        try:
            path = _kubeconfig(self._kubeconfig or os.environ.get("KUBECONFIG"))
            files = _contents(path.split(os.pathsep))  # before they are used, so that the next check sees later changes
            if path:
                loader = await asyncio.to_thread(_loaded, path, self._context, settings)
            else:
                config.load_incluster_config(client_configuration=settings)
            settings.proxy = settings.proxy or _proxy_of_environment(settings.host)
            files |= _contents((settings.ssl_ca_cert, settings.cert_file, settings.key_file))
            api = client.ApiClient(settings)  # reads the certificates
        except (config.ConfigException, OSError, *_NO_KUBECONFIG) as error:
            error_text = _error_text(error, path or "the service account")
            raise ConfigError(
                f"The Kubernetes client cannot be configured: {error_text}. "
                "Set KUBECONFIG to a readable kubeconfig file, or run in a pod with a service account."
            ) from error
        _ignore_environment(api)
        await self._end_refresh()
        if loader is not None:
            self._refresh = asyncio.create_task(_keep_refreshed(loader, settings), name="kubernetes token refresh")
        if self._earlier is not None:
            await self._earlier.close()
        self._earlier, self.client, self._files = self.client, api, files

    async def _end_refresh(self) -> None:
        if self._refresh is not None:
            self._refresh.cancel()
            await asyncio.gather(self._refresh, return_exceptions=True)


def _contents(files: Iterable[str | None]) -> dict[str, bytes]:
    """The contents of each file that is named. A file that cannot be read counts as empty."""
    contents = {}
    for file in filter(None, files):
        try:
            contents[file] = Path(file).read_bytes()
        except OSError:
            contents[file] = b""
    return contents


def _error_text(error: Exception, source: str) -> str:
    """What is wrong with a configuration, as a clause for an error message."""
    if isinstance(error, ssl.SSLError):
        return f"the certificates of {source} cannot be read ({error.reason or error})"
    return f"{source} is not a kubeconfig" if isinstance(error, _NO_KUBECONFIG) else str(error).rstrip(".")


class _Loop(asyncio.SelectorEventLoop):
    """Knows the commands that it started. The client does not end a command that it no longer waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.commands: list[asyncio.SubprocessTransport] = []

    async def subprocess_exec(self, *arguments: Any, **options: Any) -> Any:
        started = await super().subprocess_exec(*arguments, **options)
        self.commands.append(started[0])
        return started


def _loaded(path: str, context: str | None, settings: Any) -> Any:
    """Load a kubeconfig into ``settings``, and return its loader.

    Calls hold a lock, because the client writes inline certificates to files that all threads of a process share. It
    returns their names before it has written them, so another thread could read an empty file.
    """
    from activities.kubernetes.asynchronous import config

    async def load() -> Any:
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                return await config.load_kube_config(
                    path,
                    context,
                    client_configuration=settings,
                    persist_config=False,
                    temp_file_path=credential_files.path(),
                )
        finally:
            for command in loop.commands:
                command.close()

    loop = _Loop()
    with _LOADING, asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            return runner.run(load())
        except TimeoutError:
            sentence = f"the command that {path} names gave no credentials within {LOAD_SECONDS:.0f} s"
            raise config.ConfigException(sentence) from None


async def _keep_refreshed(loader: Any, settings: Any) -> None:
    """Renew the token of a kubeconfig whose command returns tokens. If the command fails, try again in a minute."""
    from activities.kubernetes.asynchronous import config

    while True:
        try:
            await config.refresh_token(loader, settings)
            return  # the kubeconfig has credentials that do not expire
        except (config.ConfigException, OSError, ValueError) as error:
            log.warning(
                "The worker failed to renew its Kubernetes token and retries in a minute", extra={"error": str(error)}
            )


def _proxy_of_environment(url: str) -> str | None:
    """The proxy for this address from HTTPS_PROXY, NO_PROXY and similar variables, or None."""
    address = urlsplit(url)
    host, proxies = address.hostname or "", urllib.request.getproxies()
    if urllib.request.proxy_bypass(host) or _is_in_a_network(host, proxies.get("no", "").split(",")):
        return None
    return proxies.get(address.scheme)


def _is_in_a_network(host: str, entries: Iterable[str]) -> bool:
    """Whether the host is an address in one of these networks.

    Python's own rules for NO_PROXY know names and single addresses only. Other entries are left to them.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    for entry in entries:
        with contextlib.suppress(ValueError):
            if address in ipaddress.ip_network(entry.strip(), strict=False):
                return True
    return False


def _ignore_environment(api: Any) -> None:
    """Replace the client's session with one that does not read the environment.

    The client's own session reads the proxy variables and the netrc file again for each request, which costs more than
    the rest of the request. The new session uses the proxy that was determined once.
    """
    first = api.rest_client.pool_manager
    api.rest_client.pool_manager = aiohttp.ClientSession(connector=first.connector, read_bufsize=READ_BUFFER_BYTES)
    first.detach()


def _kubeconfig(stated_path: str | None) -> str:
    """The kubeconfig path or paths to use; empty in a pod without a stated path, where the service account is used."""
    if stated_path:
        if not any(Path(part).exists() for part in stated_path.split(os.pathsep)):
            raise FileNotFoundError(f"the file {stated_path} does not exist")
        return stated_path
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return ""
    default = Path.home() / ".kube" / "config"
    if not default.exists():
        raise FileNotFoundError(f"KUBECONFIG is not set, there is no {default}, and this is not a pod")
    return str(default)
