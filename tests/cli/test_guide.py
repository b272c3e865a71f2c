"""A whole switch on an API server in memory, in virtual time; a part of the test is the pods of both Deployments."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from activities.clock import utc_now
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import DEPLOYMENTS, LEASES, NODECLAIMS, NODEPOOLS, PODS, Resource
from cli.switching.deployments import replicas_of
from cli.switching.guide import Guide
from cli.switching.leases import LeaseWatch
from cli.switching.memory import Memory
from cli.switching.observing import Watcher
from tenon.apis.hashing import NODEPOOL_VERSION
from tenon.migration.switch import Direction, Switch, SwitchPhase
from tests.activities.node.fake_kube import START, Clock
from tests.cli.test_switching import KARPENTER, LEASE, TENON, Cluster, deployment
from worker.runtime.temporal.temporal_client import TemporalError

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

VERSION = "karpenter.sh/nodepool-hash-version"


class Flaky(Cluster):
    """An API server that answers with 500 for a while, as while no webhook converts objects."""

    failures = 0

    async def list(self, resource: Resource, **query: Any) -> list[dict[str, Any]]:
        if resource.plural == "nodepools" and self.failures:
            self.failures -= 1
            raise ApiError(500, "InternalError", "conversion webhook failed")
        return await super().list(resource, **query)


@dataclass
class World:
    """Pods follow Deployments, and who runs and may lead renews its Lease every two seconds."""

    kube: Flaky
    tenon_works: bool = True
    installed: bool = False
    cleared: bool = False
    lines: list[str] = field(default_factory=list)

    def replicas(self, namespace: str, name: str) -> int:
        return replicas_of(self.kube.objects[("deployments", namespace, name)])

    @asynccontextmanager
    async def turning(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._turn())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _turn(self) -> None:
        while True:
            karpenter_runs = self._follow("kube-system", "karpenter")
            tenon_runs = self._follow("tenon", "tenon")
            if karpenter_runs:
                self._renew("kube-system", "karpenter-pod_1")
            elif tenon_runs and self.tenon_works:
                self._renew("tenon", "tenon/1")
                self._take_over()
            await asyncio.sleep(2)

    def _follow(self, namespace: str, name: str) -> bool:
        body = self.kube.objects[("deployments", namespace, name)]
        body["status"] = {"availableReplicas": replicas_of(body)}
        if replicas_of(body):
            labels = {"app.kubernetes.io/name": name}
            metadata = {"name": f"{name}-pod", "namespace": namespace, "labels": labels}
            self.kube.add(PODS, {"metadata": metadata, "spec": {}})
        else:
            self.kube.objects.pop(("pods", namespace, f"{name}-pod"), None)
        return bool(replicas_of(body))

    def _renew(self, namespace: str, holder: str) -> None:
        at = str(asyncio.get_running_loop().time())
        spec = {"holderIdentity": holder, "renewTime": at, "leaseDurationSeconds": 15}
        self.kube.add(LEASES, {"metadata": {"name": LEASE, "namespace": namespace}, "spec": spec})

    def _take_over(self) -> None:
        for (plural, _, _), body in self.kube.objects.items():
            if plural in ("nodepools", "nodeclaims"):
                body["metadata"]["annotations"] = {VERSION: NODEPOOL_VERSION}

    def guide(self, direction: Direction, now: datetime | None = None, *, stop_first: bool = False) -> Guide:
        now = now or utc_now()
        begun = Switch(direction, 2, 2, timedelta(), timedelta(minutes=10), now, now, stop_first)
        watcher = Watcher(self.kube, KARPENTER, TENON, LeaseWatch(self.kube, clock=asyncio.get_running_loop().time))  # type: ignore[arg-type]

        async def clear() -> None:
            assert self.replicas("tenon", "tenon") == 0
            self.cleared = True

        async def install() -> None:
            assert self.replicas("kube-system", "karpenter") == self.replicas("tenon", "tenon") == 0
            self.installed = True

        memory = Memory(begun, str(KARPENTER), {"a": "i-1"})
        return Guide(self.kube, watcher, memory, self.lines.append, clear, install)  # type: ignore[arg-type]


def world(karpenter: int, tenon: int) -> World:
    kube = Flaky(Clock())
    for namespace, name, count in (("kube-system", "karpenter", karpenter), ("tenon", "tenon", tenon)):
        body = deployment(namespace, name, name)
        body["spec"]["replicas"] = count
        kube.add(DEPLOYMENTS, body)
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    metadata = {"name": "web", "annotations": {VERSION: "v3"}}
    kube.add(NODEPOOLS, {"metadata": metadata, "spec": {}, "status": ready})
    status = {"providerID": "aws:///us-west-2a/i-1", "conditions": [{"type": "Initialized", "status": "True"}]}
    claim = {"name": "a", "labels": {"karpenter.sh/nodepool": "web"}, "annotations": {VERSION: "v3"}}
    kube.add(NODECLAIMS, {"metadata": claim, "spec": {}, "status": status})
    return World(kube)


async def test_a_takeover_ends_when_tenon_has_every_nodepool_and_nodeclaim() -> None:
    cluster = world(karpenter=2, tenon=2)
    guide = cluster.guide(Direction.TAKEOVER)
    async with cluster.turning():
        assert await guide.run()
    assert guide.memory.switch.phase is SwitchPhase.DONE
    assert cluster.replicas("kube-system", "karpenter") == 0
    changes = await guide.differences()
    assert changes is not None
    assert changes.is_empty
    assert not cluster.cleared


async def test_from_v1beta1_the_crds_are_installed_between_both_and_a_webhook_may_be_late() -> None:
    cluster = world(karpenter=2, tenon=0)
    cluster.kube.failures = 3
    guide = cluster.guide(Direction.TAKEOVER, stop_first=True)
    async with cluster.turning():
        assert await guide.run()
    assert guide.memory.switch.phase is SwitchPhase.DONE
    assert cluster.installed
    assert cluster.replicas("tenon", "tenon") == 2
    assert any("conversion webhook failed" in line for line in cluster.lines)


async def test_a_handback_clears_between_both() -> None:
    cluster = world(karpenter=0, tenon=2)
    guide = cluster.guide(Direction.HANDBACK)
    async with cluster.turning():
        assert await guide.run()
    assert guide.memory.switch.phase is SwitchPhase.DONE
    assert cluster.cleared
    assert cluster.replicas("kube-system", "karpenter") == 2
    assert cluster.replicas("tenon", "tenon") == 0


@pytest.mark.parametrize("error", [TemporalError("Temporal is away."), ApiError(403, "Forbidden", "may not patch")])
async def test_a_handback_that_cannot_clear_waits_and_goes_back(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def virtual_now() -> datetime:
        return START + timedelta(seconds=asyncio.get_running_loop().time())

    for module in ("guide", "observing"):
        monkeypatch.setattr(f"cli.switching.{module}.utc_now", virtual_now)
    cluster = world(karpenter=0, tenon=2)
    guide = cluster.guide(Direction.HANDBACK, virtual_now())

    async def clear() -> None:
        raise error

    guide.clear = clear
    async with cluster.turning():
        assert await guide.run()
    assert guide.memory.switch.phase is SwitchPhase.RETURNED
    assert (cluster.replicas("kube-system", "karpenter"), cluster.replicas("tenon", "tenon")) == (0, 2)
    why = str(error).rstrip(".")
    assert guide.memory.switch.why_back == f"{why} after 10m"
    assert cluster.lines.count(f"Waiting: {why}.") == 1


async def test_a_refusal_of_the_api_server_ends_the_guide() -> None:
    cluster = world(karpenter=2, tenon=2)
    guide = cluster.guide(Direction.TAKEOVER)

    async def forbidden(*_: Any, **__: Any) -> None:
        raise ApiError(403, "Forbidden", "may not scale")

    async with cluster.turning():
        await asyncio.sleep(3)
        cluster.kube.patch = forbidden  # type: ignore[method-assign]
        with pytest.raises(ApiError, match="may not scale"):
            await guide.run()
