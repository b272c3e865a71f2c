"""The webhook's server on its port: TLS only, conversions only, bounded (OPS-05)."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from http.client import HTTPSConnection
from typing import Any

import pytest

from sandbox.ports import free_ports
from tenon.apis.versions.review import MAX_OBJECTS, reviewed
from tests.tenon.apis.versions.reviews import claim, review
from worker.webhook.certificates import Served, issued
from worker.webhook.server import MAX_BODY, MAX_CONNECTIONS, MAX_CONVERSIONS, WebhookServer

pytestmark = pytest.mark.integration


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
    https_connection = connection(server, served)
    https_connection.request("POST", path, body=body, headers=headers)
    answer = https_connection.getresponse()
    return answer.status, answer.read().decode()


def test_a_review_is_answered_and_the_connection_serves_the_next(server: WebhookServer, served: Served) -> None:
    https_connection = connection(server, served)
    for name in ("a", "b"):
        https_connection.request("POST", "/convert?timeout=30s", body=json.dumps(review(claim(name))))
        answer: Any = json.loads(https_connection.getresponse().read())
        (converted_object,) = answer["response"]["convertedObjects"]
        assert (converted_object["metadata"]["name"], converted_object["spec"]["expireAfter"]) == (name, "5h")


def test_what_is_no_conversion_is_refused_in_a_sentence(server: WebhookServer, served: Served) -> None:
    assert post(server, served, b"{}", "/") == (404, "only /convert is served here\n")
    assert post(server, served, b"{")[0] == 400
    assert post(server, served, b"[" * 100_000)[0] == 400
    status, why = post(server, served, b"{}")
    assert (status, why.count("\n")) == (400, 1)
    assert "ConversionReview" in why


def test_a_body_is_bounded_before_it_is_read(server: WebhookServer, served: Served) -> None:
    https_connection = connection(server, served)
    https_connection.putrequest("POST", "/convert")
    https_connection.putheader("Content-Length", str(MAX_BODY + 1))
    https_connection.endheaders()
    assert https_connection.getresponse().status == 413
    chunked = connection(server, served)
    chunked.putrequest("POST", "/convert")
    chunked.putheader("Transfer-Encoding", "chunked")
    chunked.endheaders()
    assert chunked.getresponse().status == 411


def test_a_client_that_does_not_speak_tls_delays_no_other(server: WebhookServer, served: Served) -> None:
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


def many_pools(count: int) -> bytes:
    """A review of so many NodePools of a few bytes each."""
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {}}
    request = {"uid": "u", "desiredAPIVersion": "karpenter.sh/v1beta1", "objects": [pool] * count}
    return json.dumps(
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    ).encode()


def test_ops05_a_request_has_one_deadline_however_slowly_it_comes(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte now and then must not keep a connection open for as long as somebody likes."""
    (port,) = free_ports(1)
    running = WebhookServer(port, dict)
    running.use(served)
    ended = threading.Event()
    try:
        trusted = ssl.create_default_context(cadata=served.authorities.decode())
        with trusted.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1") as slow:

            def dribble() -> None:
                with contextlib.suppress(OSError):
                    while not ended.wait(0.1):
                        slow.sendall(b" ")

            monkeypatch.setattr("worker.webhook.server.REQUEST_SECONDS", 0.5)  # not the handshake's
            slow.sendall(b"POST /convert HTTP/1.1\r\nHost: tenon\r\nContent-Length: 100000\r\n\r\n")
            sender = threading.Thread(target=dribble)
            sender.start()
            slow.settimeout(10)
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                assert slow.recv(1) == b""  # a TimeoutError is neither
            ended.set()
            sender.join()
    finally:
        ended.set()
        running.close()


def test_ops05_those_who_hold_all_connections_give_way_to_who_asks(server: WebhookServer, served: Served) -> None:
    with contextlib.ExitStack() as exit_stack:
        for _ in range(MAX_CONNECTIONS + 5):
            silent = socket.create_connection(("127.0.0.1", server.port))
            exit_stack.enter_context(silent)
        assert post(server, served, json.dumps(review(claim())).encode())[0] == 200


def test_ops05_the_objects_of_one_review_are_bounded(server: WebhookServer, served: Served) -> None:
    status, answer = post(server, served, many_pools(MAX_OBJECTS + 1))
    result = json.loads(answer)["response"]["result"]
    assert (status, result["status"]) == (200, "Failure")
    assert f"at most {MAX_OBJECTS}" in result["message"]
    assert json.loads(post(server, served, many_pools(MAX_OBJECTS))[1])["response"]["result"]["status"] == "Success"


def test_ops05_few_reviews_are_converted_at_a_time(
    server: WebhookServer, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Conversions hold the interpreter, which workflows of the same process need within two seconds."""
    real = reviewed
    at_once: list[int] = []
    running = [0]
    lock = threading.Lock()
    as_many_as_may, too_many = threading.Event(), threading.Barrier(MAX_CONVERSIONS + 1)

    def counted(*value: Any) -> Any:
        with lock:
            running[0] += 1
            at_once.append(running[0])
            if running[0] == MAX_CONVERSIONS:
                as_many_as_may.set()
        as_many_as_may.wait(10)
        with contextlib.suppress(threading.BrokenBarrierError):
            too_many.wait(1)
        answer = real(*value)
        with lock:
            running[0] -= 1
        return answer

    monkeypatch.setattr("worker.webhook.server.reviewed", counted)
    body = json.dumps(review(claim())).encode()
    with ThreadPoolExecutor(4 * MAX_CONVERSIONS) as clients:
        answers = list(clients.map(lambda _: post(server, served, body)[0], range(4 * MAX_CONVERSIONS)))
    assert set(answers) == {200}
    assert max(at_once) == MAX_CONVERSIONS


def test_it_is_reached_by_ipv6_too(served: Served) -> None:
    """Pods of an IPv6 cluster have no other addresses."""
    (port,) = free_ports(1)
    running = WebhookServer(port, dict)
    running.use(served)
    try:
        for address in ("::1", "127.0.0.1"):
            socket.create_connection((address, port), timeout=5).close()
    finally:
        running.close()


def test_names_that_somebody_makes_up_are_no_lines_of_the_log(
    server: WebhookServer, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(5):
        broken = {"apiVersion": "karpenter.sh/v1beta1", "kind": "Nothing", "metadata": {"name": f"made-up-{number}"}}
        assert post(server, served, json.dumps(review(broken)).encode())[0] == 200
    lines = [record for record in caplog.records if "refused to convert an object" in record.message]
    assert len(lines) == 1
    assert "made-up-0" in lines[0].__dict__["error"]
