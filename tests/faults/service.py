"""One address before the webhooks of several replicas, as a Service is: a replica that is gone gets no requests."""

from __future__ import annotations

import contextlib
import itertools
import socket
import socketserver
import threading
from collections.abc import Iterator, Sequence
from typing import Any


@contextlib.contextmanager
def service(ports: Sequence[int]) -> Iterator[int]:
    """A port of loopback whose connections go to these ports in turn, and past those where nobody listens."""
    server = _Service(ports)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


class _Service(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, ports: Sequence[int]) -> None:
        self.ports = ports
        self.turns = itertools.count()
        super().__init__(("127.0.0.1", 0), _Connection)


class _Connection(socketserver.BaseRequestHandler):
    server: _Service

    def handle(self) -> None:
        first = next(self.server.turns)
        for offset in range(len(self.server.ports)):
            port = self.server.ports[(first + offset) % len(self.server.ports)]
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as backend:
                back = threading.Thread(target=_pass_on, args=(backend, self.request), daemon=True)
                back.start()
                _pass_on(self.request, backend)
                back.join()
                return


def _pass_on(source: Any, target: Any) -> None:
    """Bytes until one of the two ends; then both end."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for item in (source, target):
        with contextlib.suppress(OSError):
            item.shutdown(socket.SHUT_RDWR)
