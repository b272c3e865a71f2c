"""The proxy before the API server, on a small server in its place: what is withheld, failed and seen."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import psutil
import pytest
import yaml
from aiohttp import web

from sandbox import credentials, kubeconfig
from sandbox.cluster import Sandbox
from sandbox.faults.apiproxy import ApiProxy
from sandbox.layout import Layout
from sandbox.status import Addresses
from tests.workflows.waiting import until

pytestmark = pytest.mark.integration

CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
PODS = "/api/v1/pods"


@dataclass
class Cluster:
    """An API server that only counts, and the proxy before it."""

    sandbox: Sandbox
    proxy: ApiProxy
    http: aiohttp.ClientSession
    created: int = 0
    headers: list[dict[str, str]] = field(default_factory=list)
    event: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        if request.query.get("watch") == "1":
            stream = web.StreamResponse(headers={"Content-Type": "application/json"})
            await stream.prepare(request)
            await stream.write(b"first\n")
            await self.event.wait()
            await stream.write(b"second\n")
            return stream
        if request.method == "POST":
            self.created += 1
        return web.json_response({"path": request.path, "query": request.query_string, "created": self.created})

    def post(self, path: str = CLAIMS) -> asyncio.Task[tuple[int, Any]]:
        return asyncio.create_task(self.call("POST", path, json={"kind": "NodeClaim"}))

    async def call(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        async with self.http.request(method, self.proxy.endpoint + path, **more) as answer:
            return answer.status, await answer.json()

    async def held(self, count: int) -> None:
        async def reached() -> bool:
            return await asyncio.to_thread(self.proxy.held) == count

        await until(reached)


Running = tuple[Sandbox, ApiProxy, aiohttp.ClientSession, list[Cluster]]


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """One server and one proxy for all tests here; the last of the list answers."""
    layout = Layout.at(tmp_path_factory.mktemp("proxied"))
    layout.prepare()
    credentials.create(layout, "https://127.0.0.1:1")
    authority = layout.pki / "ca.crt"
    identity = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    identity.load_cert_chain(layout.pki / "server.crt", layout.pki / "server.key")
    kubeconfig.with_token(layout.worker_kubeconfig, "https://127.0.0.1:1", authority.read_bytes(), "secret", "tenon")
    clusters: list[Cluster] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        return await clusters[-1].answer(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=identity).start()
    server = f"https://127.0.0.1:{runner.addresses[0][1]}"
    sandbox = Sandbox(layout, Addresses(kubernetes=server, temporal="t", temporal_ui="u"))
    trust = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(authority)))
    with ApiProxy.start(sandbox) as proxy:
        async with aiohttp.ClientSession(connector=trust) as http:
            yield sandbox, proxy, http, clusters
    await runner.cleanup()


@pytest.fixture
def cluster(running: Running) -> Cluster:
    """A cluster that was asked nothing yet, behind a proxy that does nothing yet."""
    sandbox, proxy, http, clusters = running
    proxy.clear()
    proxy.clear_calls()
    clusters.append(Cluster(sandbox, proxy, http))
    return clusters[-1]


async def test_requests_pass_with_their_query_and_identity(cluster: Cluster) -> None:
    document = yaml.safe_load(cluster.proxy.kubeconfig.read_text())
    assert document["clusters"][0]["cluster"]["server"] == cluster.proxy.endpoint
    assert cluster.proxy.kubeconfig.stat().st_mode & 0o077 == 0
    headers = {"Authorization": f"Bearer {document['users'][0]['user']['token']}", "User-Agent": "tenon"}
    status, body = await cluster.call("GET", f"{PODS}?labelSelector=a%3Db&limit=5", headers=headers)
    assert (status, body["path"], body["query"]) == (200, PODS, "labelSelector=a%3Db&limit=5")
    assert cluster.headers[0]["Authorization"] == "Bearer secret"
    call = cluster.proxy.calls("GET", "/pods$")[0]
    assert (call["status"], call["user_agent"], call["path"]) == (200, "tenon", PODS)
    assert cluster.proxy.calls("POST") == []


async def test_a_delayed_watch_sends_everything_late_and_in_order(cluster: Cluster) -> None:
    """Another resource's watch is on time. A delay that ends applies no more to what arrives later."""
    url = f"{cluster.proxy.endpoint}{CLAIMS}?watch=1"
    cluster.proxy.delay_watches("nodeclaims", 600)
    assert cluster.proxy.rules()["delays"] == {"nodeclaims": 600}
    async with cluster.http.get(url) as late, cluster.http.get(f"{cluster.proxy.endpoint}{PODS}?watch=1") as pods:
        cluster.event.set()
        assert await pods.content.read() == b"first\nsecond\n"
        assert late.content.total_bytes == 0
    cluster.proxy.delay_watches("nodeclaims", 0.01)
    async with cluster.http.get(url) as late:
        assert await late.content.read() == b"first\nsecond\n"


async def test_a_stalled_watch_stays_open_and_silent_until_it_is_released(cluster: Cluster) -> None:
    """An existing and a new stream of the resource; another resource's and other requests pass."""
    url = f"{cluster.proxy.endpoint}{CLAIMS}?watch=1"
    async with cluster.http.get(url) as old:
        assert await old.content.readline() == b"first\n"
        cluster.proxy.stall_watches("nodeclaims")
        async with cluster.http.get(url) as new, cluster.http.get(f"{cluster.proxy.endpoint}{PODS}?watch=1") as pods:
            cluster.event.set()
            assert await pods.content.read() == b"first\nsecond\n"
            assert (await cluster.call("GET", CLAIMS))[0] == 200
            assert not old.content.is_eof()
            assert old.content.total_bytes == len(b"first\n")
            assert new.content.total_bytes == 0
            cluster.proxy.release()
            assert await old.content.read() == b"second\n"
            assert await new.content.read() == b"first\nsecond\n"


async def test_a_request_held_before_its_effect_has_none_until_it_is_released(cluster: Cluster) -> None:
    cluster.proxy.hold("POST", "/nodeclaims$")
    first = cluster.post()
    await cluster.held(1)
    assert cluster.created == 0
    assert (await cluster.post())[0] == 200, "only one was to be held"
    assert (await cluster.call("GET", CLAIMS))[1]["created"] == 1
    cluster.proxy.release()
    assert (await first)[1]["created"] == 2


async def test_a_watch_that_was_held_streams_once_it_is_released(cluster: Cluster) -> None:
    cluster.proxy.hold("WATCH", "/nodeclaims$")
    watch = asyncio.create_task(cluster.http.get(f"{cluster.proxy.endpoint}{CLAIMS}?watch=1").__aenter__())
    await cluster.held(1)
    assert cluster.headers == []
    cluster.proxy.release()
    async with await watch as stream:
        assert await stream.content.readline() == b"first\n"


async def test_a_request_held_after_its_effect_has_happened(cluster: Cluster) -> None:
    cluster.proxy.hold("POST", "/nodeclaims$", after_effect=True)
    waiting = cluster.post()
    await cluster.held(1)
    assert cluster.created == 1
    assert cluster.proxy.calls("POST")[0]["status"] == 200
    cluster.proxy.release()
    assert (await waiting)[0] == 200


async def test_a_held_request_whose_client_goes_away_never_arrives(cluster: Cluster) -> None:
    cluster.proxy.hold("POST", "/nodeclaims$")
    waiting = cluster.post()
    await cluster.held(1)
    waiting.cancel()
    await cluster.held(0)
    cluster.proxy.release()
    assert (await cluster.post())[1]["created"] == 1


async def test_a_fault_is_kubernetes_own_error_before_or_after_the_effect(cluster: Cluster) -> None:
    cluster.proxy.fault("POST", "/eviction$", status=429, reason="TooManyRequests", message="the budget says no")
    status, body = await cluster.post(f"{PODS}/a/eviction")
    assert (status, body["kind"], body["reason"], body["code"]) == (429, "Status", "TooManyRequests", 429)
    assert body["message"] == "the budget says no"
    assert cluster.created == 0
    cluster.proxy.fault("POST", CLAIMS, status=500, reason="InternalError", after_effect=True, count=None)
    assert [(await cluster.post())[0] for _ in range(2)] == [500, 500]
    assert cluster.created == 2
    cluster.proxy.clear()
    assert (await cluster.post())[0] == 200


async def test_two_proxies_do_not_share_their_faults_and_end_when_they_are_closed(cluster: Cluster) -> None:
    with ApiProxy.start(cluster.sandbox) as other:
        other.fault("", "", status=503, count=None)
        assert (await cluster.post())[0] == 200
        own = other.kubeconfig
    assert not own.exists()
    with pytest.raises(OSError, match="refused"):
        other.held()


async def test_a_server_that_is_gone_looks_gone(cluster: Cluster) -> None:
    """No answer is invented: a client sees its connection end."""
    dead = Sandbox(cluster.sandbox.layout, Addresses(kubernetes="https://127.0.0.1:1", temporal="t", temporal_ui="u"))
    with ApiProxy.start(dead) as proxy:
        with pytest.raises(aiohttp.ClientError):
            await cluster.http.get(f"{proxy.endpoint}{PODS}")
        assert proxy.calls()[0]["status"] == 0


async def test_an_invalid_fault_is_explained(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="status 200 is not an error"):
        cluster.proxy.fault("GET", "", status=200)
    with pytest.raises(ValueError, match="not a regular expression"):
        cluster.proxy.hold("GET", "(")


async def test_the_proxy_ends_with_the_process_that_started_it(cluster: Cluster) -> None:
    with ApiProxy.start(cluster.sandbox) as own:
        process = psutil.Process(own._process.pid)
        assert own._process.stdin is not None
        own._process.stdin.close()  # what the kernel does for an owner that is killed
        _, alive = await asyncio.to_thread(psutil.wait_procs, [process], 30)
        assert not alive
