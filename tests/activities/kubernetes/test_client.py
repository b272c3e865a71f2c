"""The client's verbs and errors over real HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
from asyncio.trsock import TransportSocket
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient
from kubernetes.aio.config import ConfigException

from activities.kubernetes.access import _keep_refreshed
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import (
    ApiError,
    ApiUnreachableError,
    ConfigError,
    ConflictError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    StreamSilentError,
    TooManyRequestsError,
    from_status,
)
from activities.kubernetes.resources import EVENTS, NODECLAIMS, NODES, PODS
from activities.kubernetes.transport import GATHER_SECONDS
from activities.node.node_pod_watch import NodePodWatch
from tests.activities.kubernetes.fake_api import KUBECONFIG, serve

pytestmark = pytest.mark.integration

HANGS_AFTER = 20.0
"""Seconds that only bound a test that would otherwise hang."""


def status(code: int, reason: str, message: str = "no", **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}


def answering(*answers: Any) -> tuple[Any, list[tuple[str, str, dict[str, str], Any, str]]]:
    """A handler that gives these answers in turn (the last for ever), and what was asked of it."""
    requests: list[tuple[str, str, dict[str, str], Any, str]] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        text = await request.text()
        body = json.loads(text) if text else None
        requests.append((request.method, request.path, dict(request.query), body, request.content_type))
        answer = answers[min(len(requests), len(answers)) - 1]
        return web.json_response(answer, status=answer.get("code", 200))

    return handle, requests


@pytest.mark.parametrize(
    ("resource", "args", "path"),
    [
        (PODS, ("a", "ns"), "/api/v1/namespaces/ns/pods/a"),
        (PODS, ("", ""), "/api/v1/pods"),
        (PODS, ("a", "ns", "eviction"), "/api/v1/namespaces/ns/pods/a/eviction"),
        (NODES, ("a/../b",), "/api/v1/nodes/a%2F..%2Fb"),
        (NODECLAIMS, ("c", "ignored", "status"), "/apis/karpenter.sh/v1/nodeclaims/c/status"),
    ],
)
def test_paths_follow_the_group_and_scope_of_a_resource(resource: Any, args: tuple[str, ...], path: str) -> None:
    assert resource.path(*args) == path


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (403, ForbiddenError),
        (404, NotFoundError),
        (409, ConflictError),
        (410, GoneError),
        (429, TooManyRequestsError),
        (500, ApiError),
    ],
)
def test_an_error_keeps_what_the_server_said(code: int, kind: type[ApiError]) -> None:
    body = b'{"reason": "Why", "message": "because", "details": {"retryAfterSeconds": 3}}'
    error = from_status(code, body)
    assert type(error) is kind
    assert (error.status, error.reason, error.message, error.retry_after) == (code, "Why", "because", 3.0)


@pytest.mark.parametrize(
    ("code", "is_transient"),
    [
        (0, True),
        (401, True),
        (408, True),
        (429, True),
        (500, True),
        (503, True),
        (400, False),
        (403, False),
        (422, False),
    ],
)
def test_an_error_says_whether_the_same_request_may_succeed_later(code: int, is_transient: bool) -> None:
    """401 too: a token expires, and the next request has a new one."""
    assert from_status(code, b"").is_transient is is_transient


def test_a_page_of_a_proxy_is_an_error_too() -> None:
    error = from_status(502, b"<html>bad gateway</html>", phrase="Bad Gateway")
    assert (error.reason, error.message) == ("BadGateway", "<html>bad gateway</html>")


async def test_list_follows_pages_and_names_the_kind(tmp_path: Path) -> None:
    handle, requests = answering(
        {"metadata": {"continue": "next"}, "items": [{"metadata": {"name": "a"}}]},
        {"metadata": {}, "items": [{"metadata": {"name": "b"}}]},
    )
    async with serve(handle, tmp_path) as kube:
        items = await kube.list(PODS, field_selector="spec.nodeName=x", limit=1)
    assert [item["metadata"]["name"] for item in items] == ["a", "b"]
    assert items[0]["kind"] == "Pod"
    assert requests[1][2] == {"limit": "1", "fieldSelector": "spec.nodeName=x", "continue": "next"}


async def test_each_answer_of_the_api_server_has_its_time(tmp_path: Path) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.Response(status=403, headers={"Date": "Sun, 01 Mar 2026 12:06:00 GMT"})

    async def answer_without(request: web.Request) -> web.StreamResponse:
        return web.Response(headers={"Date": "today"})

    async with serve(refuse, tmp_path) as kube:
        assert await kube.server_time() == datetime(2026, 3, 1, 12, 6, tzinfo=UTC)
    async with serve(answer_without, tmp_path) as kube:
        with pytest.raises(ApiUnreachableError, match="it does not say the time"):
            await kube.server_time()


async def test_not_found_is_not_an_error(tmp_path: Path) -> None:
    handle, _ = answering(status(404, "NotFound"))
    async with serve(handle, tmp_path) as kube:
        assert await kube.get(NODES, "n") is None
        assert await kube.patch(NODES, "n", {}) is None
        assert await kube.delete(NODES, "n") is False
        assert await kube.bind("ns", "p", "n", "uid") is False
        assert (await kube.evict("ns", "p")).outcome == "gone"


async def test_deleting_by_uid_takes_another_object_of_that_name_for_gone(tmp_path: Path) -> None:
    handle, requests = answering(status(409, "Conflict"))
    async with serve(handle, tmp_path) as kube:
        assert await kube.delete(PODS, "p", namespace="ns", uid="old", grace_seconds=0) is False
        with pytest.raises(ConflictError):
            await kube.delete(PODS, "p", namespace="ns")
    assert requests[0][3]["preconditions"] == {"uid": "old"}
    assert requests[0][3]["gracePeriodSeconds"] == 0


@pytest.mark.parametrize(
    ("answer", "uid", "outcome", "message", "code"),
    [
        ({}, None, "evicted", "", 200),
        (
            status(429, "TooManyRequests", causes=[{"reason": "DisruptionBudget", "message": "budget b needs 2"}]),
            None,
            "blocked",
            "budget b needs 2",
            429,
        ),
        (status(429, "TooManyRequests", "too many requests"), None, "error", "too many requests", 429),
        (status(500, "InternalError", "two budgets"), None, "error", "two budgets", 500),
        (status(409, "Conflict"), "old", "gone", "", 409),
        (status(404, "NotFound"), "old", "gone", "", 404),
    ],
)
async def test_an_eviction_distinguishes_a_budget_from_an_overloaded_server(
    tmp_path: Path, answer: Any, uid: str | None, outcome: str, message: str, code: int
) -> None:
    handle, _ = answering(answer)
    async with serve(handle, tmp_path) as kube:
        eviction_answer = await kube.evict("ns", "p", uid=uid)
    assert (eviction_answer.outcome, eviction_answer.message) == (outcome, message)
    assert eviction_answer.code == code, "MET-26 counts it"


async def test_a_binding_names_the_uid(tmp_path: Path) -> None:
    handle, requests = answering({})
    async with serve(handle, tmp_path) as kube:
        assert await kube.bind("ns", "p", "n", "u") is True
    _, path, _, body, _ = requests[0]
    assert path == "/api/v1/namespaces/ns/pods/p/binding"
    assert (body["metadata"]["uid"], body["target"]["name"]) == ("u", "n")


@pytest.mark.parametrize(
    ("kind", "content_type", "force"),
    [
        ("merge", "application/merge-patch+json", None),
        ("json", "application/json-patch+json", None),
        ("apply", "application/apply-patch+yaml", "true"),
    ],
)
async def test_each_kind_of_patch_has_its_content_type(
    tmp_path: Path, kind: Any, content_type: str, force: str | None
) -> None:
    handle, requests = answering({})
    async with serve(handle, tmp_path) as kube:
        await kube.patch(NODECLAIMS, "c", [] if kind == "json" else {"spec": {}}, subresource="status", kind=kind)
    _, path, query, body, messages = requests[0]
    assert (path, messages) == ("/apis/karpenter.sh/v1/nodeclaims/c/status", content_type)
    assert (query["fieldManager"], query.get("force")) == ("tenon", force)
    if kind == "apply":
        assert (body["kind"], body["metadata"]) == ("NodeClaim", {"name": "c"})


async def test_create_sends_a_whole_object(tmp_path: Path) -> None:
    handle, requests = answering({"metadata": {"name": "e"}})
    async with serve(handle, tmp_path) as kube:
        await kube.create(EVENTS, {"metadata": {"name": "e", "namespace": "ns"}})
    assert requests[0][1] == "/api/v1/namespaces/ns/events"
    assert (requests[0][3]["apiVersion"], requests[0][3]["kind"]) == ("v1", "Event")


async def test_stream_keeps_lines_whole_whatever_their_length(tmp_path: Path) -> None:
    lines = [b"short", b"x" * 5_000_000, b"last"]

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"\n".join(lines) + b"\n")
        return response

    async with serve(handle, tmp_path) as kube, aclosing(kube.stream("/api/v1/pods")) as stream:  # type: ignore[type-var]
        assert [line async for line in stream] == lines


async def test_lines_that_arrive_one_by_one_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would wake the event loop of a leader that is otherwise idle."""
    gathering, go_on = asyncio.Event(), asyncio.Event()
    naps: list[float] = []
    sleep = asyncio.sleep

    async def nap(seconds: float) -> None:
        if seconds == GATHER_SECONDS:
            naps.append(seconds)
            gathering.set()
            await go_on.wait()
        else:
            await sleep(seconds)

    monkeypatch.setattr("activities.kubernetes.transport.asyncio.sleep", nap)

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"0\n")
        await gathering.wait()
        for number in range(1, 50):
            await response.write(b"%d\n" % number)
        go_on.set()
        return response

    async with serve(handle, tmp_path) as kube, aclosing(kube.stream("/api/v1/pods")) as stream:  # type: ignore[type-var]
        assert [int(line) async for line in stream] == list(range(50))
    assert len(naps) <= 3


async def test_a_silent_stream_is_distinguished_from_a_server_that_is_away(tmp_path: Path) -> None:
    """A quiet watch on a healthy server must not look like an outage."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await asyncio.Event().wait()
        return response

    async with (
        serve(handle, tmp_path) as kube,
        aclosing(kube.stream("/api/v1/pods", idle_seconds=0.1)) as stream,  # type: ignore[type-var]
    ):
        with pytest.raises(StreamSilentError):
            assert [line async for line in stream] == [b"one"]


async def test_a_watch_keeps_its_connection_under_observation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that lost power sends nothing, not even an end: only the kernel's probes find out."""
    options: list[tuple[int, int, int]] = []

    def note(_: Any, level: int, option: int, value: int) -> None:
        options.append((level, option, value))

    monkeypatch.setattr(TransportSocket, "setsockopt", note)

    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"one\n")

    async with serve(handle, tmp_path) as kube, aclosing(kube.stream("/api/v1/pods")) as stream:  # type: ignore[type-var]
        assert [line async for line in stream] == [b"one"]
    assert (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) in options


async def test_watches_of_many_nodes_that_start_leave_connections_for_requests(tmp_path: Path) -> None:
    """Each node that binds its pods has a watch, while its requests and those of other nodes go on."""
    all_open = asyncio.Event()
    open_watches = 0

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal open_watches
        if "watch" not in request.query:
            return web.json_response({"metadata": {"name": "n"}})
        response = web.StreamResponse()
        await response.prepare(request)
        open_watches += 1
        if open_watches == 150:
            all_open.set()
        await asyncio.Event().wait()
        return response

    async with serve(handle, tmp_path) as kube, AsyncExitStack() as watches, asyncio.timeout(HANGS_AFTER):
        for number in range(150):
            await watches.enter_async_context(NodePodWatch(kube, f"node-{number}"))
        await all_open.wait()
        assert await kube.get(NODES, "n") is not None


async def test_a_page_where_json_was_asked_for_is_an_error_of_the_api(tmp_path: Path) -> None:
    """A proxy's page with status 200 must not end a process by an error that nobody expects."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"<html>back soon</html>")

    async with serve(handle, tmp_path) as kube:
        with pytest.raises(ApiError, match="back soon"):
            await kube.get(NODES, "n")


async def test_an_unreachable_server_is_named(tmp_path: Path) -> None:
    async with serve(answering({})[0], tmp_path):
        pass  # the port is free again
    kube = await Kube.connect(str(tmp_path / "kubeconfig"))
    with pytest.raises(ApiUnreachableError, match=r"API server at http://127\.0\.0\.1:\d+ cannot be reached"):
        await kube.get(NODES, "n")
    await kube.close()


async def test_without_configuration_one_sentence_says_what_to_set(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match=r"the file .*none does not exist"):
        await Kube.connect()
    monkeypatch.delenv("KUBECONFIG")
    with pytest.raises(ConfigError, match=r"KUBECONFIG is not set, .* Set KUBECONFIG"):
        await Kube.connect()


@pytest.mark.parametrize(
    "raw", [b"\xff\xfe\x82", b"", b"a: b: c", b"[]", b"text", b"{}", b"clusters: {}\ncontexts: 5\n", b"\0"]
)
async def test_an_invalid_kubeconfig_is_reported_in_one_sentence(tmp_path: Path, raw: bytes) -> None:
    file = tmp_path / "kubeconfig"
    file.write_bytes(raw)
    with pytest.raises(ConfigError, match=r"^The Kubernetes client cannot be configured: .+ Set KUBECONFIG") as raises:
        await Kube.connect(str(file))
    assert "\n" not in str(raises.value)


async def test_credentials_of_the_kubeconfig_are_sent(tmp_path: Path) -> None:
    names: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        names.append(request.headers.get("Authorization", ""))
        return web.json_response({})

    assert "secret" in KUBECONFIG
    async with serve(handle, tmp_path) as kube:
        await kube.get(NODES, "n")
    assert names == ["Bearer secret"]


async def test_a_token_that_cannot_be_read_now_is_an_outage_and_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of a service account's token is empty for a moment while it is replaced."""
    async with serve(answering({})[0], tmp_path) as kube:

        async def unreadable(*_: Any) -> None:
            raise ConfigException("Token file exists but empty.")

        monkeypatch.setattr(ApiClient, "update_params_for_auth", unreadable)
        with pytest.raises(ApiUnreachableError, match="exists but empty"):
            await kube.get(NODES, "n")


async def test_a_token_command_that_fails_once_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise the token would run out some minutes later, and with it every call."""
    answers: list[Exception | None] = [ConfigException("exec: aws: exit status 255"), None]

    async def refresh(*_: Any) -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    monkeypatch.setattr(config, "refresh_token", refresh)
    await _keep_refreshed(None, None)
    assert answers == []
    assert any("exit status 255" in str(vars(record).get("error")) for record in caplog.records)


@pytest.mark.parametrize(
    ("spared_hosts", "names"),
    [
        ("", ["proxy"]),
        ("127.0.0.1", ["api"]),
        ("127.0.0.0/8", ["api"]),
        (".internal, fd00::/8, 127.1.2.3/8", ["api"]),
        ("10.0.0.0/8,172.20.0.0/16,fd00::/8", ["proxy"]),
    ],
)
async def test_the_environment_names_the_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spared_hosts: str, names: list[str]
) -> None:
    """An API server that is only reached by a proxy, and one that NO_PROXY spares from it.

    AWS's guide for EKS names the network of Services, because client-go reads networks.
    """
    observations: list[str] = []

    def answers(name: str) -> Any:
        async def handle(_: web.Request) -> web.StreamResponse:
            observations.append(name)
            return web.json_response({"metadata": {"name": "a"}})

        return handle

    for folder in ("proxy", "api"):
        (tmp_path / folder).mkdir()
    async with serve(answers("proxy"), tmp_path / "proxy") as proxy:
        monkeypatch.setenv("http_proxy", proxy.host)
        monkeypatch.setenv("no_proxy", spared_hosts)
        async with serve(answers("api"), tmp_path / "api") as kube:
            assert await kube.get(NODES, "a") is not None
    assert observations == names
