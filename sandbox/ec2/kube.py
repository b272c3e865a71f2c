"""A small Kubernetes client for the joiner, with plain dicts, on the official client's connection pool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
from kubernetes import config

from tenon.errors import TenonError

PATCHES = {"merge": "application/merge-patch+json", "strategic": "application/strategic-merge-patch+json"}
TIMEOUT = 15.0
CONNECTIONS = 32


class KubeError(TenonError):
    """The API server answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class KubeClient:
    """Blocking calls to one API server. Safe for concurrent use by many threads."""

    def __init__(self, host: str, pool: Any, headers: dict[str, str]) -> None:
        self._host = host.rstrip("/")
        self._pool = pool
        self._headers = headers

    @classmethod
    def from_kubeconfig(cls, path: Path) -> KubeClient:
        """A client with the credentials of the kubeconfig's current user."""
        client = config.new_client_from_config(config_file=str(path))
        settings = client.configuration
        client.rest_client.pool_manager.connection_pool_kw["maxsize"] = CONNECTIONS
        headers = {
            str(auth_setting["key"]): str(auth_setting["value"])
            for auth_setting in settings.auth_settings().values()
            if auth_setting.get("value")
        }
        return cls(settings.host, client.rest_client.pool_manager, headers)

    def call(
        self, method: str, path: str, body: Any = None, *, patch: str = "", query: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send one request and return the parsed response.

        Raises:
            KubeError: the server refused. Connection errors are raised unchanged.
        """
        headers = {**self._headers, "Content-Type": PATCHES.get(patch, "application/json")}
        content = None if body is None else json.dumps(body).encode()
        answer = self._pool.request(
            method, self._url(path, query), body=content, headers=headers, timeout=TIMEOUT, retries=False
        )
        if answer.status >= 400:
            raise KubeError(answer.status, answer.data.decode("utf-8", "replace")[:500])
        parsed: dict[str, Any] = msgspec.json.decode(answer.data or b"{}")
        return parsed

    def watch(self, path: str, query: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The events of one watch, until the server ends it.

        Raises:
            KubeError: the server refused, or sent an ERROR event. 410 means that the caller must list again.
        """
        answer = self._pool.request(
            "GET",
            self._url(path, {**query, "watch": "1"}),
            headers=self._headers,
            preload_content=False,
            timeout=float(query["timeoutSeconds"]) + TIMEOUT,
            retries=False,
        )
        try:
            if answer.status >= 400:
                raise KubeError(answer.status, "the watch was refused")
            rest = b""
            while chunk := answer.read1():
                *lines, rest = (rest + chunk).split(b"\n")
                for event in (msgspec.json.decode(line) for line in lines if line):  # it reads every pod and Node
                    if event["type"] == "ERROR":
                        raise KubeError(int(event["object"].get("code") or 500), str(event["object"].get("message")))
                    yield event
        finally:
            answer.close()
            answer.release_conn()

    def _url(self, path: str, query: dict[str, Any] | None) -> str:
        return f"{self._host}{path}" + (f"?{urlencode(query)}" if query else "")
