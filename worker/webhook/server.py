"""The HTTPS server of the webhook, on an event loop of its own: conversions only, and bounds on all of it.

Any pod of the cluster may connect, and the process has other work. aiohttp speaks HTTP; it bounds neither connections
nor how slowly a request may come. So the connections are accepted here: a request has one deadline from its first byte
to the end of its answer, few are converted at a time, and if there are too many connections, the one that was silent
for the longest time is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from tenon.apis.versions.parts import Unconvertible
from tenon.apis.versions.review import reviewed
from worker.runtime.log_rate_limit import LogRateLimiter
from worker.webhook.certificates import Served

log = logging.getLogger("worker.webhook")
_unheard = logging.getLogger("worker.webhook.http")
_unheard.disabled = True  # what clients send wrongly is their affair, and must not fill the log

PATH = "/convert"
LARGEST_BODY = 3 << 20
"""An object is at most 1.5 MB in etcd, and the API server sends few at a time."""
SMALL_BODY = 128 << 10
MOST_LARGE_BODIES = 4
"""At a time: for the memory that they and what is made of them take."""
MOST_CONNECTIONS = 64
PATIENCE = 0.1
"""Seconds that a new connection waits for others to end by themselves."""
MOST_CONVERSIONS = 2
"""At a time: they hold the interpreter, which the rest of the process needs too."""
REQUEST_SECONDS = 10.0
"""For a handshake, and for a request with its answer; the API server waits 30 s at most."""
TURN_SECONDS = 0.8
"""The part of a request's time that it may wait for its turn: then there is time left to refuse it."""
IDLE_SECONDS = 120.0
"""Longer than the 90 s after which the API server itself closes a connection that it does not use."""
_BACKLOG = 128

Expiry = Callable[[], Mapping[str, str] | None]


class WebhookServer:
    """Converts objects for all clients; it serves as soon as it has a certificate."""

    def __init__(self, port: int, expiry: Expiry) -> None:
        """Take the port. ``expiry`` answers expireAfter of the NodePools, None while they are not known.

        Raises:
            OSError: the port cannot be used.
        """
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        self._listener = socket.create_server(("", port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
        self._listener.setblocking(False)
        self._connections = _Connections(self._listener, self._context, expiry)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._listener.getsockname()[1])

    def use(self, served: Served) -> None:
        """Serve with this certificate from the next connection on."""
        with tempfile.TemporaryDirectory(prefix="tenon-webhook-") as folder:  # ssl reads keys from files only
            path = Path(folder) / "served.pem"
            path.touch(mode=0o600)
            path.write_bytes(served.key + served.certificate)
            self._context.load_cert_chain(path)
        with self._lock:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._connections.run, name="webhook", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Release the port, and end all connections: the API server would otherwise go on with those that it has."""
        with self._lock:
            self._closed = True
        if self._thread is not None:
            self._connections.stop()
            self._thread.join(REQUEST_SECONDS)
        self._listener.close()


class _Connections:
    """Accepts connections and answers their requests until it is stopped."""

    def __init__(self, listener: socket.socket, context: ssl.SSLContext, expiry: Expiry) -> None:
        self._listener = listener
        self._context = context
        self._expiry = expiry
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._open: dict[socket.socket, None] = {}
        """In the order in which they were last heard."""
        self._large = asyncio.Semaphore(MOST_LARGE_BODIES)
        self._converting = asyncio.Semaphore(MOST_CONVERSIONS)
        self._threads = ThreadPoolExecutor(MOST_CONVERSIONS, "webhook-conversion")
        self._log_limiter = LogRateLimiter()

    def run(self) -> None:
        """Serve, in this thread."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())
        self._threads.shutdown(wait=False)

    def stop(self) -> None:
        """Stop serving; may be called from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            accepting = tasks.create_task(self._accept(tasks))
            await self._stopping.wait()
            accepting.cancel()
            for connection in tuple(self._open):
                _end(connection)

    async def _accept(self, tasks: asyncio.TaskGroup) -> None:
        http = web.Server(self._answer)
        while True:
            try:
                connection, _ = await self._loop.sock_accept(self._listener)
            except OSError:  # no descriptor is left, or the client is gone already
                await asyncio.sleep(PATIENCE)
                continue
            await self._make_room()
            self._open[connection] = None
            tasks.create_task(self._keep(connection, http))

    async def _make_room(self) -> None:
        quietest = iter(tuple(self._open))
        while len(self._open) >= MOST_CONNECTIONS:
            self._ended.clear()
            try:
                async with asyncio.timeout(PATIENCE):
                    await self._ended.wait()
            except TimeoutError:
                if (quiet := next(quietest, None)) is not None:
                    _end(quiet)

    async def _keep(self, connection: socket.socket, http: web.Server) -> None:
        """One connection, from its handshake to its end."""
        try:
            _, protocol = await self._loop.connect_accepted_socket(
                lambda: _Connection(http, self._loop, connection),
                connection,
                ssl=self._context,
                ssl_handshake_timeout=REQUEST_SECONDS,
                ssl_shutdown_timeout=REQUEST_SECONDS,
            )
            await protocol.ended.wait()
        except OSError:  # no TLS, another authority, gone already: the client knows
            connection.close()
        except Exception:  # it must not end the other connections
            connection.close()
            if self._log_limiter.count("connection") is not None:
                log.exception("A connection to the conversion webhook failed")
        finally:
            self._open.pop(connection, None)
            self._ended.set()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, whose time ends when the answer is sent."""
        protocol = request.protocol
        assert isinstance(protocol, _Connection)
        protocol.begin()
        try:
            response = await self._response(request, protocol)
        except (OSError, web.RequestPayloadError):  # the client broke off
            raise
        except Exception:
            if self._log_limiter.count("fault") is not None:
                log.exception("A conversion failed for a reason that nobody thought of")
            response = _refusal(500, "the conversion failed")
        await response.prepare(request)
        await response.write_eof()
        protocol.end()
        return response

    async def _response(self, request: web.BaseRequest, protocol: _Connection) -> web.Response:
        length = request.headers.get("Content-Length", "")
        if request.path != PATH:
            return _refusal(404, f"only {PATH} is served here")
        if request.method != "POST":
            return _refusal(405, f"{PATH} takes POST only")
        if not length.isdecimal():
            return _refusal(411, "the length of the body is not given")
        if int(length) > LARGEST_BODY:
            return _refusal(413, f"the body is larger than {LARGEST_BODY >> 20} MiB")
        try:
            if int(length) <= SMALL_BODY:
                return await self._converted(request, protocol)
            async with asyncio.timeout(REQUEST_SECONDS * TURN_SECONDS):
                await self._large.acquire()
            try:
                return await self._converted(request, protocol)
            finally:
                self._large.release()
        except TimeoutError:
            return _refusal(503, "too much is to be converted at once: try again")
        except (msgspec.DecodeError, Unconvertible, RecursionError) as error:
            return _refusal(400, str(error))

    async def _converted(self, request: web.BaseRequest, protocol: _Connection) -> web.Response:
        body = await request.content.read()
        if protocol.connection in self._open:  # others are to give way first
            self._open[protocol.connection] = self._open.pop(protocol.connection)
        async with asyncio.timeout(REQUEST_SECONDS * TURN_SECONDS):
            await self._converting.acquire()
        try:
            answer, refused = await self._loop.run_in_executor(self._threads, _reviewed, body, self._expiry())
        finally:
            self._converting.release()
        if refused and self._log_limiter.count("object") is not None:
            log.warning("an object could not be converted", extra={"reason": refused})
        return web.Response(body=answer, content_type="application/json")


class _Connection(web.RequestHandler):
    """aiohttp's side of a connection, closed when a request, or the wait for the next one, takes too long."""

    __slots__ = ("_busy", "_deadline", "connection", "ended")

    def __init__(self, http: web.Server, loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
        super().__init__(
            http,
            loop=loop,
            keepalive_timeout=IDLE_SECONDS,
            access_log=None,  # type: ignore[arg-type]
            logger=_unheard,
            lingering_time=0,
            auto_decompress=False,
        )
        self.connection = connection
        self.ended = asyncio.Event()
        self._busy = False
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is done."""
        super().connection_made(transport)
        assert isinstance(transport, asyncio.WriteTransport)
        transport.set_write_buffer_limits(1)  # so that an answer counts as sent when the client has taken it
        self.end()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection has ended."""
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()
        self.ended.set()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request, whose time begins with the first of them."""
        self.begin()
        super().data_received(data)

    def begin(self) -> None:
        """The time of a request begins, unless it runs already."""
        if not self._busy:
            self._busy = True
            self._limit(REQUEST_SECONDS)

    def end(self) -> None:
        """The answer is sent; the next request may take its time to come."""
        self._busy = False
        self._limit(IDLE_SECONDS)

    def _limit(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        transport = self.transport
        if transport is not None:
            self._deadline = asyncio.get_running_loop().call_later(seconds, transport.abort)


def _reviewed(body: bytes, expiry: Mapping[str, str] | None) -> tuple[bytes, str]:
    """The answer, and why an object could not be converted; empty when all were."""
    answer: Any = reviewed(msgspec.json.decode(body), expiry)
    result = answer["response"]["result"]
    return msgspec.json.encode(answer), "" if result["status"] == "Success" else str(result["message"])


def _refusal(status: int, why: str) -> web.Response:
    """A refusal ends the connection: its client may have sent more of the same."""
    response = web.Response(status=status, text=f"{why}\n")
    response.force_close()
    return response


def _end(connection: socket.socket) -> None:
    """End a connection under the transport that reads from it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
