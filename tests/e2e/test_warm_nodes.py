"""Warm nodes on the sandbox: stopped instances that start in place of a launch."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS, NODES
from cli.record_source import entries
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tenon.kube.stopped_times import runs, stopped_times
from tenon.record.entries import RemovalEntry
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL, Pool, leaving
from tests.e2e.worker import Worker
from tests.workflows.waiting import until


def state_of(claim: Any) -> str:
    return str(claim["metadata"]["annotations"].get(labels.WARM, ""))


def instance_of(claim: Any) -> str:
    return str((claim.get("status") or {}).get("providerID", "")).rsplit("/", 1)[-1]


async def keep_warm(pool: Pool, count: int) -> None:
    await pool.kube.patch(NODEPOOLS, pool.name, {"metadata": {"annotations": {labels.WARM: str(count)}}})


async def stopped(pool: Pool, count: int) -> dict[str, Any]:
    """The warm nodes once so many are stopped, by NodeClaim, when EC2 says so too."""
    result: dict[str, Any] = {}

    async def all_are() -> bool:
        claims = [claim for claim in await pool.claims() if state_of(claim) == "stopped" and not leaving(claim)]
        states = {instance["id"]: instance["state"] for instance in await asyncio.to_thread(pool.instances)}
        result.clear()
        result.update({claim["metadata"]["name"]: claim for claim in claims})
        return len(claims) == count and all(states.get(instance_of(claim)) == "stopped" for claim in claims)

    await until(all_are)
    return result


def charged_runs(instance: str, sandbox: Sandbox) -> int:
    """How often EC2 charged for an instance from its start to its stop."""
    return sum(line["instance"] == instance for line in sandbox.ec2().bill()["lines"])


async def test_a_pod_starts_a_stopped_instance_in_place_of_a_launch_and_it_is_replaced(
    make_pool: MakePool, worker: Worker, sandbox: Sandbox, kube: Kube
) -> None:
    """A3798, A4354: two instances stop and cost nothing; a pod starts one; another is bought and stopped.

    The removal in the record says when it was stopped, so that its runs are those that EC2 charges.
    """
    start = datetime.now(UTC)
    pool = await make_pool(requirements=SMALL, consolidate_after="0s")
    await keep_warm(pool, 2)
    warm = await stopped(pool, 2)
    assert {claim["metadata"]["labels"][labels.CAPACITY_TYPE] for claim in warm.values()} == {"on-demand"}
    launches = len(pool.instances())
    assert launches == 2
    await pool.deploy(1)
    (pod,) = await pool.running(1)
    name = await pool.claim_of(pod)
    assert name in warm, "the pod waited for a start, not for a launch"
    assert sandbox.ec2().calls("StartInstances"), "EC2 was asked to start it"

    async def is_ordinary() -> bool:
        return state_of(await kube.get(NODECLAIMS, name)) == ""

    await until(is_ordinary)
    node = await kube.get(NODES, pod["spec"]["nodeName"]) or {}
    assert labels.WARM not in {taint["key"] for taint in node["spec"].get("taints") or ()}
    refilled = await stopped(pool, 2)
    assert name not in refilled
    assert len(pool.instances()) == 3, "one launch, of the warm node that comes after it"
    await pool.seen(name, "WarmNodeStopped")
    await pool.seen(name, "WarmNodeStarted")
    bill = {line["instance"] for line in sandbox.ec2().bill()["lines"] if line["running"]}
    assert not bill & {instance_of(claim) for claim in refilled.values()}

    async def are_counted() -> bool:
        """The leader counts them with its next look after the mark."""
        return worker.metric("tenon_warm_nodes", nodepool=pool.name, state="stopped") == 2

    await until(are_counted)

    await keep_warm(pool, 0)
    for refilled_name in refilled:
        await pool.gone(refilled_name)
    assert [claim["metadata"]["name"] for claim in await pool.claims()] == [name]

    await pool.scale(0)
    await pool.gone(name)

    async def removals() -> dict[str, RemovalEntry]:
        read = await asyncio.to_thread(lambda: list(entries(str(worker.log), start)))
        return {entry.facts.claim: entry for entry in read if isinstance(entry, RemovalEntry)}

    async def all_removed() -> bool:
        return {name, *refilled} <= (await removals()).keys()

    await until(all_removed)
    for claim, removal in (await removals()).items():
        if claim not in {name, *refilled}:
            continue
        launched_at, ended_at = removal.launched_at, removal.terminated_at
        assert launched_at is not None
        assert ended_at is not None
        times = runs(launched_at, ended_at, stopped_times(removal.stopped))
        assert len(times) == (2 if claim == name else 1), "the others never started again"
        assert len(times) == charged_runs(removal.facts.instance, sandbox)


async def test_a_worker_that_dies_between_the_steps_of_a_start_finishes_it(
    make_pool: MakePool, worker: Worker, sandbox: Sandbox
) -> None:
    """The answer of EC2 is lost with the worker. The next one starts the same instance, and buys none for the pod."""
    pool = await make_pool(requirements=SMALL)
    await keep_warm(pool, 1)
    (name,) = await stopped(pool, 1)
    ec2 = sandbox.ec2()
    ec2.hold("StartInstances", after_effect=True)

    async def is_held() -> bool:
        return await asyncio.to_thread(ec2.held) > 0

    try:
        await pool.deploy(1)
        await until(is_held)
        await asyncio.to_thread(worker.crash)
    finally:
        await asyncio.to_thread(ec2.release)
        await asyncio.to_thread(worker.start)
    (pod,) = await pool.running(1)
    assert await pool.claim_of(pod) == name
    await stopped(pool, 1)
    assert len(pool.instances()) == 2


async def test_a_start_that_ec2_refuses_becomes_an_ordinary_launch(make_pool: MakePool, sandbox: Sandbox) -> None:
    pool = await make_pool(requirements=SMALL, capacity_types=("on-demand",))
    await keep_warm(pool, 1)
    warm = await stopped(pool, 1)
    ((name, claim),) = warm.items()
    ec2, marks = sandbox.ec2(), claim["metadata"]["labels"]
    ec2.capacity(0, type=marks[labels.INSTANCE_TYPE], zone=marks[labels.ZONE], capacity_type="on-demand")
    try:
        await pool.deploy(1)
        (pod,) = await pool.running(1)
        assert await pool.claim_of(pod) != name
        await pool.gone(name)
        await pool.seen(name, "WarmNodeNotStarted", "sufficient")
        refilled = await stopped(pool, 1)
        assert name not in refilled
    finally:
        ec2.clear_capacity()


async def test_a_stopped_node_drifts_and_is_replaced(make_pool: MakePool) -> None:
    """It has no pods, so nothing is bought in its place but the next warm node."""
    pool = await make_pool(requirements=SMALL)
    await keep_warm(pool, 1)
    (name,) = await stopped(pool, 1)
    await pool.kube.patch(NODEPOOLS, pool.name, {"spec": {"template": {"metadata": {"labels": {"tier": "gold"}}}}})
    await pool.gone(name)
    (replaced,) = (await stopped(pool, 1)).values()
    assert replaced["metadata"]["labels"]["tier"] == "gold"
    assert len([claim for claim in await pool.claims() if not leaving(claim)]) == 1
