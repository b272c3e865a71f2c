"""The least that any nodes could cost for the pods that run: what the leader compares the bill with."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tenon.apis import labels
from tenon.kube.decode import decode_object
from tenon.provisioning.planning_policy import PlanPolicy
from tests.activities.provisioning.fake_view import READY, FakeTypes
from tests.tenon.apis.case import EC2NODECLASS, NODEPOOL
from tests.tenon.scheduling.builders import catalog, entry
from tests.worker.cache.objects import claim, metadata, node, owned_by, running
from tests.worker.fake_temporal import Cache
from worker.cache.planning_view import PlanningView
from worker.controllers.cost.lower_bound import LowerBound

TYPES = catalog(
    entry("m5.large", 2, 8, 0.1, zones=["us-west-2a"]), entry("m5.xlarge", 4, 16, 0.2, zones=["us-west-2a"])
)
SPOT_PRICE = 0.08
"""Of an m5.xlarge, which has room for three pods of a CPU next to what the system takes; an m5.large has it for one."""


class Types(FakeTypes):
    """Only `TYPES`."""

    def instance_types(self, *_: Any, **__: Any) -> Any:
        return TYPES


def a_cluster(*, has_pool: bool = True) -> Cache:
    cache = Cache()
    if has_pool:
        ready = {**EC2NODECLASS, "metadata": metadata("default"), "status": {"conditions": [READY]}}
        cache.nodeclasses.on_event("default", decode_object(json.dumps(ready).encode()))
        pool = {**copy.deepcopy(NODEPOOL), "metadata": metadata("default", generation=1)}
        pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "default"
        cache.pools.on_event("default", decode_object(json.dumps(pool).encode()))
    marks = {labels.NODEPOOL: "default"}
    cache.publish(claim(meta={"labels": marks}, status={"providerID": "aws:///us-west-2a/i-n"}), node("n", cpu="64"))
    return cache


def add_pods(cache: Cache, count: int, node_name: str = "n", **options: Any) -> None:
    for _ in range(count):
        pod = running(f"p{len(cache.pods)}", node_name, **options)
        cache.pods.on_event(pod.key, pod)


async def bound(cache: Cache) -> float | None:
    return await LowerBound(PlanningView(cache), Types(), PlanPolicy()).compute()


async def test_the_bound_is_what_new_nodes_would_cost_whatever_the_pods_run_on() -> None:
    """The node of 64 CPU does not count as free room."""
    cache = a_cluster()
    add_pods(cache, 4)
    assert await bound(cache) == pytest.approx(4 / 3 * SPOT_PRICE)


async def test_only_pods_that_could_move_count() -> None:
    cache = a_cluster()
    add_pods(cache, 2)
    before = await bound(cache)
    add_pods(cache, 3, meta=owned_by("DaemonSet"))
    add_pods(cache, 3, status={"phase": "Succeeded"})
    add_pods(cache, 3, "of-somebody-else")
    assert await bound(cache) == before
    add_pods(cache, 2)
    assert await bound(cache) == pytest.approx(2 * (before or 0.0))


async def test_without_a_usable_nodepool_there_is_no_bound() -> None:
    assert await bound(a_cluster(has_pool=False)) is None
