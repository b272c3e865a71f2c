"""What operators do by hand: signals with Temporal's own command, and ``tenon node``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
import pytest_asyncio
from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, PODS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tenon.kube.timestamps import parse_instant
from tenon.messages.node import Keep
from tenon.node.state import Stage
from tenon.node.timeline import why_blocked
from tests.e2e.conftest import MakePool, NewPool, Run
from tests.e2e.lives import life_of, state_of
from tests.e2e.pools import NAMESPACE, SMALL, Pool, condition
from tests.e2e.worker import Worker
from tests.workflows.waiting import until
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow


def life_id(sandbox: Sandbox, claim: str) -> str:
    """The id that operators type."""
    return f"nodeclaim/{sandbox.cluster_name}/{claim}"


async def together(tenon: Run, *commands: tuple[str, ...]) -> list[str]:
    """What several commands print, run at the same time; all must succeed."""
    done = await asyncio.gather(*(asyncio.to_thread(tenon, *command) for command in commands))
    for item in done:
        assert item.returncode == 0, item.stderr
    return [first.stdout for first in done]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded(new_pool: NewPool) -> AsyncIterator[Pool]:
    """A node whose only pod is guarded by a budget that allows nothing, made early: a blocked drain takes its time."""
    async with new_pool(consolidate_after="Never") as pool:
        await pool.deploy(1)
        await pool.running(1)
        await pool.settled(1)
        await pool.protect("web")
        yield pool


async def test_drain_respects_a_budget_and_says_on_the_node_what_blocks_it(guarded: Pool, tenon: Run) -> None:
    """TRM, EVT-04: `tenon node drain` cordons, and names pod and PodDisruptionBudget; the pod stays."""
    (pod,) = await guarded.pods()
    claim = await guarded.claim()
    node = claim["status"]["nodeName"]
    done = tenon("node", "drain", node)  # a Node's name does as well as its NodeClaim's
    assert done.returncode == 0, done.stderr
    await guarded.seen(node, "FailedDraining", pod["metadata"]["name"], f"{guarded.name}-web")
    (result,) = await guarded.nodes()
    taints = {(t["key"], t["effect"]) for t in result["spec"]["taints"]}
    assert labels.DISRUPTED_TAINT in taints
    (still,) = await guarded.pods()
    assert still["metadata"]["uid"] == pod["metadata"]["uid"]


async def test_expire_by_the_temporal_command(
    make_pool: MakePool, temporal_cli: Run, client: Client, sandbox: Sandbox
) -> None:
    """`temporal workflow signal --name expire`: the node is replaced, its pod runs elsewhere."""
    pool = await make_pool(consolidate_after="Never", requirements=SMALL)
    await pool.deploy(1)
    await pool.running(1)
    (old,) = await pool.settled(1)
    name = old["metadata"]["name"]
    temporal_cli("workflow", "signal", "--workflow-id", life_id(sandbox, name), "--name", "expire")
    await pool.gone(name)
    (pod,) = await pool.running(1)
    assert await pool.claim_of(pod) != name
    life = await life_of(client, sandbox, name)
    assert life.reason == "expired"
    assert life.pods_evicted == 1
    assert life.instance_id == pool.instances(name)[0]["id"]


async def test_nodes_are_listed_shown_expired_and_drained_by_name(
    make_pool: MakePool, tenon: Run, client: Client, sandbox: Sandbox
) -> None:
    """`tenon node list|show|expire|drain`: tables for people, JSON for scripts, and each does what it says."""
    pool = await make_pool(consolidate_after="Never", requirements=SMALL)
    await pool.pod("one")
    await pool.pod("two")
    await pool.running(2)
    first, second = [claim["metadata"]["name"] for claim in await pool.settled(2)]

    async def both_live() -> bool:
        running = f'{names.POOL.name} = "{pool.name}" AND {names.STAGE.name} = "live" AND ExecutionStatus = "Running"'
        return len([run async for run in client.list_workflows(running)]) == 2

    await until(both_live)
    as_json, as_table, shown_json, shown = await together(
        tenon,
        ("node", "list", "-o", "json"),
        ("node", "list"),
        ("node", "show", first, "-o", "json"),
        ("node", "show", first),
    )
    rows = [row for row in json.loads(as_json) if row["nodePool"] == pool.name]
    by_name = {i["tags"][labels.TAG_NODECLAIM]: i for i in pool.instances()}
    assert sum(row["pods"] for row in rows) == 2
    for row, name in zip(sorted(rows, key=lambda row: row["nodeClaim"]), (first, second), strict=True):
        instance = by_name[name]
        expected = (name, instance["type"], instance["zone"], instance["capacity_type"])
        assert (row["nodeClaim"], row["instanceType"], row["zone"], row["capacityType"]) == expected
        assert row["stage"] == "live"
        assert row["expires"]
        assert row["ready"]
        assert 0 < row["cpuShare"] < 1
        assert row["pricePerHour"] == pytest.approx(instance["price"], abs=1e-4)
    assert all(text in as_table for text in ("NodeClaim", "Stage", first, second))
    state = json.loads(shown_json)
    assert state["instance"]["id"] == by_name[first]["id"]
    assert state["stage"] == "live"
    assert all(text in shown for text in (first, by_name[first]["id"], "Timeline", "live"))

    why = ("--reason", "its disk is slow", "--ticket", "OPS-12")
    await together(tenon, ("node", "expire", first), ("node", "drain", second, *why))
    await pool.gone(first)
    await pool.gone(second)
    assert (await life_of(client, sandbox, first)).reason == "expired"
    life = await life_of(client, sandbox, second)
    assert (life.reason, life.detail) == ("drain", "its disk is slow, OPS-12")
    assert life.actor == "sandbox-admin with tenon node", "the user that the API server sees"
    await pool.seen(second, "Disrupted", "its disk is slow, OPS-12 (sandbox-admin with tenon node)")


async def test_keep_holds_an_empty_node_beyond_its_time_to_live(
    make_pool: MakePool, tenon: Run, kube: Kube, client: Client, sandbox: Sandbox
) -> None:
    """`tenon node keep`: of two nodes that become empty at once, the kept one stays until the wish is over."""
    pool = await make_pool(consolidate_after="1s", requirements=SMALL)
    await pool.deploy(2)
    await pool.running(2)
    survivors, other = [claim["metadata"]["name"] for claim in await pool.settled(2)]
    done = tenon("node", "keep", survivors, "--for", "4h")
    assert done.returncode == 0, done.stderr
    assert "kept until" in done.stdout

    async def noted() -> bool:
        claim = await kube.get(NODECLAIMS, survivors)
        return labels.KEEP_UNTIL in (claim or {})["metadata"]["annotations"]

    await until(noted)
    await pool.scale(0)
    await pool.gone(other)
    life = await life_of(client, sandbox, other)
    assert life.reason == "Empty"
    assert life.actor.startswith("command empty-")
    claim = await pool.claim()
    assert claim["metadata"]["name"] == survivors
    status = await state_of(client, sandbox, survivors)
    assert (status.stage, status.leave) == (Stage.LIVE, None)
    assert status.keep_until is not None
    noted_until = parse_instant(claim["metadata"]["annotations"][labels.KEEP_UNTIL])
    assert noted_until == status.keep_until.replace(microsecond=0)

    await client.get_workflow_handle(life_id(sandbox, survivors)).signal(
        NodeClaimWorkflow.keep, Keep(until=datetime.now(UTC))
    )
    await pool.gone(survivors)


async def test_what_cannot_be_done_is_said_in_a_sentence(tenon: Run, worker: Worker) -> None:
    """A wrong duration and an unknown node: exit status 2 and a sentence, no traceback."""
    wrong, unknown = await asyncio.gather(
        asyncio.to_thread(tenon, "node", "keep", "nobody", "--for", "soon"),
        asyncio.to_thread(tenon, "node", "drain", "nobody"),
    )
    assert (wrong.returncode, unknown.returncode) == (2, 2)
    assert "'soon' is not a duration" in wrong.stderr
    assert "No workflow nodeclaim/sandbox/nobody is running" in unknown.stderr
    assert "Traceback" not in wrong.stderr + unknown.stderr


async def test_force_drain_passes_the_budget_that_blocks_a_plain_drain(
    guarded: Pool, temporal_cli: Run, tenon: Run, client: Client, sandbox: Sandbox, worker: Worker
) -> None:
    """The status names pod and PodDisruptionBudget and is found by TenonBlocked; `force_drain` ends it all the same.

    What the drain waited for is said after the node is gone.
    """
    (pod,) = await guarded.pods()
    claim = await guarded.claim()
    name = claim["metadata"]["name"]

    async def blocked() -> bool:
        return bool((await state_of(client, sandbox, name)).blocked)

    await until(blocked)
    text = why_blocked(await state_of(client, sandbox, name))
    assert pod["metadata"]["name"] in text
    assert f"PodDisruptionBudget {NAMESPACE}/{guarded.name}-web" in text

    async def found() -> bool:
        query = f'{names.BLOCKED.name} = true AND {names.POOL.name} = "{guarded.name}"'
        return [run.id async for run in client.list_workflows(query)] == [life_id(sandbox, name)]

    await until(found)

    async def listed() -> bool:  # the list waits for Temporal for a few seconds only
        table = await asyncio.to_thread(tenon, "node", "list")
        return "blocked" in next(line for line in table.stdout.splitlines() if name in line)

    await until(listed)

    temporal_cli("workflow", "signal", "--workflow-id", life_id(sandbox, name), "--name", "force_drain")
    await guarded.gone(name)
    (elsewhere,) = await guarded.running(1)
    assert elsewhere["metadata"]["uid"] != pod["metadata"]["uid"]
    assert await guarded.claim_of(elsewhere) != name
    budget, record = f"PodDisruptionBudget {NAMESPACE}/{guarded.name}-web", {"TENON_RECORD": str(worker.log)}

    async def recorded() -> bool:
        history = await asyncio.to_thread(tenon, "history", name, "--kind", "removal", RECORD_SINKS=None, **record)
        return f"for {budget}" in " ".join(history.stdout.split())

    await until(recorded)
    why = await asyncio.to_thread(tenon, "why", name, RECORD_SINKS=None, **record)
    sentence = f"its drain was blocked: {budget} kept pod {NAMESPACE}/{pod['metadata']['name']} for "
    assert sentence in " ".join(why.stdout.split())


async def test_tenon_force_drain_deletes_a_guarded_pod_at_once(
    make_pool: MakePool, tenon: Run, kube: Kube, client: Client, sandbox: Sandbox
) -> None:
    """`tenon node force-drain` on a live node: neither budget nor do-not-disrupt nor a long grace period hold it."""
    pool = await make_pool(consolidate_after="Never")
    pod = await pool.pod("precious", annotations={labels.DO_NOT_DISRUPT: "true"}, terminationGracePeriodSeconds=3600)
    await pool.protect("precious")
    await pool.running(1)
    (claim,) = await pool.settled(1)
    name = claim["metadata"]["name"]
    assert tenon("node", "force-drain", name).returncode == 0
    await pool.gone(name)
    assert await kube.get(PODS, pod["metadata"]["name"], NAMESPACE) is None
    assert (await life_of(client, sandbox, name)).reason == "force_drain"
    assert condition(claim, "Ready")["status"] == "True"
