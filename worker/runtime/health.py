"""Health and metrics of a worker: two child processes report to their parent, which answers the probes.

Live means that both processes run and their event loops respond. Ready means that caches are synced, and that Temporal
and the API server answer. An outage of either makes a worker unready, never dead, so that Kubernetes does not restart
it in a loop.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import select
import socket
import sys
import threading
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import IO, Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from worker.runtime.telemetry.profiling import asked, gather
from worker.runtime.telemetry.text_metrics import process_text, scraped_texts, temporal_text

SILENCE_LIMIT = 60.0
"""Seconds without a report after which a child counts as dead."""
GZIP = 31
"""What zlib calls a window of the largest size with gzip's header."""
LATE_LIMIT = 10.0
"""Seconds without a report after which a child, which reports every two, counts as late."""
MAX_CONNECTIONS = 64
"""Maximum number of connections to a port. Each has a thread, and any pod of the cluster may connect."""
END_SECONDS = 0.1
"""Seconds that the oldest connection has to end when its place is needed, before the next one must end too."""
CLIENT_SECONDS = 30.0
"""Seconds that a connection may be silent."""


class DualStackServer(ThreadingHTTPServer):
    """Listens on all addresses of a port, because the Pods of some clusters have addresses of only one family; or
    only on IPv4 if the kernel has no dual-stack sockets.
    """

    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: dict[socket.socket, None] = {}
        """Open connections, the oldest first."""
        self._ended = threading.Condition()
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Bind the port. Unlike the base class, this does not look up the host's name in DNS."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin to serve a connection, when fewer than `MAX_CONNECTIONS` are open. Old ones end at once, so that many
        new ones do not keep the kubelet's waiting.
        """
        with self._ended:
            oldest = iter(tuple(self._open))
            while len(self._open) >= MAX_CONNECTIONS:
                if (connection := next(oldest, None)) is not None:
                    with contextlib.suppress(OSError):  # it has ended
                        connection.shutdown(socket.SHUT_RDWR)
                self._ended.wait(END_SECONDS)
            self._open[request] = None
        super().process_request(request, client_address)

    def close_request(self, request: Any) -> None:
        """Close a connection."""
        super().close_request(request)
        with self._ended:
            self._open.pop(request, None)
            self._ended.notify()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say why a request failed, unless its client has left."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@dataclass
class ChildHealth:
    """The last report of one child process."""

    ready: bool = False
    why: str = "starting"
    heard_at: float = field(default_factory=time.monotonic)


class Health:
    """Collects the reports of all children and derives liveness and readiness."""

    def __init__(self, names: list[str]) -> None:
        self._children = {name: ChildHealth() for name in names}
        self._lock = threading.Lock()
        self._failures: dict[str, None] = {}

    def listen(self, name: str, stream: IO[str]) -> None:
        """Read the reports of a child until it closes the stream."""
        for line in stream:
            report = json.loads(line)
            with self._lock:
                if "failed" in report:
                    self._failures.setdefault(report["failed"])
                    continue
                self._children[name] = ChildHealth(report["ready"], report["why"])

    def failures(self) -> list[str]:
        """Why children could not work, each reason once."""
        with self._lock:
            return list(self._failures)

    def live(self) -> tuple[bool, str]:
        """Whether every child has reported within `SILENCE_LIMIT`."""
        now = time.monotonic()
        with self._lock:
            silent = [name for name, child in self._children.items() if now - child.heard_at > SILENCE_LIMIT]
        return not silent, f"silent: {', '.join(silent)}" if silent else "ok"

    def ready(self) -> tuple[bool, str]:
        """Whether every child is ready, or else what each one waits for. A late report shows that an event
        loop hangs.
        """
        now = time.monotonic()
        with self._lock:
            silences = {name: now - child.heard_at for name, child in self._children.items()}
            waiting = [
                f"{name}: {child.why}" if not child.ready else f"{name}: its event loop is {silences[name]:.0f} s late"
                for name, child in self._children.items()
                if not child.ready or silences[name] > LATE_LIMIT
            ]
        return not waiting, "; ".join(waiting) if waiting else "ok"


def serve_probes(health: Health, port: int) -> ThreadingHTTPServer:
    """Answer /healthz and /readyz on ``port`` from a background thread."""

    class Probes(_Quiet):
        def do_GET(self) -> None:
            """One probe."""
            verdict = {"/healthz": health.live, "/readyz": health.ready}.get(self.path)
            if verdict is None:
                self.answer(404, "text/plain", b"not found\n")
                return
            ok, why = verdict()
            self.answer(200 if ok else 503, "text/plain", f"{why}\n".encode())

    return _serve(Probes, port)


def serve_metrics(
    directory: str, port: int, *, profiling: bool = False, addresses: Sequence[str] = ()
) -> ThreadingHTTPServer:
    """Serve /metrics on ``port`` with the sum over the child processes, and /debug/pprof/ if ``profiling`` is on.

    ``addresses``: where the child processes serve the metrics of Temporal's client.
    """

    gathering = threading.Lock()

    class Metrics(_Quiet):
        def do_GET(self) -> None:
            """One scrape, or one profile."""
            if profiling and (query := asked(self.path)):
                profile = gather(directory, *query)
                if profile is None:
                    self.answer(503, "text/plain", b"another profile is being taken: ask again when it is done\n")
                else:
                    self.answer(200, "text/plain; charset=utf-8", profile.encode())
                return
            if self.path.split("?")[0] != "/metrics":
                self.answer(404, "text/plain", b"not found\n")
                return
            # One at a time: on a busy machine, scrapes that no client awaits any more would hold up those that follow.
            # The answers are sent outside, because a client may read slowly.
            with gathering:
                if self.client_has_left():
                    return
                registry = CollectorRegistry()
                MultiProcessCollector(registry, path=directory)  # type: ignore[no-untyped-call]
                texts = [generate_latest(registry), process_text(directory), temporal_text(addresses)]
            self.answer_in_pieces(
                itertools.chain(texts, scraped_texts(directory)),
                "text/plain; version=0.0.4; charset=utf-8",
                zipped="gzip" in self.headers.get("Accept-Encoding", ""),
            )

    return _serve(Metrics, port)


class _Quiet(BaseHTTPRequestHandler):
    timeout = CLIENT_SECONDS

    def answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def client_has_left(self) -> bool:
        """Return whether the client has closed its connection, for example because it waited too long."""
        arrivals = select.poll()
        arrivals.register(self.connection, select.POLLIN)
        try:
            return bool(arrivals.poll(0)) and not self.connection.recv(1, socket.MSG_PEEK)
        except ConnectionError:
            return True

    def answer_in_pieces(self, pieces: Iterable[bytes], content_type: str, *, zipped: bool) -> None:
        """Send a body whose length no one knows yet. It ends with the connection."""
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        if zipped:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        packer = zlib.compressobj(1, wbits=GZIP) if zipped else None
        for piece in pieces:
            self.wfile.write(packer.compress(piece) if packer else piece)
        if packer:
            self.wfile.write(packer.flush())

    def log_message(self, format: str, *args: object) -> None:
        """Probes are not worth a log line."""


def _serve(handler: type[BaseHTTPRequestHandler], port: int) -> ThreadingHTTPServer:
    server = DualStackServer(("", port), handler)
    threading.Thread(target=server.serve_forever, name=f"http-{port}", daemon=True).start()
    return server
