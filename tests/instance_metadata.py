"""Instance metadata, version 2, as far as it names the region."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.local_server import running


@contextmanager
def serving(zone: str) -> Iterator[str]:
    """Serve the metadata of an instance in a zone, and yield the endpoint."""

    class Metadata(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self._answer("token")

        def do_GET(self) -> None:
            self._answer(zone if self.path.endswith("/placement/availability-zone/") else "")

        def _answer(self, text: str) -> None:
            self.send_response(200 if text else 404)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    with running(Metadata) as address:
        yield address
