"""EC2 refuses one NodePool for a reason that no other offering mends: it is asked seldom, and nothing else suffers."""

from __future__ import annotations

import asyncio
import time

from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EC2NODECLASSES, EVENTS, NODECLAIMS, NODEPOOLS
from activities.node.launch_breakers import FIRST_LAUNCHES
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from tenon.apis import labels
from tests.e2e.conftest import MakePool, Run
from tests.e2e.pools import KEY, ROOMY, SMALL, Object, Pool, condition
from tests.e2e.worker_process import WorkerProcess
from tests.faults.breakers import breaker_of
from tests.faults.conftest import Observe
from tests.faults.fleets import fleets
from tests.workflows.waiting import until

PODS = 45
"""Of three to a node: more NodeClaims than EC2 is asked calls for them."""
PROBES = 3
"""Refused calls in a row that the drill waits for. Each waits twice as long as the one before."""


async def deploy_in_one_batch(pool: Pool) -> None:
    """Deploy the pods under a limit without room for any node, and lift it once Tenon has planned each of them."""
    await pool.kube.patch(NODEPOOLS, pool.name, {"spec": {"limits": {"cpu": "0"}}})
    await pool.deploy(PODS)

    async def all_wait() -> bool:
        events = await pool.kube.list(EVENTS, field_selector="reason=FailedScheduling")
        planned = {
            event["involvedObject"]["name"] for event in events if "its limit leaves no room" in event["message"]
        }
        pods = {pod["metadata"]["name"] for pod in await pool.pods()}
        return len(pods) == PODS and pods <= planned

    await until(all_wait)
    await pool.kube.patch(NODEPOOLS, pool.name, {"spec": {"limits": None}})  # all are planned again at once


async def test_lif01_many_pods_that_ec2_refuses_cost_a_few_calls_and_stop_no_others(
    make_pool: MakePool,
    observe: Observe,
    ec2: Ec2Admin,
    client: Client,
    sandbox: Sandbox,
    worker: WorkerProcess,
    tenon: Run,
) -> None:
    """The reason is on every NodeClaim, on the NodePool and in `tenon node list --blocked`; then all pods run."""
    refused, other = await asyncio.gather(make_pool(requirements=ROOMY), make_pool(requirements=SMALL))
    async with observe(refused, other) as observations:
        ec2.fault(
            "CreateFleet", "UnauthorizedOperation", status=403, message="you may not", count=None, value=refused.name
        )
        await deploy_in_one_batch(refused)

        async def held() -> bool:
            return condition(await refused.read(), "NodeLaunchHealthy").get("status") == "False"

        await until(held)
        await other.deploy(2)

        async def others_launch() -> bool:
            return len(await asyncio.to_thread(other.instances)) >= 2

        requests = failures = 0

        async def probed() -> bool:
            """Requests are counted first, because probes go on."""
            nonlocal requests, failures
            requests = len(await asyncio.to_thread(fleets, ec2, refused))
            breaker = await breaker_of(client, sandbox, refused.name)
            failures = 0 if breaker is None else breaker.failures
            return failures >= PROBES

        # Together, because Tenon gives the NodeClaims up when they are five minutes old.
        await asyncio.gather(until(others_launch), until(probed, within=300))
        assert requests <= failures + FIRST_LAUNCHES <= 10
        pool = await refused.read()
        assert condition(pool, "NodeLaunchHealthy")["reason"] == "Unauthorized"
        assert "you may not" in condition(pool, "NodeLaunchHealthy")["message"]
        assert condition(pool, "Ready")["status"] == "True", "older tools take a pool that is not ready for broken"
        assert worker.metric("tenon_nodepools_launches_held_back", nodepool=refused.name) == 1
        claims: list[Object] = []

        async def all_say_why() -> bool:
            claims[:] = await refused.claims()
            launched = [condition(claim, "Launched") for claim in claims]
            return all(
                (result.get("status"), result.get("reason")) == ("Unknown", "Unauthorized")
                and "you may not" in result["message"]
                for result in launched
            )

        await until(all_say_why)
        assert len(claims) > 10
        await refused.seen(claims[0]["metadata"]["name"], "LaunchFailed", "you may not")
        words = (f"NodePool {refused.name}", claims[0]["metadata"]["name"], "Unauthorized")

        async def listed() -> bool:
            """The list needs an answer of Temporal in time."""
            shown = await asyncio.to_thread(tenon, "node", "list", "--blocked", COLUMNS="200")
            return shown.returncode == 0 and all(word in shown.stdout for word in words)

        await until(listed)
        ec2.clear_faults()
        healed = time.monotonic()
        await refused.running(PODS, within=300)
        print(
            f"{requests} calls for {len(claims)} NodeClaims; all run {time.monotonic() - healed:.0f} s after the fault"
        )
        assert {claim["metadata"]["name"] for claim in await refused.claims()} == {
            claim["metadata"]["name"] for claim in claims
        }, "no claim was given up and made again"
        await other.running(2)

        async def healthy() -> bool:
            result = await refused.read()
            return condition(result, "NodeLaunchHealthy").get("status") == "True"

        await until(healthy)
        await observations.look()
        await refused.scale(0)
        await other.scale(0)


async def test_lif01_a_nodeclaim_that_is_there_before_its_class_becomes_a_node(make_pool: MakePool, kube: Kube) -> None:
    """Both are applied in one moment: the claim says what it waits for, and is not deleted."""
    pool = await make_pool()
    late = pool.node_class()
    late["metadata"]["name"] = f"{pool.name}-late"
    name = f"{pool.name}-early"
    spec = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": late["metadata"]["name"]},
        "requirements": [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m5.large"]}],
    }
    output = await kube.create(NODECLAIMS, {"metadata": {"name": name, "labels": {KEY: pool.name}}, "spec": spec})

    async def waits() -> bool:
        return condition(await kube.get(NODECLAIMS, name), "Launched").get("reason") == "NodeClassReadinessUnknown"

    async def ready() -> bool:
        return condition(await kube.get(NODECLAIMS, name), "Ready").get("status") == "True"

    try:
        await until(waits)
        await kube.create(EC2NODECLASSES, late)
        await until(ready)
        claim = await kube.get(NODECLAIMS, name)
        assert claim is not None
        assert claim["metadata"]["uid"] == output["metadata"]["uid"]
    finally:
        await kube.delete(NODECLAIMS, name)
        await pool.gone(name)
        await kube.delete(EC2NODECLASSES, late["metadata"]["name"])
