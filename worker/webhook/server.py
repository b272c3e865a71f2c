"""The HTTPS server of the webhook. It runs on its own event loop, serves conversions only, and bounds their cost.

Any pod of the cluster may connect, and the process has other work. aiohttp speaks HTTP, but it limits neither the
number of connections nor how slowly a request may arrive. Therefore this module accepts the connections itself. A
request has one deadline from its first byte to the end of its answer, few requests are converted at a time, and if
there are too many connections, the one that has been silent the longest is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
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

from activities import loggers
from tenon.apis.versions.parts import UnconvertibleError
from tenon.apis.versions.review import reviewed
from worker.log_rate_limit import LogRateLimiter
from worker.webhook.certificates import Served

log = loggers.WEBHOOK
_unheard = loggers.WEBHOOK_HTTP
_unheard.disabled = True  # malformed requests of clients must not fill the log

PATH = "/convert"
MAX_BODY = 3 << 20
"""Bytes. An object takes at most 1.5 MB in etcd, and the API server sends few at a time."""
SMALL_BODY = 128 << 10
MAX_LARGE_BODIES = 4
"""Maximum number of large bodies at a time, because they and their conversions take memory."""
MAX_CONNECTIONS = 64
QUEUE_SECONDS = 0.1
"""Seconds that a new connection waits for other connections to end by themselves."""
MAX_CONVERSIONS = 2
"""Maximum number of conversions at a time: they hold the interpreter lock, which the rest of the process needs too."""
REQUEST_SECONDS = 10.0
"""Time limit for a handshake, and for a request with its answer. The API server waits 30 s at most."""
TURN_SECONDS = 0.8
"""The fraction of a request's time that it may wait for its turn. The rest is enough to refuse it."""
IDLE_SECONDS = 120.0
"""Longer than the 90 s after which the API server itself closes an idle connection."""
_BACKLOG = 128

Expiry = Callable[[], Mapping[str, str] | None]


class WebhookServer:
    """Converts objects for all clients. It starts to serve when it has a certificate."""

    def __init__(self, port: int, expiry: Expiry) -> None:
        """Bind the port. ``expiry`` returns expireAfter by NodePool, or None while it is unknown.

        Raises:
            OSError: the port cannot be used.
        """
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        dual_stack = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual_stack else socket.AF_INET
        self._listener = socket.create_server(("", port), family=family, backlog=_BACKLOG, dualstack_ipv6=dual_stack)
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
        """Use this certificate for new connections. The first call starts the server."""
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
        """Release the port and close all connections, because the API server would keep using its open ones."""
        with self._lock:
            self._closed = True
        if self._thread is not None:
            self._connections.stop()
            self._thread.join(REQUEST_SECONDS)
        self._listener.close()


class _Connections:
    """Accepts connections and answers requests until stopped."""

    def __init__(self, listener: socket.socket, context: ssl.SSLContext, expiry: Expiry) -> None:
        self._listener = listener
        self._context = context
        self._expiry = expiry
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._open: dict[socket.socket, None] = {}
        """Open connections, the one that has been silent the longest first."""
        self._large = asyncio.Semaphore(MAX_LARGE_BODIES)
        self._converting = asyncio.Semaphore(MAX_CONVERSIONS)
        self._threads = ThreadPoolExecutor(MAX_CONVERSIONS, "webhook-conversion")
        self._log_limiter = LogRateLimiter()

    def run(self) -> None:
        """Serve in this thread until `stop` is called."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())
        self._threads.shutdown(wait=False)

    def stop(self) -> None:
        """Stop serving. Safe to call from any thread."""
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
            except OSError:  # no file descriptor is left, or the client has disconnected
                await asyncio.sleep(QUEUE_SECONDS)
                continue
            await self._make_room()
            self._open[connection] = None
            tasks.create_task(self._serve_connection(connection, http))

    async def _make_room(self) -> None:
        quietest = iter(tuple(self._open))
        while len(self._open) >= MAX_CONNECTIONS:
            self._ended.clear()
            try:
                async with asyncio.timeout(QUEUE_SECONDS):
                    await self._ended.wait()
            except TimeoutError:
                if (quiet := next(quietest, None)) is not None:
                    _end(quiet)

    async def _serve_connection(self, connection: socket.socket, http: web.Server) -> None:
        """Serve one connection, from its handshake to its end."""
        try:
            _, protocol = await self._loop.connect_accepted_socket(
                lambda: _Connection(http, self._loop, connection),
                connection,
                ssl=self._context,
                ssl_handshake_timeout=REQUEST_SECONDS,
                ssl_shutdown_timeout=REQUEST_SECONDS,
            )
            await protocol.ended.wait()
        except OSError:  # no TLS, an untrusted certificate, or a closed connection: the client sees the error itself
            connection.close()
        except Exception:  # a failure of one connection must not end the others
            connection.close()
            if self._log_limiter.count("connection") is not None:
                log.exception("A connection to the conversion webhook failed")
        finally:
            self._open.pop(connection, None)
            self._ended.set()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request. Its time ends when the answer is sent."""
        protocol = request.protocol
        assert isinstance(protocol, _Connection)
        protocol.begin()
        try:
            response = await self._response(request, protocol)
        except (OSError, web.RequestPayloadError):  # the client disconnected
            raise
        except Exception:
            if self._log_limiter.count("fault") is not None:
                log.exception("The conversion webhook failed for an unexpected reason")
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
        if int(length) > MAX_BODY:
            return _refusal(413, f"the body is larger than {MAX_BODY >> 20} MiB")
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
            return _refusal(503, "too many conversions at once: try again")
        except (msgspec.DecodeError, UnconvertibleError, RecursionError) as error:
            return _refusal(400, str(error))

    async def _converted(self, request: web.BaseRequest, protocol: _Connection) -> web.Response:
        body = await request.content.read()
        if protocol.connection in self._open:  # move to the end: this is now the most recently active connection
            self._open[protocol.connection] = self._open.pop(protocol.connection)
        async with asyncio.timeout(REQUEST_SECONDS * TURN_SECONDS):
            await self._converting.acquire()
        try:
            answer, refused = await self._loop.run_in_executor(self._threads, _reviewed, body, self._expiry())
        finally:
            self._converting.release()
        if refused and self._log_limiter.count("object") is not None:
            log.warning("The conversion webhook refused to convert an object", extra={"error": refused})
        return web.Response(body=answer, content_type="application/json")


class _Connection(web.RequestHandler):
    """aiohttp's side of a connection. It aborts when a request, or the wait for the next one, takes too long."""

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
        """Start the idle timeout after the handshake."""
        super().connection_made(transport)
        assert isinstance(transport, asyncio.WriteTransport)
        transport.set_write_buffer_limits(1)  # an answer counts as sent only when the client has received it
        self.end()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Cancel the timeout and wake the task that waits for the end of the connection."""
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()
        self.ended.set()

    def data_received(self, data: bytes) -> None:
        """Start the request's timeout at its first byte."""
        self.begin()
        super().data_received(data)

    def begin(self) -> None:
        """Start the request's timeout, unless it runs already."""
        if not self._busy:
            self._busy = True
            self._limit(REQUEST_SECONDS)

    def end(self) -> None:
        """Switch to the idle timeout, because the answer has been sent."""
        self._busy = False
        self._limit(IDLE_SECONDS)

    def _limit(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        transport = self.transport
        if transport is not None:
            self._deadline = asyncio.get_running_loop().call_later(seconds, transport.abort)


def _reviewed(body: bytes, expiry: Mapping[str, str] | None) -> tuple[bytes, str]:
    """The answer, and why an object could not be converted. The reason is empty if all were converted."""
    answer: Any = reviewed(msgspec.json.decode(body), expiry)
    result = answer["response"]["result"]
    return msgspec.json.encode(answer), "" if result["status"] == "Success" else str(result["message"])


def _refusal(status: int, why: str) -> web.Response:
    """Build an error response that also closes the connection, because the client may have sent more such requests."""
    response = web.Response(status=status, text=f"{why}\n")
    response.force_close()
    return response


def _end(connection: socket.socket) -> None:
    """Shut down the socket, so that the transport that reads from it ends."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
