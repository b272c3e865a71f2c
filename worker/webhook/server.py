"""The HTTPS server of the webhook: one thread a connection, nothing but conversions, and bounds on all of it.

Any pod of the cluster may connect, and the process has other work. So a request has one deadline from its first byte to
the last of its answer, few are converted at a time, and where there are too many connections the one that was quiet
for the longest gives way.
"""

from __future__ import annotations

import contextlib
import io
import logging
import socket
import ssl
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import msgspec

from tenon.apis.versions.parts import Unconvertible
from tenon.apis.versions.review import reviewed
from worker.runtime.dual_stack import DualStackServer
from worker.runtime.log_rate_limit import LogRateLimiter
from worker.webhook.certificates import Served
from worker.webhook.timed import TimedConnection

log = logging.getLogger("worker.webhook")

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
IDLE_SECONDS = 120.0
"""Longer than the 90 s after which the API server itself closes a connection that it does not use."""

Expiry = Callable[[], Mapping[str, str] | None]


class WebhookServer:
    """Converts objects for whoever asks; it serves from the first certificate on."""

    def __init__(self, port: int, expiry: Expiry) -> None:
        """Take the port. ``expiry`` answers expireAfter of the NodePools, None while they are not known.

        Raises:
            OSError: the port cannot be used.
        """
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._server = _Server(port, self._context, expiry)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def use(self, served: Served) -> None:
        """Serve with this certificate from the next connection on."""
        with tempfile.TemporaryDirectory(prefix="tenon-webhook-") as folder:  # ssl reads keys from files only
            path = Path(folder) / "served.pem"
            path.touch(mode=0o600)
            path.write_bytes(served.key + served.certificate)
            self._context.load_cert_chain(path)
        with self._lock:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._server.serve_forever, name="webhook", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Give the port back, and end all connections: the API server would go on with those that it has."""
        with self._lock:
            self._closed = True
        if self._thread is not None:
            self._server.shutdown()
        self._server.server_close()
        self._server.end_connections()


class _Server(DualStackServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, port: int, context: ssl.SSLContext, expiry: Expiry) -> None:
        self._context = context
        self._open: dict[socket.socket, None] = {}
        self._changed = threading.Condition()
        self.converting = threading.BoundedSemaphore(MOST_CONVERSIONS)
        self.large = threading.BoundedSemaphore(MOST_LARGE_BODIES)
        self.expiry = expiry
        self.log_limiter = LogRateLimiter()
        super().__init__(("", port), _Conversions)

    def get_request(self) -> tuple[socket.socket, Any]:
        """One connection; its handshake is its own thread's, so that nobody else waits for a slow one."""
        plain, address = super().get_request()
        plain.settimeout(REQUEST_SECONDS)
        request = self._context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        with self._changed:
            quietest = iter(tuple(self._open))
            while len(self._open) >= MOST_CONNECTIONS:
                if not self._changed.wait(PATIENCE) and (quiet := next(quietest, None)) is not None:
                    _end(quiet)
            self._open[request] = None
        return request, address

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One connection."""
        try:
            request.do_handshake()
            super().process_request_thread(request, client_address)
        except OSError:  # no TLS, another authority, gone already: the client knows
            self.shutdown_request(request)
        finally:
            with self._changed:
                self._open.pop(request, None)
                self._changed.notify()

    def was_heard(self, request: socket.socket) -> None:
        """It has sent a whole request: others are to give way first."""
        with self._changed:
            if request in self._open:
                del self._open[request]
                self._open[request] = None

    def end_connections(self) -> None:
        """End those that are open."""
        with self._changed:
            for request in self._open:
                _end(request)

    def shutdown_request(self, request: Any) -> None:
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_WR)
        self.close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - as socketserver has it
        """A connection that breaks off is the client's affair; the rest is told once a minute."""
        if not isinstance(sys.exc_info()[1], OSError) and self.log_limiter.count("fault") is not None:
            log.exception("A conversion failed for a reason that nobody thought of")


class _Conversions(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server
    connection: ssl.SSLSocket

    def setup(self) -> None:
        """Read and write with deadlines."""
        super().setup()
        self._timed = TimedConnection(self.connection, IDLE_SECONDS, REQUEST_SECONDS)
        self.rfile = io.BufferedReader(self._timed)
        self.wfile = io.BufferedWriter(self._timed)

    def handle_one_request(self) -> None:
        """One request; whoever takes too long for it is left."""
        self._timed.next_request()
        super().handle_one_request()

    def do_POST(self) -> None:
        """One ConversionReview."""
        length = self.headers.get("Content-Length", "")
        if self.path.partition("?")[0] != PATH:
            self._refuse(404, f"only {PATH} is served here")
        elif not length.isdecimal():
            self._refuse(411, "the length of the body is not given")
        elif int(length) > LARGEST_BODY:
            self._refuse(413, f"the body is larger than {LARGEST_BODY >> 20} MiB")
        elif int(length) <= SMALL_BODY:
            self._convert(int(length))
        else:
            with self._turn(self.server.large) as its_turn:
                if its_turn:
                    self._convert(int(length))

    def _convert(self, length: int) -> None:
        body = self.rfile.read(length)
        self.server.was_heard(self.connection)
        try:
            with self._turn(self.server.converting) as its_turn:
                answer = self._converted(body) if its_turn else None
        except (msgspec.DecodeError, Unconvertible, RecursionError) as error:
            self._refuse(400, str(error))
            return
        if answer is not None:
            self._answer(200, "application/json", answer)

    @contextlib.contextmanager
    def _turn(self, places: threading.Semaphore) -> Iterator[bool]:
        """One of these places, if there is one in time; else the request is refused."""
        if not places.acquire(timeout=max(self._timed.remaining, 0.0)):
            self._refuse(503, "too much is to be converted at once: try again")
            yield False
            return
        try:
            yield True
        finally:
            places.release()

    def _converted(self, body: bytes) -> bytes:
        answer = reviewed(msgspec.json.decode(body), self.server.expiry())
        result = answer["response"]["result"]
        if result["status"] != "Success" and self.server.log_limiter.count("object") is not None:
            log.warning("an object could not be converted", extra={"reason": result["message"]})
        return msgspec.json.encode(answer)

    def _refuse(self, status: int, why: str) -> None:
        """Whoever sends such a thing may have sent more of it: the connection ends."""
        self.close_connection = True
        self._answer(status, "text/plain; charset=utf-8", f"{why}\n".encode())

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Conversions are not worth a log line."""


def _end(request: socket.socket) -> None:
    """End a connection under the thread that reads from it."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(request, socket.SHUT_RDWR)
