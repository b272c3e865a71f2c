"""Two replicas of the worker, each behind an API proxy of its own, with one address for both their webhooks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from http.client import HTTPSConnection
from typing import Any

import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import CRDS, NODEPOOLS, SECRETS
from sandbox.cluster import Sandbox
from sandbox.faults.apiproxy import ApiProxy
from tenon.apis.versions.definitions import NAMES, trusted_authorities
from tests.e2e.conftest import MakePool
from tests.e2e.other_worker import in_thread, without
from tests.e2e.pools import SMALL, Pool
from tests.e2e.worker_process import WorkerProcess
from tests.faults.conftest import Observe
from tests.faults.replicas import LEASE_NAMESPACE, Replica, holder, led_by_another, replica
from tests.faults.service import service
from tests.tenon.apis.versions.reviews import claim, review
from tests.workflows.waiting import until
from worker.webhook.secret import SECRET

SILENCE = "4s"
"""How long a watch of these replicas may say nothing."""
OLD_POOLS = replace(NODEPOOLS, version="v1beta1")


@dataclass
class Replicas:
    """Two workers that run."""

    leader: Replica
    standby: Replica

    def swap(self) -> None:
        """The standby leads now."""
        self.leader, self.standby = self.standby, self.leader


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def replicas(sandbox: Sandbox, kube: Kube, worker: WorkerProcess, api: ApiProxy) -> AsyncIterator[Replicas]:
    """Two replicas in place of the package's worker, which is started again afterwards."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(in_thread(without(worker)))
        own = stack.enter_context(ApiProxy.start(sandbox))
        ports = [int(sandbox.worker_env(number)["WEBHOOK_PORT"]) for number in (0, 1)]
        url = f"https://127.0.0.1:{stack.enter_context(service(ports))}"
        first = replica(sandbox, api, 0, WATCH_SILENCE_LIMIT=SILENCE, WEBHOOK_URL=url)
        second = replica(sandbox, own, 1, WATCH_SILENCE_LIMIT=SILENCE, WEBHOOK_URL=url)
        before = await holder(kube)
        try:
            await asyncio.to_thread(first.worker.start)
            await led_by_another(kube, before)
            await asyncio.to_thread(second.worker.start)
            yield Replicas(first, second)
        finally:
            for item in (first, second):
                item.api.clear()
                item.api.release()
                if item.worker.running:
                    await asyncio.to_thread(item.worker.stop)


async def claimed(pool: Pool, count: int) -> None:
    """Wait for so many NodeClaims."""

    async def there() -> bool:
        return len(await pool.claims()) == count

    await until(there)


async def test_a_new_leader_with_a_stalled_watch_buys_nothing_twice(
    replicas: Replicas, make_pool: MakePool, observe: Observe, kube: Kube
) -> None:
    """It saw the pods, but neither that nodes were bought for them nor that they run; and its plans go on."""
    pool = await make_pool(requirements=SMALL)
    async with observe(pool) as observations:
        old = await holder(kube)
        replicas.standby.api.stall_watches("nodeclaims")
        await pool.deploy(2)
        await claimed(pool, 2)
        replicas.standby.api.stall_watches()
        await pool.running(2)
        await asyncio.to_thread(replicas.leader.worker.crash)
        replicas.swap()
        await led_by_another(kube, old)
        await pool.deploy(1, "late")
        await observations.whole(pool)
        assert observations.bought(pool) == 3
        assert len(await pool.claims()) == 3
        replicas.leader.api.release()
        await asyncio.to_thread(replicas.standby.worker.start)
        await pool.scale(0)
        await pool.scale(0, "late")


async def test_a_leader_that_stops_hands_over_at_once(
    replicas: Replicas, make_pool: MakePool, observe: Observe, kube: Kube
) -> None:
    """The Lease is released, not left to run out; what the old leader had begun goes on."""
    pool = await make_pool(requirements=SMALL)
    async with observe(pool) as observations:
        old = await holder(kube)
        await pool.deploy(2)
        await claimed(pool, 2)
        assert await asyncio.to_thread(replicas.leader.worker.stop) == 0
        assert await holder(kube) != old
        replicas.swap()
        await led_by_another(kube, old)
        await pool.deploy(1, "late")
        await observations.whole(pool)
        assert observations.bought(pool) == 3
        await asyncio.to_thread(replicas.standby.worker.start)
        await pool.scale(0)
        await pool.scale(0, "late")


async def test_a_leader_whose_watches_stall_still_serves_pods(
    replicas: Replicas, make_pool: MakePool, observe: Observe, kube: Kube
) -> None:
    """It notices the silence, asks again, and buys what the pods need once."""
    pool = await make_pool(requirements=SMALL)
    async with observe(pool) as observations:
        old = await holder(kube)
        replicas.leader.api.stall_watches()
        await pool.deploy(2)
        await observations.whole(pool)
        assert observations.bought(pool) == 2
        assert await holder(kube) == old
        replicas.leader.api.release()
        await pool.scale(0)


async def bundles(kube: Kube) -> set[bytes]:
    """Whom the API server trusts for conversions."""
    return {b64decode(trusted_authorities(await kube.get(CRDS, name) or {})) for name in NAMES}


async def converting(
    replica: Replica, authority: bytes, meanwhile: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Wait until a replica answers somebody who trusts this authority alone."""

    def asked() -> bool:
        trusted = ssl.create_default_context(cadata=authority.decode())
        connection = HTTPSConnection("127.0.0.1", replica.webhook, timeout=10, context=trusted)
        with contextlib.closing(connection), contextlib.suppress(OSError):
            connection.request("POST", "/convert", body=json.dumps(review(claim("a"))))
            answer: Any = json.loads(connection.getresponse().read())
            return bool(answer["response"]["result"]["status"] == "Success")
        return False

    async def answers() -> bool:
        if meanwhile is not None:
            await meanwhile()
        return await asyncio.to_thread(asked)

    await until(answers)


def newest(bundle: bytes) -> bytes:
    """The authority of the certificate that was made last."""
    return x509.load_pem_x509_certificates(bundle)[0].public_bytes(Encoding.PEM)


async def test_ops05_v1beta1_outlives_the_leader_and_the_certificate(
    replicas: Replicas, make_pool: MakePool, kube: Kube
) -> None:
    """V1B-01: both replicas convert. The leader is killed, the certificate lost and made again: no request fails."""
    pool = await make_pool(ready=False)
    before: set[bytes] = set()

    async def trusted_alike() -> bool:
        before.clear()
        before.update(await bundles(kube))
        return len(before) == 1

    await until(trusted_alike)
    (authorities,) = before
    for leader in (replicas.leader, replicas.standby):
        await converting(leader, newest(authorities))
    await asyncio.to_thread(replicas.leader.worker.crash)
    replicas.swap()

    async def served() -> bool:
        with contextlib.suppress(ApiError):  # a request that was under way as the replica died
            return await kube.get(OLD_POOLS, pool.name) is not None
        return False

    await until(served)
    await kube.patch(SECRETS, SECRET, {"data": None}, namespace=LEASE_NAMESPACE)
    weight = 0

    async def every_request_succeeds() -> None:
        nonlocal weight
        weight = weight % 9 + 1
        await kube.patch(OLD_POOLS, pool.name, {"spec": {"weight": weight}})
        old_pool = await kube.get(OLD_POOLS, pool.name)
        assert old_pool is not None
        assert old_pool["spec"]["weight"] == weight

    renewed = b""

    async def trusted_anew() -> bool:
        nonlocal renewed
        await every_request_succeeds()
        result = await bundles(kube)
        if len(result) == 1 and result != before:
            (renewed,) = result
        return bool(renewed)

    await until(trusted_anew)
    assert newest(authorities) in renewed, "who still serves with the old certificate is trusted too"

    await converting(replicas.leader, newest(renewed), meanwhile=every_request_succeeds)
    await asyncio.to_thread(replicas.standby.worker.start)
    await converting(replicas.standby, newest(renewed), meanwhile=every_request_succeeds)
