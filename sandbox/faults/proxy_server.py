"""The reverse proxy in front of the API server. It passes requests on unchanged unless a rule matches.

A watch is streamed as its data arrives. Every other request is read completely before it is passed on: a request held
before the server has not started there, and one held after it has finished there. If a client disconnects, its request
ends here too, held or not. If the server cannot be reached, the proxy cuts the connection, as the server itself would.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from sandbox.faults.proxy_rules import Hold, ProxyFault, ProxyRules, plural_of

ADMIN = "/proxy-admin/"
BODY_LIMIT = 64 * 1024 * 1024
HOP_BY_HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "host"}


@dataclass
class ApiServerProxy:
    """The proxy application, with one upstream and one set of rules."""

    upstream: str
    trust: ssl.SSLContext
    rules: ProxyRules

    def application(self) -> web.Application:
        """Build the routes and the client session to the server."""
        app = web.Application(client_max_size=BODY_LIMIT)
        app.cleanup_ctx.append(self._session)
        app.router.add_route("*", ADMIN + "{name}", self._admin)
        app.router.add_route("*", "/{path:.*}", self._pass)
        return app

    async def _session(self, _: web.Application) -> Any:
        connector = aiohttp.TCPConnector(ssl=self.trust, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
            self._http = session
            yield

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        watch = request.query.get("watch", "").lower() in ("1", "true")
        method, path = "WATCH" if watch else request.method, request.path
        call = self.rules.record(method, path, request.query_string, request.headers.get("User-Agent", ""))
        fault, hold = self.rules.next_fault(method, path), self.rules.next_hold(method, path)
        if hold is not None and not hold.after_effect:
            await self.rules.wait()
        if fault is not None:
            await asyncio.sleep(fault.latency_seconds)
            if fault.status and not fault.after_effect:
                return _answer(call, fault)
        body = await request.read()
        try:
            async with self._http.request(
                request.method,
                URL(self.upstream + request.raw_path, encoded=True),
                data=body or None,
                headers=_uncompressed(_forwarded(request.headers)),
                allow_redirects=False,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            ) as answer:
                call["status"] = answer.status
                content = b"" if watch else await answer.read()
                if hold is not None and hold.after_effect:
                    await self.rules.wait()
                if fault is not None and fault.status:
                    return _answer(call, fault)
                if watch:
                    return await self._stream(request, answer)
                return web.Response(status=answer.status, headers=_forwarded(answer.headers), body=content)
        except aiohttp.ClientError:
            call["status"] = 0
            return _cut(request)

    async def _stream(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        """Stream a watch. While it is stalled or late, its end is withheld too."""
        plural = plural_of(request.path)
        response = web.StreamResponse(status=answer.status, headers=_forwarded(answer.headers))
        await response.prepare(request)
        clock = asyncio.get_running_loop().time
        arrived: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def read() -> None:
            async for chunk in answer.content.iter_any():
                arrived.put_nowait((clock(), chunk))

        reading = asyncio.create_task(read())
        reading.add_done_callback(lambda _: arrived.put_nowait((clock(), b"")))
        try:
            while True:
                at, chunk = await arrived.get()
                await asyncio.sleep(max(0.0, at + self.rules.delays.get(plural, 0.0) - clock()))
                await self.rules.flow(plural)
                if not chunk:
                    break
                await response.write(chunk)
        finally:
            reading.cancel()
        await asyncio.gather(reading)  # raises what broke the connection
        await response.write_eof()
        return response

    async def _admin(self, request: web.Request) -> web.Response:
        """The admin API. It answers 400 with a sentence for a bad request, and 404 for an unknown path."""
        try:
            fields = json.loads(await request.read() or b"{}")
            return web.json_response(self._do(f"{request.method} {request.match_info['name']}", fields, request.query))
        except LookupError as error:
            return web.json_response({"message": str(error)}, status=404)
        except (TypeError, ValueError) as error:
            return web.json_response({"message": f"{request.method} {request.path}: {error}"}, status=400)

    def _do(self, name: str, fields: dict[str, Any], query: Mapping[str, str]) -> dict[str, Any]:
        match name:
            case "GET rules":
                return self.rules.listing()
            case "GET held":
                return {"held": self.rules.held_count}
            case "GET calls":
                method, path = query.get("method", ""), query.get("path", "")
                hold = Hold(method.upper(), path)
                return {"calls": [call for call in self.rules.calls if hold.fits(call["method"], call["path"])]}
            case "DELETE calls":
                self.rules.calls.clear()
            case "POST stall":
                self.rules.stalled.add(str(fields.get("plural", "")))
            case "POST delay":
                self.rules.delays[str(fields["plural"])] = float(fields["seconds"])
            case "POST hold":
                self.rules.holds.append(Hold(**fields))
            case "POST fault":
                self.rules.faults.append(ProxyFault(**fields))
            case "POST release":
                self.rules.release()
            case "POST clear":
                self.rules.clear()
            case _:
                raise LookupError(f"The proxy has no {name}")
        return {"status": "ok"}


def _forwarded(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """The headers without those that concern only this connection."""
    return CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if name.lower() not in HOP_BY_HOP and name.lower() != "content-length"
    )


def _uncompressed(headers: CIMultiDict[str]) -> CIMultiDict[str]:
    """The headers of a request without the wish for compression: Kubernetes 1.37 compresses the list that begins a
    watch, and kube-scheduler never saw its end through the proxy.
    """
    headers.popall("Accept-Encoding", None)
    return headers


def _answer(call: dict[str, Any], fault: ProxyFault) -> web.Response:
    call["status"] = fault.status
    return web.json_response(fault.body(), status=fault.status)


def _cut(request: web.Request) -> web.StreamResponse:
    """End the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)
