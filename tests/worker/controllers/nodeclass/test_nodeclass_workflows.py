"""Which EC2NodeClasses get a workflow, and when it is poked, with a Temporal that only remembers what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from temporalio.client import Client

from tenon.apis import labels
from tenon.apis.labels import NODECLASS_FINALIZER
from tenon.kube.decode import decode_object
from tenon.kube.records import ObjectRecord
from tests.worker.background import in_background
from tests.worker.cache.objects import claim, metadata
from tests.worker.fake_temporal import MOMENT, UNAVAILABLE, Cache, FakeTemporal
from worker.controllers.nodeclass.nodeclass_workflows import RESTART_SECONDS, NodeClassWorkflowController
from workflows import names

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

WORKFLOW = names.nodeclass_id("c", "default")


@contextlib.asynccontextmanager
async def bridged(cache: Cache, temporal: FakeTemporal) -> AsyncIterator[None]:
    """A running controller that has seen all classes."""
    async with in_background(NodeClassWorkflowController(cast("Client", temporal), cache, "c").run()):
        await asyncio.sleep(MOMENT)
        yield


def node_class(name: str, generation: int, **meta: Any) -> ObjectRecord:
    return decode_object(json.dumps({"metadata": metadata(name, generation=generation, **meta), "spec": {}}).encode())


async def test_a_node_class_is_looked_at_when_its_spec_changed_only() -> None:
    """Our own writes of its status must not wake its workflow."""
    cache, temporal = Cache(), FakeTemporal()
    cache.nodeclasses.on_event("default", node_class("default", 1))
    async with bridged(cache, temporal):
        for generation in (1, 1, 2):
            cache.nodeclasses.on_event("default", node_class("default", generation))
            await asyncio.sleep(MOMENT)
        # Once at first sight, for it may have changed while nobody led, and once for the new generation.
        assert [signal for result, signal, _ in temporal.signals if result == WORKFLOW] == ["poke", "poke"]


@pytest.mark.parametrize("annotation", [labels.TEARDOWN, labels.NVIDIA_CONSUMABLE_CAPACITY])
async def test_a_node_class_is_resolved_when_an_annotation_changes_that_its_status_follows(annotation: str) -> None:
    """An annotation leaves the generation as it is."""
    cache, temporal = Cache(), FakeTemporal()
    cache.nodeclasses.on_event("default", node_class("default", 1, annotations={annotation: "memory"}))
    async with bridged(cache, temporal):
        for annotations in ({"other": "x"}, {}, {annotation: "memory"}):
            cache.nodeclasses.on_event("default", node_class("default", 1, annotations=annotations))
            await asyncio.sleep(MOMENT)
        assert [result for result, _, _ in temporal.signals].count(WORKFLOW) == 3, "at first sight, removed, added"


async def test_a_node_class_whose_finalizer_was_wiped_is_looked_at() -> None:
    """`kubectl replace` takes what the manifest does not name, and leaves the generation as it is."""
    cache, temporal = Cache(), FakeTemporal()
    cache.nodeclasses.on_event("default", node_class("default", 1, finalizers=[NODECLASS_FINALIZER]))
    async with bridged(cache, temporal):
        cache.nodeclasses.on_event("default", node_class("default", 1))
        await asyncio.sleep(MOMENT)
        assert [result for result, _, _ in temporal.signals].count(WORKFLOW) == 2
        cache.nodeclasses.on_event("default", node_class("default", 1, finalizers=[NODECLASS_FINALIZER]))
        await asyncio.sleep(MOMENT)
        assert [result for result, _, _ in temporal.signals].count(WORKFLOW) == 2, "our own write wakes no workflow"


async def test_ecs11_a_deleted_node_class_is_reconciled_when_its_last_claim_is_gone() -> None:
    """Its own workflow looks once a minute only; claims of other classes are nothing to it."""
    cache, temporal = Cache(), FakeTemporal()
    for name, of_class in (("a", "default"), ("b", "default"), ("c", "other")):
        cache.publish(claim(name, nodeClassRef={"name": of_class}))
    cache.nodeclasses.on_event("default", node_class("default", 1))
    async with bridged(cache, temporal):
        cache.nodeclasses.on_event("default", node_class("default", 2, deletionTimestamp="2026-11-21T12:00:00Z"))
        pokes = []
        for name in ("c", "a", "b"):
            await asyncio.sleep(MOMENT)
            pokes.append([result for result, _, _ in temporal.signals].count(WORKFLOW))
            cache.claims.on_event(name, None)
        await asyncio.sleep(MOMENT)
        assert pokes == [2, 2, 2]
        assert [result for result, _, _ in temporal.signals].count(WORKFLOW) == 3


async def test_a_poke_that_temporal_did_not_take_is_sent_again() -> None:
    """Otherwise the workflow would see the change of its class only at its next refresh."""
    cache, temporal = Cache(), FakeTemporal()
    cache.nodeclasses.on_event("default", node_class("default", 1))
    async with bridged(cache, temporal):
        temporal.fails[f"signal {WORKFLOW}"] = [UNAVAILABLE]
        cache.nodeclasses.on_event("default", node_class("default", 2))
        await asyncio.sleep(5 * MOMENT)
        assert temporal.fails[f"signal {WORKFLOW}"] == []
        assert [result for result, _, _ in temporal.signals] == [WORKFLOW] * 2


async def test_a_workflow_that_an_operator_ended_is_started_again_within_a_minute() -> None:
    """Starting a workflow that is open does nothing, so no listing is needed. It is not poked again."""
    cache, temporal = Cache(), FakeTemporal()
    cache.nodeclasses.on_event("default", node_class("default", 1))
    async with bridged(cache, temporal):
        assert [result for result, _ in temporal.starts] == [WORKFLOW]
        await asyncio.sleep(RESTART_SECONDS / 2)
        cache.nodeclasses.on_event("default", node_class("default", 1))
        await asyncio.sleep(MOMENT)
        assert len(temporal.starts) == 1
        await asyncio.sleep(RESTART_SECONDS / 2)
        assert [result for result, _ in temporal.starts] == [WORKFLOW] * 2
        assert len(temporal.signals) == 1
