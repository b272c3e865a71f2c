"""A Kubernetes API server in memory: one resource with versions, pages, watches, bookmarks, compaction and accidents.

`FakeApi` answers like `Kube` does, in process; `serve` puts the same behind real HTTP.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from activities.gate import Gate
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ApiUnreachableError, GoneError, StreamSilentError

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: fake
clusters: [{name: fake, cluster: {server: "http://127.0.0.1:%d"}}]
users: [{name: fake, user: {token: secret}}]
contexts: [{name: fake, context: {cluster: fake, user: fake}}]
"""


class FakeApi:
    """Objects by name, and the log of what happened to them since the last compaction."""

    host = "https://fake"

    def __init__(self, *, watch_list: bool = True) -> None:
        self.version = 10
        self.floor = 10
        self.objects: dict[str, dict[str, Any]] = {}
        self.log: list[tuple[int, str, dict[str, Any]]] = []
        self.watch_list = watch_list
        self.requests: list[dict[str, str]] = []
        self.failures: list[Exception] = []
        self.repeat = False
        self.expire_pages = 0
        self._news = asyncio.Event()
        self._cut = 0
        self._stalled = 0
        self.holds_watches = False

    def put(self, name: str, value: str, **extra: Any) -> None:
        self.version += 1
        kind = "MODIFIED" if name in self.objects else "ADDED"
        uid = self.objects[name]["metadata"]["uid"] if name in self.objects else f"uid-{self.version}"
        self.objects[name] = {
            "metadata": {"name": name, "uid": uid, "resourceVersion": str(self.version), **extra},
            "spec": {"value": value},
        }
        self._tell(kind, self.objects[name])

    def delete(self, name: str) -> None:
        removal = self.objects.pop(name, None)
        if removal is not None:
            self.version += 1
            metadata = {**removal["metadata"], "resourceVersion": str(self.version)}
            self._tell("DELETED", {**removal, "metadata": metadata})

    def compact(self) -> None:
        """Forgets the past: a client that did not follow must list again."""
        self.floor = self.version
        self.log.clear()

    def cut(self) -> None:
        """Breaks every open watch."""
        self._cut += 1
        self._wake()

    def stall(self, *, new_ones_too: bool = False) -> None:
        """Every open watch stays open and says nothing any more; so do those opened later, while asked for."""
        self._stalled += 1
        self.holds_watches = new_ones_too

    def bookmark(self) -> None:
        self.version += 1
        self._tell("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})

    async def request(self, method: str, path: str, *, query: dict[str, str] | None = None, **_: Any) -> bytes:
        query = query or {}
        self.requests.append(dict(query))
        self._fail()
        token = query.get("continue", "")
        version, start = (int(part) for part in token.split(":")) if token else (self.version, 0)
        if token and (version < self.floor or self.expire_pages > 0):
            self.expire_pages -= 1
            raise GoneError(410, "Expired", "The provided continue parameter is too old")
        names = sorted(self.objects)
        limit = int(query.get("limit") or len(names) + 1)
        more = f"{version}:{start + limit}" if start + limit < len(names) else ""
        page = [self.objects[name] for name in names[start : start + limit]]
        return json.dumps({"metadata": {"resourceVersion": str(version), "continue": more}, "items": page}).encode()

    async def stream(
        self, path: str, query: dict[str, str] | None = None, *, idle_seconds: float = 0.0
    ) -> AsyncIterator[bytes]:
        query = query or {}
        self.requests.append(dict(query))
        self._fail()
        initial = query.get("sendInitialEvents") == "true"
        if initial and not self.watch_list:
            raise ApiError(422, "Invalid", "sendInitialEvents is forbidden for watch unless WatchList is enabled")
        cut, stalled = self._cut, self._stalled - self.holds_watches
        version = self.version if initial else int(query["resourceVersion"])
        if initial and self._stalled == stalled:
            for name in sorted(self.objects):
                yield _line("ADDED", self.objects[name])
            mark = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
            yield _line("BOOKMARK", {"metadata": mark})
        while True:
            if self._stalled != stalled:
                try:
                    async with asyncio.timeout(idle_seconds or None):
                        await asyncio.Event().wait()
                except TimeoutError:
                    raise StreamSilentError(self.host, "nothing came") from None
            if version < self.floor:
                yield _line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
                return
            for happened, kind, obj in list(self.log):
                if happened <= version:
                    continue
                if self._cut != cut:
                    raise ApiUnreachableError(self.host, "the connection was cut")
                if self._stalled != stalled:
                    break
                version = happened
                yield _line(kind, obj)
                if self.repeat and kind != "BOOKMARK":
                    yield _line(kind, obj)
            if self._cut != cut:
                return
            if version >= self.version and self._stalled == stalled:
                news = self._news
                try:
                    async with asyncio.timeout(idle_seconds or None):
                        await news.wait()
                except TimeoutError:
                    raise StreamSilentError(self.host, "nothing came") from None

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    def _tell(self, kind: str, obj: dict[str, Any]) -> None:
        self.log.append((self.version, kind, obj))
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def _line(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()


@asynccontextmanager
async def serve(
    handler: Any, folder: Path, gate: Gate | None = None, *, client: type[Kube] = Kube
) -> AsyncIterator[Kube]:
    """A client of a real HTTP server on the loopback that answers every request by ``handler(request)``."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    config = folder / "kubeconfig"
    config.write_text(KUBECONFIG % port)
    kube = await client.connect(str(config), gate=gate)
    try:
        yield kube
    finally:
        await kube.close()
        await runner.cleanup()


def http_handler(api: FakeApi) -> Any:
    """`FakeApi` behind HTTP."""

    async def handle(request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        try:
            if query.get("watch") != "true":
                return web.Response(body=await api.request(request.method, request.path, query=query))
            response = web.StreamResponse()
            started = False
            async for line in api.stream(request.path, query):
                if not started:
                    await response.prepare(request)
                    started = True
                await response.write(line + b"\n")
        except ApiUnreachableError:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=500)
        except ApiError as error:
            status = {"kind": "Status", "code": error.status, "reason": error.reason, "message": error.message}
            return web.json_response(status, status=error.status)
        return response

    return handle
