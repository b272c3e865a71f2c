"""The HTTPS server of the webhook: one thread a connection, nothing but conversions, and bounds on all of it."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

from tenon.apis.versions.parts import Unconvertible
from tenon.apis.versions.review import reviewed
from worker.repeats import Sparingly
from worker.webhook.certificates import Served

log = logging.getLogger("worker.webhook")

PATH = "/convert"
LARGEST_BODY = 8 << 20
"""An object is at most 1.5 MB in etcd, and the API server sends few at a time."""
MOST_CONNECTIONS = 64
HANDSHAKE_SECONDS = 10.0
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


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, port: int, context: ssl.SSLContext, expiry: Expiry) -> None:
        self._context = context
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.expiry = expiry
        self.sparingly = Sparingly()
        super().__init__(("", port), _Conversions)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One connection: the handshake is its own thread's, so that nobody else waits for a slow one."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            request.settimeout(HANDSHAKE_SECONDS)
            request = self._context.wrap_socket(request, server_side=True)
            request.settimeout(IDLE_SECONDS)
            with self._lock:
                self._open.add(request)
            super().process_request_thread(request, client_address)
        except OSError:  # no TLS, another authority, gone already: the client knows
            self.shutdown_request(request)
        finally:
            with self._lock:
                self._open.discard(request)
            self._places.release()

    def end_connections(self) -> None:
        """End those that are open."""
        with self._lock:
            for request in self._open:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(request, socket.SHUT_RDWR)  # under the thread that reads from it

    def shutdown_request(self, request: Any) -> None:
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_WR)
        self.close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - as socketserver has it
        """A connection that breaks off is the client's affair; the rest is told once a minute."""
        if not isinstance(sys.exc_info()[1], OSError) and self.sparingly.count("fault") is not None:
            log.exception("A conversion failed for a reason that nobody thought of")


class _Conversions(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def do_POST(self) -> None:
        """One ConversionReview."""
        length = self.headers.get("Content-Length", "")
        if self.path.partition("?")[0] != PATH:
            self._refuse(404, f"only {PATH} is served here")
        elif not length.isdecimal():
            self._refuse(411, "the length of the body is not given")
        elif int(length) > LARGEST_BODY:
            self._refuse(413, f"the body is larger than {LARGEST_BODY >> 20} MiB")
        else:
            self._convert(self.rfile.read(int(length)))

    def _convert(self, body: bytes) -> None:
        try:
            answer = reviewed(msgspec.json.decode(body), self.server.expiry())
        except (msgspec.DecodeError, Unconvertible, RecursionError) as error:
            self._refuse(400, str(error))
            return
        result = answer["response"]["result"]
        if result["status"] != "Success" and self.server.sparingly.count(result["message"]) is not None:
            log.warning("an object could not be converted", extra={"reason": result["message"]})
        self._answer(200, "application/json", msgspec.json.encode(answer))

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
