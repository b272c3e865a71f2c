"""Things that would be stuck for ever: each says what holds it, and has an end or a command that ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from temporalio.client import Client

from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODES, PDBS, Resource
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from sandbox.faults.instances import NO_ACCESS
from tenon.apis import labels
from tenon.messages.node import Poke
from tenon.node.registration import NOT_JOINED
from tests.e2e.conftest import MakePool, NewPool, Run
from tests.e2e.lives import life_of
from tests.e2e.pools import NAMESPACE, SMALL, Object, Pool, condition, leaving
from tests.e2e.worker_process import WorkerProcess
from tests.faults.ageing import launched_long_ago
from tests.faults.blocked import blocked_rows
from tests.faults.conftest import Observe
from tests.faults.sweeping import sweep
from tests.workflows.waiting import until
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow

FOREIGN = "storage.example.com/detach"
GRACE = "45s"
"""Long enough for a first try of the drain, which tells who blocks it, before pods are deleted by force."""


async def shown(tenon: Run, claim: str, *words: str, within: float = 60.0) -> str:
    """Wait until `tenon node show` prints all these words, however it breaks its lines; what it prints."""
    result = [""]

    async def says() -> bool:
        done = await asyncio.to_thread(tenon, "node", "show", claim, COLUMNS="1000")
        result[0] = " ".join(done.stdout.split())
        return all(word in result[0] for word in words)

    try:
        await until(says, within=within)
    except TimeoutError:
        raise AssertionError(f"`tenon node show` never says {words}: {result[0]}") from None
    return result[0]


async def one_node(pool: Pool) -> tuple[str, str, str]:
    """Deploy a pod; the names of its claim and node, and its own."""
    await pool.deploy(1)
    (pod,) = await pool.running(1)
    (claim,) = await pool.settled(1)
    return claim["metadata"]["name"], claim["status"]["nodeName"], pod["metadata"]["name"]


async def test_a_drain_that_a_budget_blocks(
    make_pool: MakePool, observe: Observe, tenon: Run, client: Client, sandbox: Sandbox, kube: Kube
) -> None:
    """TRM, EVT-04: who blocks is named; the drain ends by the printed remedy, by itself in time, or by force."""
    relaxed, graced, forced = await asyncio.gather(
        make_pool(consolidate_after="1s", requirements=SMALL),
        make_pool(consolidate_after="1s", requirements=SMALL, template={"terminationGracePeriod": GRACE}),
        make_pool(consolidate_after="1s", requirements=SMALL),
    )
    pools = (relaxed, graced, forced)
    async with observe(*pools) as observations:
        nodes = await asyncio.gather(*(one_node(pool) for pool in pools))
        for pool, (claim, _, _) in zip(pools, nodes, strict=True):
            observations.may_move(pool)
            await pool.protect("web")
            await kube.delete(NODECLAIMS, claim)

        for pool, (claim, _, pod) in zip((relaxed, forced), (nodes[0], nodes[2]), strict=True):
            budget = f"{NAMESPACE}/{pool.name}-web"
            text = await shown(
                tenon, claim, "Blocked", pod, f"PodDisruptionBudget {budget}", f"tenon node force-drain {claim}"
            )
            assert f"kubectl edit poddisruptionbudget -n {NAMESPACE} {pool.name}-web" in text

        async def listed() -> bool:
            by_name = {row["nodeClaim"]: row for row in await blocked_rows(tenon) or ()}
            return all(nodes[i][2] in str(by_name.get(nodes[i][0], {}).get("why")) for i in (0, 2))

        await until(listed)
        await kube.delete(PDBS, f"{relaxed.name}-web", namespace=NAMESPACE)
        done = await asyncio.to_thread(tenon, "node", "force-drain", nodes[2][0])
        assert done.returncode == 0, done.stderr
        for pool, (claim, _, _) in zip(pools, nodes, strict=True):
            await pool.gone(claim)
            await observations.whole(pool)
            await pool.scale(0)

    lives = [await life_of(client, sandbox, claim) for claim, _, _ in nodes]
    for life, pool, (_, _, pod) in zip(lives, pools, nodes, strict=True):
        story = " ".join(entry.text for entry in life.timeline)
        assert pod in story
        assert f"PodDisruptionBudget {NAMESPACE}/{pool.name}-web" in story


async def test_trm05_a_blocked_drain_names_the_replacement_that_stands_idle(
    make_pool: MakePool, observe: Observe, tenon: Run, kube: Kube
) -> None:
    """A drain that a budget blocks has its replacement at once: who drained the node sees what that costs."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    async with observe(pool) as observations:
        claim, node, pod = await one_node(pool)
        observations.may_move(pool)
        budget = f"{NAMESPACE}/{await pool.protect('web', min_available=1)}"
        await kube.delete(NODECLAIMS, claim)
        row: dict[str, Any] = {}

        async def told() -> bool:
            rows = await blocked_rows(tenon) or ()
            row.update(next((load for load in rows if load["nodeClaim"] == claim), {}))
            return "stands empty at $" in str(row.get("why"))

        await until(told, within=200)
        (other,) = {node["metadata"]["name"] for node in await pool.nodes()} - {node}
        refusal = f"pod {NAMESPACE}/{pod} cannot be evicted: PodDisruptionBudget {budget} allows no eviction"
        assert row["why"].startswith(f"{refusal}; meanwhile Node {other} stands empty at $")
        assert row["why"].endswith(" an hour and waits for 1 of these pods")
        assert row["since"]
        await pool.seen(node, "ReplacementIdle", other)
        await kube.delete(PDBS, budget.partition("/")[2], namespace=NAMESPACE)
        await pool.gone(claim)
        await pool.running(1)
        await pool.scale(0)
        for (
            remainder
        ) in await pool.claims():  # the pool keeps its empty nodes, so that none left while the drain waited
            await kube.delete(NODECLAIMS, remainder["metadata"]["name"])


async def test_lif03_an_instance_that_never_joins_is_reported_with_its_console(
    make_pool: MakePool, observe: Observe, tenon: Run, kube: Kube, ec2: Ec2Admin
) -> None:
    """The claim, an event, `tenon node list --blocked` and `tenon node show` say why, until it joins."""
    pool = await make_pool(requirements=SMALL)
    async with observe(pool):
        ec2.boot(never=True, console=NO_ACCESS)
        await pool.deploy(1)

        async def launched() -> bool:
            return [condition(claim, "Launched").get("status") for claim in await pool.claims()] == ["True"]

        await until(launched)
        claim = (await pool.claims())[0]["metadata"]["name"]
        assert NO_ACCESS in await pool.console()  # it boots a moment after its launch, and its console is read once
        await launched_long_ago(kube, claim)

        async def told() -> bool:
            return condition((await pool.claims())[0], "Registered").get("reason") == NOT_JOINED

        await until(told)
        registered = condition((await pool.claims())[0], "Registered")
        assert registered["status"] == "Unknown"
        assert "give the role an access entry of type EC2_LINUX" in registered["message"]
        assert 'err="Unauthorized"' in registered["message"]
        await pool.seen(claim, NOT_JOINED, "access entry")

        async def reasons() -> list[Any] | None:
            """None while the list is not known."""
            rows = await blocked_rows(tenon)
            return None if rows is None else [row.get("why") for row in rows if row["nodeClaim"] == claim]

        async def listed() -> bool:
            return await reasons() == [registered["message"]]

        await until(listed)
        await shown(tenon, claim, "access entry of type EC2_LINUX", "aws ec2 get-console-output --latest")

        ec2.clear_boot()
        await pool.running(1)

        async def unblocked() -> bool:
            return await reasons() == []

        await until(unblocked)
        await pool.scale(0)


async def test_a_node_that_never_gets_ready(
    make_pool: MakePool, observe: Observe, tenon: Run, client: Client, sandbox: Sandbox, ec2: Ec2Admin
) -> None:
    """QRK-10: the timeline says what is awaited, and `tenon node drain` gets its pods another node."""
    pool = await make_pool(consolidate_after="3s")
    async with observe(pool) as observations:
        ec2.boot(not_ready=True)
        await pool.deploy(1)

        async def joined() -> bool:
            return bool(await pool.nodes())

        await until(joined)
        claim = (await pool.claim())["metadata"]["name"]
        node = (await pool.nodes())[0]["metadata"]["name"]
        await shown(tenon, claim, "initializing", node, "Given up, unless initialized, at")
        life = client.get_workflow_handle_for(NodeClaimWorkflow.run, names.nodeclaim_id(sandbox.cluster_name, claim))
        await life.signal(NodeClaimWorkflow.poke, Poke(node_name=node))  # by itself it looks again in ten minutes
        await shown(tenon, claim, f"not initialized yet: Node {node} is not Ready")
        assert tenon("node", "drain", claim).returncode == 0

        async def given_up() -> bool:
            return all(item["metadata"]["name"] != claim or leaving(item) for item in await pool.claims())

        await until(given_up)
        ec2.clear_boot()
        await pool.gone(claim)
        await observations.whole(pool)
        (pod,) = await pool.pods()
        assert await pool.claim_of(pod) != claim
        assert (await life_of(client, sandbox, claim)).reason == "drain"
        await pool.scale(0)


async def set_foreign(kube: Kube, resource: Resource, name: str, *, present: bool) -> None:
    """Put a finalizer of somebody else on an object that exists, or take it off; what others write meanwhile stays."""

    def held(obj: Mapping[str, Any]) -> Object:
        finalizers = [finalizer for finalizer in obj["metadata"].get("finalizers") or () if finalizer != FOREIGN]
        finalizers += [FOREIGN] if present else []
        return {"metadata": {"finalizers": finalizers or None}}

    obj = await kube.get(resource, name)
    assert obj is not None
    assert await change(kube, resource, name, held, uid=obj["metadata"]["uid"], read_object=obj) is not None


@pytest.mark.parametrize("resource", [NODECLAIMS, NODES], ids=["on-the-NodeClaim", "on-the-Node"])
async def test_a_finalizer_that_is_never_removed(
    resource: Resource,
    new_pool: NewPool,
    observe: Observe,
    client: Client,
    sandbox: Sandbox,
    kube: Kube,
    worker: WorkerProcess,
) -> None:
    """The instance ends and the life is over; event and metric name who holds the object, and no life starts again."""
    async with new_pool(consolidate_after="Never") as pool, observe(pool) as observations:
        claim, node, _ = await one_node(pool)
        hold = claim if resource is NODECLAIMS else node
        await set_foreign(kube, resource, hold, present=True)
        await pool.scale(0)
        await kube.delete(NODECLAIMS, claim)
        await pool.seen(hold, "HeldByFinalizer", FOREIGN, "kubectl patch")
        life = await life_of(client, sandbox, claim)
        assert FOREIGN in life.timeline[-1].text
        assert [i["state"] for i in pool.instances(claim)] == ["terminated"]

        remainder = await kube.get(resource, hold)
        assert remainder is not None
        assert leaving(remainder)
        assert labels.TERMINATION_FINALIZER not in remainder["metadata"]["finalizers"]
        for number in range(3):  # the NodeClaim controller looks again whenever the object changes
            await kube.patch(resource, hold, {"metadata": {"annotations": {"example.com/touched": str(number)}}})
            await sweep(client, sandbox.cluster_name)
        if resource is NODECLAIMS:
            await pool.seen(claim, "HeldByFinalizer", FOREIGN)
            assert worker.metric("tenon_nodeclaims_foreign_finalizers", finalizer=FOREIGN) == 1
        assert await runs(client, sandbox, claim) == 1
        assert await kube.get(resource, hold) is not None

        await set_foreign(kube, resource, hold, present=False)
        await observations.nothing_left(pool)
    await sweep(client, sandbox.cluster_name)
    assert worker.metric("tenon_nodeclaims_foreign_finalizers", finalizer=FOREIGN) == 0


async def runs(client: Client, sandbox: Sandbox, claim: str) -> int:
    """How many lives a claim has had: runs that did not go on as new."""
    query = f"WorkflowId = '{names.nodeclaim_id(sandbox.cluster_name, claim)}'"
    workflows = [run async for run in client.list_workflows(query)]
    return sum(run.status is None or run.status.name != "CONTINUED_AS_NEW" for run in workflows)
