"""An hour of a leader next to EKS Auto Mode: everything that watches the cluster runs, and none of it acts (NC-07)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import replace
from typing import Any, cast

import pytest

from activities.disruption.disrupting import Disruptor
from activities.provisioning.launch_refusals import LaunchRefusals
from tenon.kube.decode import decode_object
from tenon.kube.records import ObjectRecord
from tenon.messages.disruption import AwaitDisruptionInput
from tenon.provisioning.planning_policy import PlanPolicy
from tests.activities.provisioning.fake_view import FakeTypes
from tests.tenon.apis.case import NODEPOOL, edited
from tests.worker.cache.objects import claim, metadata, node, running
from tests.worker.fake_temporal import Cache, FakeTemporal
from worker.cache.planning_view import PlanningView
from worker.controllers.node.nodeclaim_workflows import NodeClaimWorkflowController
from worker.controllers.node.not_ready_nodes import NotReadyNodeController
from worker.controllers.node.pod_events import PodEventsController
from worker.controllers.nodepool.status import NodePoolStatusController
from worker.controllers.provisioning.purchase_turns import PurchaseTurns
from worker.controllers.provisioning.static_nodepool import StaticNodePoolController
from workflows import names

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

HOUR = 3600.0
AUTO_MODE = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}
LONG_AGO = "2026-01-01T00:00:00Z"
OF_POOL = {"labels": {"karpenter.sh/nodepool": "auto"}}
DONE = [
    {"type": kind, "status": "True", "lastTransitionTime": LONG_AGO}
    for kind in ("Launched", "Registered", "Initialized", "Drifted")
]


class Untouched:
    """An API server, or a recorder of events, of which nothing may be asked; ``asked`` is what was."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.requests.append(name)
        raise AssertionError(f"another controller's object was looked at or written: {name}")


def their_pool(name: str, **edits: Any) -> ObjectRecord:
    body = {**edited(NODEPOOL, {"template/spec/nodeClassRef": AUTO_MODE, **edits}), "metadata": metadata(name)}
    return decode_object(json.dumps(body).encode())


def theirs(cache: Cache) -> None:
    """Pools, one of them static, and claims that run empty, start, leave, and lost their instance."""
    for pool in (their_pool("auto", **{"disruption/consolidateAfter": "0s"}), their_pool("fixed", replicas=3)):
        cache.pools.on_event(pool.name, pool)
    spec: dict[str, Any] = {"nodeClassRef": AUTO_MODE, "expireAfter": "1s"}
    leaving = {**OF_POOL, "deletionTimestamp": LONG_AGO, "finalizers": ["karpenter.sh/termination"]}
    cache.publish(
        claim("empty", node_name="empty", status={"conditions": DONE}, meta=OF_POOL, **spec),
        replace(node("empty", meta=OF_POOL), ready=False),
        claim("used", node_name="used", status={"conditions": DONE}, meta=OF_POOL, **spec),
        node("used", meta=OF_POOL, taints=[{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]),
        claim("starting", node_name="", meta=OF_POOL, **spec),
        claim("leaving", node_name="leaving", meta=leaving, **spec),
        node("leaving", meta=leaving),
    )
    pod = running("web", "used")
    cache.pods.on_event(pod.key, pod)


async def test_nc07_an_hour_passes_and_nothing_of_another_controller_is_touched() -> None:
    cache, temporal, untouched, sweeps = Cache(), FakeTemporal(), Untouched(), 0
    kube = cast("Any", untouched)
    theirs(cache)
    view = PlanningView(cache)

    async def sweep() -> None:
        nonlocal sweeps
        sweeps += 1

    async def disrupt() -> None:
        decision = await Disruptor(view).await_candidates(AwaitDisruptionInput(cluster="c", wait_seconds=HOUR))
        assert decision.commands == []

    parts = [
        NodeClaimWorkflowController(cast("Any", temporal), cache, "c").run(),
        NodePoolStatusController(kube, kube, cache, view, static_capacity=True).run(),
        StaticNodePoolController(
            kube, cache, view, FakeTypes(), PlanPolicy(), PurchaseTurns(view), LaunchRefusals()
        ).run(),
        PodEventsController(kube, cache).run(),
        NotReadyNodeController(cache, sweep).run(),
        disrupt(),
    ]
    tasks = [asyncio.create_task(part) for part in parts]
    await asyncio.sleep(HOUR / 2)
    cache.pods.on_event("ns/web", None)
    cache.publish(node("used", meta={**OF_POOL, "deletionTimestamp": LONG_AGO}))
    await asyncio.sleep(HOUR / 2 - 1.0)
    ended = [task for task in tasks if task.done()]
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert ended == []
    assert {started for started, _ in temporal.starts} == {names.provisioner_id("c"), names.disruption_id("c")}
    assert (temporal.signals, sweeps, untouched.requests) == ([], 0, [])
