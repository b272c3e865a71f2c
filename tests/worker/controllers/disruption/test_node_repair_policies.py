"""The controller of NodeRepairPolicies with a simulated API server."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from activities.disruption.repair_source import stated_repair
from activities.kubernetes.errors import NotFoundError
from activities.kubernetes.resources import NODEREPAIRPOLICIES, Resource
from tenon.apis.noderepairpolicy import BUILT_IN
from tenon.kube.decode import decode_object
from tests.tenon.apis.case import NODEPOOL, edited
from tests.tenon.apis.sample_repair_policy import BASE, FAULT
from tests.worker.background import in_background
from tests.worker.cache.objects import claim, metadata, node
from tests.worker.fake_temporal import Cache
from worker.cache.planning_view import PlanningView
from worker.controllers.disruption.node_repair_policies import RETRY, NodeRepairPolicyController

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

MOMENT = 12.0
"""More than the controller lets changes settle, and pauses between two looks."""
ML = {"matchLabels": {"team": "ml"}}


class Server:
    """Merges writes of policies into the cache, as a watch would."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.writes: list[tuple[str, str]] = []
        self.is_served = True

    async def create(self, resource: Resource, body: dict[str, Any]) -> None:
        assert resource == NODEREPAIRPOLICIES
        if not self.is_served:
            raise NotFoundError(404, "NotFound", "the server could not find the requested resource")
        self.writes.append(("create", body["metadata"]["name"]))
        self.put({"apiVersion": "tenon.sh/v1alpha1", "kind": "NodeRepairPolicy", **body})

    async def patch(
        self, resource: Resource, name: str, patch: Any, *, subresource: str = "", kind: str = "merge"
    ) -> None:
        assert resource == NODEREPAIRPOLICIES
        self.writes.append((subresource or "patch", name))
        present = self.cache.repair_policies.get(name)
        assert present is not None
        if kind == "json":
            (operation,) = patch
            assert (operation["op"], operation["path"]) == ("replace", "/spec")
            self.put({**present.body, "spec": operation["value"]})
            return
        part = "status" if subresource else "spec"
        body = copy.deepcopy(dict(present.body))
        self.put(body | {part: {**body.get(part, {}), **patch[part]}})

    def put(self, body: dict[str, Any]) -> None:
        name = body["metadata"]["name"]
        before = self.cache.repair_policies.get(name)
        is_edited = before is None or before.body["spec"] != body["spec"]
        generation = (0 if before is None else before.body["metadata"]["generation"]) + is_edited
        whole = {**body, "metadata": metadata(name, generation=generation)}
        self.cache.repair_policies.on_event(name, decode_object(json.dumps(whole).encode()))

    def policy(self, name: str, **spec: Any) -> None:
        self.put(edited(BASE, spec) | {"metadata": {"name": name}})

    def status(self, name: str) -> dict[str, Any]:
        record = self.cache.repair_policies.get(name)
        assert record is not None
        return dict(record.status)

    def condition(self, name: str, type_: str = "Ready") -> tuple[str, str]:
        (condition,) = [item for item in self.status(name)["conditions"] if item["type"] == type_]
        return condition["status"], condition["message"]


@contextlib.asynccontextmanager
async def keeping(*, is_served: bool = True) -> AsyncIterator[tuple[Cache, Server]]:
    cache = Cache()
    server = Server(cache)
    server.is_served = is_served
    for name, labels in (("ml", {"team": "ml"}), ("plain", dict[str, str]())):
        pool = {**NODEPOOL, "metadata": metadata(name, generation=1, labels=labels)}
        cache.pools.on_event(name, decode_object(json.dumps(pool).encode()))
    view = PlanningView(cache)
    source = stated_repair(view.repair_policies, view.node_pools, reboots=True)
    controller = NodeRepairPolicyController(cast("Any", server), cache, view, source)
    async with in_background(controller.run()):
        await asyncio.sleep(MOMENT)
        yield cache, server


def join(cache: Cache, name: str, pool: str, type_: str, status: str, reason: str = "Test") -> None:
    """Let a node of a NodePool join, with this condition."""
    since = "2026-03-01T12:00:00Z"
    condition = {"type": type_, "status": status, "reason": reason, "lastTransitionTime": since}
    cache.claims.on_event(
        name, claim(name, node_name=name, initialized=since, meta={"labels": {"karpenter.sh/nodepool": pool}})
    )
    cache.nodes.on_event(name, node(name, conditions=[condition]))


async def test_the_built_in_policies_are_an_object_that_stays_as_it_is() -> None:
    async with keeping() as (cache, server):
        assert server.writes[0] == ("create", BUILT_IN)
        record = cache.repair_policies.get(BUILT_IN)
        assert record is not None
        conditions = {fault["conditionType"] for fault in record.body["spec"]["faults"]}
        assert {"Ready", "AcceleratedHardwareReady", "StorageReady"} <= conditions
        all_edits: list[dict[str, Any]] = [{"faults": []}, {"weight": 5, "nodePoolSelector": ML}]
        for edits in all_edits:
            server.put({**record.body, "spec": {**record.body["spec"], **edits}})
            await asyncio.sleep(MOMENT)
            restored = cache.repair_policies.get(BUILT_IN)
            assert restored is not None
            assert restored.body["spec"] == record.body["spec"]
        written = list(server.writes)
        await asyncio.sleep(24 * 3600)
        assert server.writes == written, "what is as it should be is not written again"


async def test_without_the_definition_nothing_is_written_and_nothing_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An upgrade of a Helm chart does not install new definitions. The cache says so once. They may come later."""
    async with keeping(is_served=False) as (_, server):
        await asyncio.sleep(3600)
        assert server.writes == []
        assert not caplog.records
        server.is_served = True
        await asyncio.sleep(RETRY + MOMENT)
        assert server.writes[0] == ("create", BUILT_IN), "the definition was installed meanwhile"


async def test_a_status_counts_the_nodepools_of_a_policy_and_the_nodes_that_it_matches() -> None:
    async with keeping() as (cache, server):
        server.policy("kernel", nodePoolSelector=ML)
        join(cache, "deadlocked", "ml", "KernelDeadlock", "True")
        join(cache, "healthy", "ml", "KernelDeadlock", "False")
        join(cache, "elsewhere", "plain", "KernelDeadlock", "True")
        join(cache, "broken-disk", "plain", "StorageReady", "False")
        await asyncio.sleep(MOMENT)
        assert server.condition("kernel")[0] == "True"
        assert (server.status("kernel")["nodePools"], server.status("kernel")["matchingNodes"]) == (1, 1)
        assert (server.status(BUILT_IN)["nodePools"], server.status(BUILT_IN)["matchingNodes"]) == (1, 1)


async def test_an_invalid_policy_says_what_is_wrong_and_stops_no_other() -> None:
    async with keeping() as (_, server):
        server.policy("broken", nodePoolSelector=ML, faults=[FAULT | {"reasonRegex": "("}])
        server.policy("kernel", weight=1)
        await asyncio.sleep(MOMENT)
        status, message = server.condition("broken", "ValidationSucceeded")
        assert status == "False"
        assert message.startswith("spec.faults[0].reasonRegex: '(' is not a regular expression")
        assert server.condition("kernel")[0] == "True"
        server.policy("broken", nodePoolSelector=ML)
        await asyncio.sleep(MOMENT)
        assert server.condition("broken")[0] == "True"
