"""`tenon why` and `tenon replay` on a real worker: before and after a node is gone, and for a pod that fits nowhere."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

from temporalio.client import Client

from cli.record_source import chosen_record, entries
from sandbox.cluster import Sandbox
from tenon.kube.timestamps import format_instant
from tenon.record.entries import PlanEntry, RemovalEntry
from tests.e2e.conftest import MakePool, Run
from tests.e2e.lives import life_of
from tests.e2e.pools import NAMESPACE, SMALL, Pool
from tests.workflows.waiting import until

REASON = ("--reason", "its disk is slow", "--ticket", "OPS-12")
TOO_SLOW = "the store of earlier inputs is too slow"
"""Why a plan is recorded without its inputs while those of two other decisions are being written."""
TRIES = 5
"""How many plans at most are made until the inputs of one are kept."""


async def page(tenon: Run, *arguments: str, **changes: str | None) -> str:
    """What the command prints; it must know the object."""
    done = await asyncio.to_thread(tenon, *arguments, **changes)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def plan_of(record: str, claim: str) -> PlanEntry:
    """Wait until the record has the plan that created a NodeClaim; the plan."""
    plans: list[PlanEntry] = []

    def read() -> list[PlanEntry]:
        return [
            entry
            for entry in entries(record)
            if isinstance(entry, PlanEntry) and any(purchase.claim == claim for purchase in entry.purchases)
        ]

    async def is_recorded() -> bool:
        plans[:] = await asyncio.to_thread(read)
        return bool(plans)

    await until(is_recorded)
    (plan,) = plans
    return plan


async def claim_for_new_pods(pool: Pool, app: str) -> str:
    """Have a node bought for new pods; its NodeClaim. One pod may fit on a node that is there, two do not."""
    earlier = {claim["metadata"]["name"] for claim in await pool.claims()}
    await pool.deploy(2, app)
    await pool.running(2, app)
    later = {str(claim["metadata"]["name"]) for claim in await pool.claims()} - earlier
    return min(later)


async def kept_plan(pool: Pool, record: str, claim: str) -> PlanEntry:
    """The plan that created a NodeClaim, with its inputs; if the store was busy, the plan of a later one."""
    plan = await plan_of(record, claim)
    for number in range(1, TRIES):
        if plan.inputs_lacking != TOO_SLOW:
            break
        plan = await plan_of(record, await claim_for_new_pods(pool, f"again-{number}"))
    assert plan.inputs, plan.inputs_lacking
    return plan


async def test_why_tells_the_life_of_a_node_and_replay_makes_its_plan_again(
    make_pool: MakePool, tenon: Run, client: Client, sandbox: Sandbox
) -> None:
    """Who bought it, for whom, at what price, who removed it and why: by all names, from all sources and each alone."""
    began = format_instant(datetime.now(UTC))
    pool = await make_pool(consolidate_after="Never", requirements=SMALL)
    pod = f"{NAMESPACE}/{(await pool.pod('one'))['metadata']['name']}"
    await pool.running(1)
    (claim,) = await pool.settled(1)
    name, node = claim["metadata"]["name"], claim["status"]["nodeName"]
    (instance,) = pool.instances(name)

    async def plan_is_recorded() -> bool:
        """The planner records a plan once its inputs are kept; the node may be ready by then."""
        return f"created it for 1 pod: {pod}  [record]" in await page(tenon, "why", node)

    await until(plan_is_recorded)
    live = await page(tenon, "why", node)
    print(live)
    assert live.startswith(f"NodeClaim {name} ({node}, {instance['id']}) of NodePool {pool.name} is ")
    assert "the cheapest of" in live
    without_record = await page(tenon, "why", node, RECORD_SINKS=None, TENON_RECORD="")
    assert f"1 pod: {pod}  [Temporal]" in without_record
    assert "set the worker's RECORD_SINKS to a file or a bucket" in without_record
    of_pod = await page(tenon, "why", f"pod/{pod}")
    assert f"Pod {pod} is Running on {node}." in of_pod
    assert f"created NodeClaim {name} for it: {instance['type']} of NodePool {pool.name}" in of_pod

    await page(tenon, "node", "force-drain", node, *REASON)
    await pool.gone(name)
    life = await life_of(client, sandbox, name)
    record = chosen_record(sandbox.worker_env()["RECORD_SINKS"])

    def is_recorded() -> bool:
        return any(isinstance(entry, RemovalEntry) and entry.facts.claim == name for entry in entries(record))

    async def removal_recorded() -> bool:
        return await asyncio.to_thread(is_recorded)

    await until(removal_recorded)
    sources: dict[str, dict[str, str | None]] = {
        "all": {},
        "record": {"TEMPORAL_ADDRESS": "127.0.0.1:9"},
        "Temporal": {"RECORD_SINKS": None, "TENON_RECORD": ""},
    }
    for source, changes in sources.items():
        for subject in (node, instance["id"]) if source == "all" else (node,):
            shown = await page(tenon, "why", subject, **changes)
            print(shown)
            assert shown.startswith(f"NodeClaim {name} ({node}, {instance['id']}) of NodePool {pool.name} is gone"), (
                source
            )
            assert f"1 pod: {pod}" in shown, source
            assert "cheapest of" in shown, source
            assert f"({instance['type']}, {instance['zone']}, {instance['capacity_type']}) at $" in shown, source
            assert f"${life.price_per_hour:.4f} an hour" in shown, source
            assert "ForceDrain: its disk is slow, OPS-12 (sandbox-admin with tenon node)" in shown, source

    plan = await kept_plan(pool, record, name)
    replay = await page(tenon, "replay", "--since", began)
    print(replay)
    assert replay.startswith("No decision changes: today's engine makes the same ")
    answer = json.loads(await page(tenon, "replay", "--since", began, "-o", "json"))
    assert (answer["changed"], answer["regressions"]) == (0, 0)
    assert answer["plans"] >= 1
    assert answer["pricePerHourAfter"] == answer["pricePerHourBefore"] >= plan.price


async def test_why_names_what_keeps_a_pod_pending(make_pool: MakePool, tenon: Run) -> None:
    """A pod that fits nowhere: the sentence about its NodePool, also without the record, and what the NodePool says."""
    pool = await make_pool(consolidate_after="Never", requirements=SMALL)
    name = (await pool.pod("huge", cpu="64"))["metadata"]["name"]

    async def refused() -> bool:
        shown = await asyncio.to_thread(tenon, "why", f"pod/{NAMESPACE}/{name}")
        return f"NodePool {pool.name}:" in shown.stdout and "kube-scheduler: " in shown.stdout

    await until(refused)
    shown = await page(tenon, "why", f"{NAMESPACE}/{name}")
    print(shown)
    assert shown.startswith(f"Pod {NAMESPACE}/{name} is Pending since ")
    assert "Why is it pending?" in shown
    assert f"NodePool {pool.name}: " in shown
    assert "64" in shown.split("Why is it pending?")[1]
    assert "kube-scheduler: " in shown
    alone = await page(tenon, "why", f"{NAMESPACE}/{name}", RECORD_SINKS=None, TENON_RECORD="")
    assert f"NodePool {pool.name}: " in alone
    of_pool = await page(tenon, "why", f"nodepool/{pool.name}")
    print(of_pool)
    assert of_pool.startswith(f"NodePool {pool.name} has 0 NodeClaims.")


async def test_why_says_that_nothing_is_known_of_a_name_that_never_was(tenon: Run) -> None:
    done = await asyncio.to_thread(tenon, "why", "never-was")
    assert done.returncode == 1
    assert done.stdout.startswith("No source knows anything of never-was.")
