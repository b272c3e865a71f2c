"""Garbage collection finds a hundred mixed orphans in the three records, and leaves a second cluster's things alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest_asyncio
from temporalio.client import Client, WorkflowExecutionStatus

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EVENTS, NODECLAIMS, NODES
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from sandbox.faults import catalogue
from tenon.apis import labels
from tenon.garbage_collection.decide import GRACES
from tenon.garbage_collection.findings import FindingKind
from tenon.messages.base import ClaimRef
from tenon.node.state import NodeClaimInput, NodeClaimResult
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL, Object
from tests.e2e.worker_process import WorkerProcess
from tests.faults.ageing import launched_long_ago
from tests.faults.conftest import Observe
from tests.faults.sweeping import confirmed_sweep, only_by_hand, sweep
from tests.workflows.waiting import until
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow

OLD, FRESH = 110, 16
"""Orphans that are older than any grace, a second cluster's among them, and orphans that are just made."""
UNTOUCHED, LOST, ENDED, VANISHED = 2, 3, 3, 3
"""Nodes: nothing happens; EC2 ends the instance; the workflow is terminated; the claim vanishes."""
GHOSTS = 10
"""Workflows that never had a claim."""


def ids(rows: Iterable[Object], *kinds: str) -> set[str]:
    """The ids of what was planted of these kinds."""
    return {row["id"] for row in rows if row["kind"] in kinds}


def running(ec2: Ec2Admin) -> dict[str, Object]:
    """The instances that live, by id."""
    return {instance["id"]: instance for instance in ec2.instances() if instance["state"] in ("pending", "running")}


def templates(sandbox: Sandbox) -> set[str]:
    """The ids of all launch templates of the account."""
    pages = sandbox.aws("ec2").get_paginator("describe_launch_templates").paginate()
    return {launch_template["LaunchTemplateId"] for page in pages for launch_template in page["LaunchTemplates"]}


@dataclass(frozen=True)
class Planted:
    """Old orphans of two clusters, and how much had been ended before them: a worker that starts sweeps at once."""

    orphans: list[Object]
    ended_before: Mapping[FindingKind, float]


def ended(worker: WorkerProcess, kind: FindingKind) -> float:
    """How much of a kind all sweeps have ended."""
    return worker.metric("tenon_garbage_collection_ended_total", kind=kind.value)


@pytest_asyncio.fixture(loop_scope="session")
async def planted(worker: WorkerProcess, sandbox: Sandbox) -> AsyncIterator[Planted]:
    """What is left of all orphans is taken away in the end."""
    before = {kind: ended(worker, kind) for kind in FindingKind}
    output = await asyncio.to_thread(catalogue.apply, sandbox, "orphans", count=OLD, seed=4, age=2 * 3600.0)
    yield Planted(output, before)
    await asyncio.to_thread(catalogue.clear, sandbox, "orphans")


async def told(kube: Kube, reason: str, words: set[str]) -> set[str]:
    """Which of the words no event of a reason tells."""
    messages = " ".join(event["message"] for event in await kube.list(EVENTS, field_selector=f"reason={reason}"))
    return {word for word in words if word not in messages}


async def test_a_hundred_mixed_orphans_end_clean(
    planted: Planted,
    make_pool: MakePool,
    observe: Observe,
    ec2: Ec2Admin,
    kube: Kube,
    client: Client,
    sandbox: Sandbox,
    worker: WorkerProcess,
) -> None:
    """AWS-122: each is found after its grace, ended or healed, told and counted; nodes carry their names.

    So many lost things wait until a person confirms them.
    """
    cluster = sandbox.cluster_name
    orphans, before = planted.orphans, planted.ended_before
    own = ids(orphans, "instance", "unnamed-instance")
    own_templates = ids(orphans, "launch-template")
    foreign, foreign_templates = ids(orphans, "foreign-instance"), ids(orphans, "foreign-launch-template")
    assert min(len(own), len(own_templates), len(foreign), len(foreign_templates)) > 10
    nodes = UNTOUCHED + LOST + ENDED + VANISHED
    assert len(own) + len(own_templates) + FRESH + LOST + ENDED + VANISHED + GHOSTS + 2 >= 100

    pool = await make_pool(requirements=SMALL)
    async with observe(pool) as observations:
        observations.may_move(pool)
        await pool.deploy(nodes)
        await pool.running(nodes)
        claims = [claim["metadata"]["name"] for claim in await pool.settled(nodes)]
        lost, terminated = claims[:LOST], claims[LOST : LOST + ENDED]
        vanished, untouched = claims[LOST + ENDED : -UNTOUCHED], claims[-UNTOUCHED:]
        joined = {await asyncio.to_thread(join_one, ec2, cluster, number) for number in range(2)}
        await until(lambda: all_joined(kube, joined))

        async with only_by_hand(client, cluster):
            for claim in lost:
                ec2.kill_instance(pool.instances(claim)[0]["id"])
                await launched_long_ago(kube, claim)
            for claim in terminated:
                await handle_of(client, cluster, claim).terminate("by an operator")
            for claim in vanished:
                await kube.patch(NODECLAIMS, claim, {"metadata": {"finalizers": None}})
                await kube.delete(NODECLAIMS, claim)
            ghosts = [f"{pool.name}-ghost{number}" for number in range(GHOSTS)]
            for ghost in ghosts:
                await begin_ghost(client, cluster, ghost)
            await until(lambda: none_ready(kube, lost))

            waiting = await sweep(client, cluster)
            assert own | joined <= set(await asyncio.to_thread(running, ec2)), "so many wait for a person"
            assert await told(kube, "GarbageCollectionHeldBack", {"instances have no NodeClaim"}) == set()
            many = sum(row.held_back for row in waiting.figures.values())
            # Last, because their grace of 30 seconds must last until this sweep has looked at them.
            began = int(time.time())  # EC2 has launch times in whole seconds
            fresh = await asyncio.to_thread(
                catalogue.apply, sandbox, "orphans", count=FRESH, seed=5, age=0.0, kinds="instance,launch-template"
            )
            # If their grace ends before, they wait for a person too.
            report = await confirmed_sweep(client, cluster, many + FRESH)
            assert not report.unread
            assert not report.faults
            judged = first_end(ec2, own | joined)  # a sweep judges all before it ends the first
            seed = 5
            while judged - began >= GRACES.instance.total_seconds():
                # On a slow machine, their grace was over by then. The next sweep has little to end.
                began, seed = int(time.time()), seed + 1
                fresh += await asyncio.to_thread(
                    catalogue.apply, sandbox, "orphans", count=FRESH, seed=seed, age=0.0, kinds="instance"
                )
                await confirmed_sweep(client, cluster, many + len(fresh))
                judged = time.time()
            instances = set(await asyncio.to_thread(running, ec2))
        assert not instances & (own | joined)
        assert ids(fresh[-FRESH:], "instance") <= instances, "what is in its grace was ended"
        names = await asyncio.to_thread(templates, sandbox)
        assert not names & own_templates
        assert ids(fresh, "launch-template") <= names

        async def all_clean() -> bool:
            await confirmed_sweep(client, cluster, len(fresh))  # what was just made is a large share of what is left
            alive = set(await asyncio.to_thread(running, ec2))
            if alive & (
                ids(fresh, "instance") | {item for claim in lost + vanished for item in observations.instances[claim]}
            ):
                return False
            open_ones = [await is_open(client, cluster, claim) for claim in (*lost, *vanished, *ghosts)]
            healed = [await is_open(client, cluster, claim) for claim in (*terminated, *untouched)]
            return all(healed) and not any(open_ones)

        await until(all_clean)
        await observations.whole(pool)
        for claim in (*lost, *ghosts, *vanished):
            life: NodeClaimResult = await handle_of(client, cluster, claim).result()
            assert (life.reason == "garbage_collected") == (claim in lost)
        assert observations.bought(pool) == nodes + LOST + VANISHED
        assert not await all_joined(kube, joined), "the Nodes of orphaned instances are left"

        alive_now = await asyncio.to_thread(running, ec2)
        assert foreign <= set(alive_now)
        assert foreign_templates <= await asyncio.to_thread(templates, sandbox)
        for claim in await pool.claims():
            (instance,) = pool.instances(claim["metadata"]["name"])
            assert instance["tags"][labels.TAG_NODECLAIM] == claim["metadata"]["name"]
            assert instance["tags"]["Name"] == claim["status"]["nodeName"]

        removal = {item for claim in lost for item in observations.instances[claim]}
        everything = own | joined | ids(fresh, "instance")
        assert await told(kube, "InstanceWithoutNodeClaim", everything) == set()
        assert await told(kube, "NodeClaimWithoutInstance", removal) == set()
        assert len(await kube.list(EVENTS, field_selector="reason=LaunchTemplateUnused")) >= len(own_templates)
        assert ended(worker, FindingKind.INSTANCE_WITHOUT_CLAIM) - before[FindingKind.INSTANCE_WITHOUT_CLAIM] == len(
            everything
        )
        assert ended(worker, FindingKind.UNUSED_TEMPLATE) - before[FindingKind.UNUSED_TEMPLATE] == len(own_templates)
        # A sweep that comes before the workflow has acted on the one before tells it again.
        assert ended(worker, FindingKind.CLAIM_WITHOUT_INSTANCE) - before[FindingKind.CLAIM_WITHOUT_INSTANCE] >= LOST
        await pool.scale(0)


def first_end(ec2: Ec2Admin, instances: set[str]) -> float:
    """When the first of these instances was ended, in seconds since 1970."""
    calls = ec2.calls("TerminateInstances")
    return float(min(call["time"] for call in calls if not instances.isdisjoint(call["parameters"].values())))


def join_one(ec2: Ec2Admin, cluster: str, number: int) -> str:
    """An old instance without claim that is a Node all the same; its id."""
    claim = f"joined-{number}"
    tags = {
        f"kubernetes.io/cluster/{cluster}": "owned",
        labels.TAG_CLUSTER: cluster,
        labels.TAG_NODEPOOL: "default",
        labels.TAG_NODECLAIM: claim,
    }
    return ec2.plant_instance(tags, age_seconds=3600.0, joins=True)


async def all_joined(kube: Kube, instances: set[str]) -> bool:
    """Whether each of these instances is a Node."""
    rsplits = {(node["spec"].get("providerID") or "").rsplit("/", 1)[-1] for node in await kube.list(NODES)}
    return instances <= rsplits


async def none_ready(kube: Kube, claims: list[str]) -> bool:
    """Whether no Node of these claims is Ready."""
    for node in await kube.list(NODES):
        owners = {owner["name"] for owner in node["metadata"].get("ownerReferences") or ()}
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions") or ())
        if owners & set(claims) and ready:
            return False
    return True


def handle_of(client: Client, cluster: str, claim: str) -> Any:
    """The workflow of a claim."""
    return client.get_workflow_handle(names.nodeclaim_id(cluster, claim), result_type=NodeClaimResult)


async def is_open(client: Client, cluster: str, claim: str) -> bool:
    """Whether the claim's workflow runs."""
    describe = await handle_of(client, cluster, claim).describe()
    return bool(describe.status is WorkflowExecutionStatus.RUNNING)


async def begin_ghost(client: Client, cluster: str, claim: str) -> None:
    """A workflow for a claim that does not exist."""
    node_claim_input = NodeClaimInput(claim=ClaimRef(cluster=cluster, name=claim, uid="nobody"))
    await client.start_workflow(
        NodeClaimWorkflow.run,
        node_claim_input,
        id=names.nodeclaim_id(cluster, claim),
        task_queue=names.task_queue(cluster),
    )
