"""EC2 refuses what one EC2NodeClass asks for. Its pods go to NodePools of other classes."""

from __future__ import annotations

import asyncio

from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEPOOLS
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from tenon.messages.provisioning import LaunchBreaker
from tests.e2e.conftest import MakePool
from tests.e2e.pools import KEY, Object, Pool, condition
from tests.faults.breakers import breaker_of
from tests.faults.conftest import Observe
from tests.workflows.waiting import until

OTHER_NETWORK = "Security group sg-1 and subnet subnet-1 belong to different networks."


async def falls_back(kube: Kube, first: Pool, second: Pool) -> None:
    """Let pods of the first NodePool use the second one as well, if the first one has no nodes for them."""
    await kube.patch(NODEPOOLS, first.name, {"spec": {"weight": 100}})
    taint = {"key": KEY, "value": first.name, "effect": "NoSchedule"}
    template = {"metadata": {"labels": {KEY: first.name}}, "spec": {"taints": [taint]}}
    await kube.patch(NODEPOOLS, second.name, {"spec": {"template": template}})

    async def ready() -> bool:
        pair = [await first.read(), await second.read()]
        return all(condition(pool, "Ready").get("status") == "True" for pool in pair)

    await until(ready)


async def test_lif01_pods_of_a_refused_class_run_on_another_class_at_once(
    make_pool: MakePool, kube: Kube, observe: Observe, ec2: Ec2Admin, client: Client, sandbox: Sandbox
) -> None:
    """Their NodeClaims would otherwise keep them for five minutes."""
    first, second = await asyncio.gather(make_pool(), make_pool())
    await falls_back(kube, first, second)
    async with observe(first, second) as observations:
        ec2.fault("CreateFleet", "InvalidParameter", message=OTHER_NETWORK, count=None, value=first.name)
        await first.deploy(6)
        reasons: list[tuple[LaunchBreaker, Object]] = []

        async def held_back() -> bool:
            breaker = await breaker_of(client, sandbox, node_class=first.name)
            hold = condition(await first.read(), "NodeLaunchHealthy")
            if breaker is None or hold.get("status") != "False":
                return False
            reasons.append((breaker, hold))
            return True

        await until(held_back)  # read now: a breaker expires after two minutes, once no claim is left that probes
        ((breaker, hold),) = reasons
        await first.running(6)
        assert first.instances() == []

        async def given_up() -> bool:
            return not await first.claims()

        await until(given_up)
        assert breaker.reason == "SecurityGroupSubnetVPCMismatch"
        assert (hold["status"], hold["reason"]) == ("False", "SecurityGroupSubnetVPCMismatch")
        assert f"EC2NodeClass {first.name}" in hold["message"]
        assert condition(await second.read(), "NodeLaunchHealthy").get("status") != "False"
        ec2.clear_faults()
        await observations.look()
        await first.scale(0)
