"""The webhook's server on its port: TLS only, conversions only, bounded (OPS-05)."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from http.client import HTTPSConnection
from typing import Any

import pytest

from sandbox.ports import free_ports
from tests.apis.versions.test_review import claim, review
from worker.webhook.certificates import Served, issued
from worker.webhook.server import LARGEST_BODY, WebhookServer


@pytest.fixture
def served() -> Served:
    return issued(["127.0.0.1"], datetime.now(UTC))


@pytest.fixture
def server(served: Served) -> Iterator[WebhookServer]:
    (port,) = free_ports(1)
    running = WebhookServer(port, lambda: {"p": "5h"})
    running.use(served)
    yield running
    running.close()


def connection(server: WebhookServer, served: Served) -> HTTPSConnection:
    trusted = ssl.create_default_context(cadata=served.authorities.decode())
    return HTTPSConnection("127.0.0.1", server.port, timeout=10, context=trusted)


def post(server: WebhookServer, served: Served, body: bytes, path: str = "/convert", **headers: str) -> tuple[int, str]:
    asked = connection(server, served)
    asked.request("POST", path, body=body, headers=headers)
    answer = asked.getresponse()
    return answer.status, answer.read().decode()


def test_a_review_is_answered_and_the_connection_serves_the_next(server: WebhookServer, served: Served) -> None:
    asked = connection(server, served)
    for name in ("a", "b"):
        asked.request("POST", "/convert?timeout=30s", body=json.dumps(review(claim(name))))
        answer: Any = json.loads(asked.getresponse().read())
        (found,) = answer["response"]["convertedObjects"]
        assert (found["metadata"]["name"], found["spec"]["expireAfter"]) == (name, "5h")


def test_what_is_no_conversion_is_refused_in_a_sentence(server: WebhookServer, served: Served) -> None:
    assert post(server, served, b"{}", "/") == (404, "only /convert is served here\n")
    assert post(server, served, b"{")[0] == 400
    assert post(server, served, b"[" * 100_000)[0] == 400
    status, why = post(server, served, b"{}")
    assert (status, why.count("\n")) == (400, 1)
    assert "ConversionReview" in why


def test_a_body_is_bounded_before_it_is_read(server: WebhookServer, served: Served) -> None:
    asked = connection(server, served)
    asked.putrequest("POST", "/convert")
    asked.putheader("Content-Length", str(LARGEST_BODY + 1))
    asked.endheaders()
    assert asked.getresponse().status == 413
    chunked = connection(server, served)
    chunked.putrequest("POST", "/convert")
    chunked.putheader("Transfer-Encoding", "chunked")
    chunked.endheaders()
    assert chunked.getresponse().status == 411


def test_nobody_waits_for_somebody_who_does_not_speak_tls(server: WebhookServer, served: Served) -> None:
    with socket.create_connection(("127.0.0.1", server.port)):
        assert post(server, served, json.dumps(review(claim())).encode())[0] == 200
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        plain.sendall(b"POST /convert HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        with contextlib.suppress(ConnectionResetError):
            assert not plain.recv(1000).startswith(b"HTTP")


def test_a_renewed_certificate_serves_from_the_next_connection_on(server: WebhookServer, served: Served) -> None:
    renewed = issued(["127.0.0.1"], datetime.now(UTC))
    server.use(renewed)
    with pytest.raises(ssl.SSLCertVerificationError):
        post(server, served, b"{}")
    assert post(server, renewed, b"{}")[0] == 400
