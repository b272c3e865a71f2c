"""An API server that only lists what a test gives it, for ``--live``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.activities.kubernetes.fake_api import KUBECONFIG
from tests.local_server import running


class ApiServer(BaseHTTPRequestHandler):
    """Answers lists of what ``objects`` holds by plural; it knows only these kinds, and nodes and pods."""

    objects: dict[str, list[Any]]
    single: dict[str, Any]
    """Objects that are asked for by name."""
    methods: list[str]

    def do_GET(self) -> None:
        plural = self.path.partition("?")[0].rpartition("/")[2]
        self.methods.append(self.command)
        objects = {"nodes": [], "pods": [], **self.objects}
        entries = plural in objects or plural in self.single
        answer: Any = {"kind": "Status", "reason": "NotFound"}
        if entries:
            answer = self.single.get(plural) or {"kind": "List", "items": objects[plural]}
        body = json.dumps(answer).encode()
        self.send_response(200 if entries else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            self.methods.append(name)
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def api_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[ApiServer]]:
    """A running API server that the kubeconfig names."""
    handler = type("Handler", (ApiServer,), {"objects": {}, "single": {}, "methods": []})
    with running(handler) as address:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG % urlsplit(address).port)
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        yield handler
