"""OPS-04: writes that wait for their turn when Tenon begins to stand by are never sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from activities.gate import Gate, StandingByError
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiUnreachableError
from activities.kubernetes.rate_limit import RequestClass
from activities.kubernetes.resources import NODECLAIMS, NODES, PODS
from tests.activities.kubernetes.fake_api import serve

pytestmark = pytest.mark.integration

RIVAL = "Karpenter (karpenter-7d_1f) leads by the Lease kube-system/karpenter-leader-election, and Tenon stands by"
CALLS = 40

Write = Callable[[Kube], Awaitable[Any]]
WRITES: dict[str, Write] = {
    "evict": lambda kube: kube.evict("shop", "web", uid="u"),
    "delete a pod": lambda kube: kube.delete(PODS, "web", namespace="shop", grace_seconds=0),
    "bind": lambda kube: kube.bind("shop", "web", "node", "u"),
    "cordon": lambda kube: kube.patch(NODES, "node", {"spec": {"unschedulable": True}}),
    "create": lambda kube: kube.create(NODECLAIMS, {"metadata": {"name": "a"}}),
    "delete": lambda kube: kube.delete(NODECLAIMS, "a"),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_ops04_no_write_that_waits_in_the_limiter_is_sent_in_a_stand_by(write: Write, tmp_path: Path) -> None:
    received: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        received.append(request.method)
        return web.json_response({"metadata": {}})

    async with serve(answer, tmp_path, gate=(gate := Gate())) as kube:
        kube._limit.pause(3600)  # no request gets its turn
        writes = [asyncio.ensure_future(write(kube)) for _ in range(CALLS)]
        reading = asyncio.ensure_future(kube.get(NODES, "node"))
        await asyncio.sleep(0)
        gate.close(RIVAL)
        kube._limit._paused_until = dict.fromkeys(RequestClass, float("-inf"))
        kube._limit._serve()
        for item in await asyncio.gather(*writes, return_exceptions=True):
            assert isinstance(item, StandingByError)
            assert isinstance(item, ApiUnreachableError), "callers handle it like an outage"
            assert str(item).startswith("Nothing was sent to the Kubernetes API server at http")
            assert RIVAL in str(item)
        await reading
        assert received == ["GET"]
        await kube.without_gate().patch(NODES, "node", {"spec": {}})
        assert received == ["GET", "PATCH"], "startup cordons and events go on"
        gate.open()
        await write(kube)
        assert len(received) == 3
