"""EC2 accepts launches and ends the instances while they boot: few are bought, and other NodePools go on."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from temporalio.client import Client

from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from tenon.apis import labels
from tenon.node.launch_breaker import FIRST_BOOT_PAUSE
from tests.e2e.conftest import MakePool
from tests.e2e.pools import Pool, condition
from tests.e2e.worker_process import WorkerProcess
from tests.faults.breakers import breaker_of
from tests.faults.conftest import Observe
from tests.faults.fleets import fleets
from tests.workflows.waiting import until


def typed(kind: str) -> list[dict[str, Any]]:
    return [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [kind]}]


async def test_a_key_that_nobody_may_use_costs_few_instances_and_stops_no_other_class(
    reader: WorkerProcess, make_pool: MakePool, observe: Observe, ec2: Ec2Admin, client: Client, sandbox: Sandbox
) -> None:
    """EC2 accepts the launches, and ends the instances when it cannot decrypt their volumes.

    Two replicas launch, and each sees some of the ends.
    """
    locked, good = await asyncio.gather(
        make_pool(requirements=typed("c5.large")), make_pool(requirements=typed("m5.large"))
    )
    async with observe(locked, good) as observations:
        ec2.boot(dies=True, type="c5.large")
        await locked.deploy(1)
        says_why = await _says_why(locked)
        assert "Client error on launch" in says_why

        async def paused() -> bool:
            result = condition(await locked.read(), "NodeLaunchHealthy")
            return result.get("status") == "False" and result["reason"] == "Client.InternalError"

        await until(paused)
        first_pause_ends = time.monotonic() + FIRST_BOOT_PAUSE.total_seconds()
        await good.deploy(3)
        await good.running(3)

        async def paused_thrice() -> bool:
            """Not before the first pause is over: without pauses, many would have been bought by then."""
            breaker = await breaker_of(client, sandbox, node_class=locked.name)
            is_paused = breaker is not None and breaker.boots and breaker.failures >= 3
            return is_paused and time.monotonic() > first_pause_ends

        await until(paused_thrice, within=180)
        # Until each replica has heard of the end that the other one saw, neither pauses: this may cost two instances.
        bought = len({fleet.token for fleet in fleets(ec2, locked)})
        assert bought <= 6, "without pauses it would be one every four seconds"
        assert condition(await good.read(), "NodeLaunchHealthy").get("status") != "False"
        ec2.clear_boot()
        await locked.running(1, within=300)

        async def healthy() -> bool:
            return condition(await locked.read(), "NodeLaunchHealthy").get("status") == "True"

        await until(healthy)
        await observations.look()
        await asyncio.gather(locked.scale(0), good.scale(0))


async def _says_why(pool: Pool) -> str:
    """Wait until an event on a NodeClaim of the pool has EC2's reason."""
    names: list[str] = []

    async def told() -> bool:
        claims = {instance["tags"].get(labels.TAG_NODECLAIM, "") for instance in pool.instances()}
        for name in claims - {""}:
            names.extend(str(event["message"]) for event in await pool.events(name, "InstanceEnded"))
        return bool(names)

    await until(told)
    return names[0]
