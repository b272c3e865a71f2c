"""What NodePool and NodeClaim say of nodes that registered, and that have less than was promised."""

from __future__ import annotations

import json

from sandbox.cluster import Sandbox
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL, condition
from tests.workflows.waiting import until


async def test_lif06_lif07_evt05_registered_nodes_are_healthy_until_one_loses_a_resource(
    make_pool: MakePool, sandbox: Sandbox
) -> None:
    """NP-S3, CTL-14, CTL-21."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    assert condition(await pool.read(), "NodeRegistrationHealthy").get("status", "Unknown") == "Unknown"
    await pool.deploy(1)
    await pool.running(1)
    (claim,) = await pool.settled(1)
    name = claim["metadata"]["name"]

    async def healthy() -> bool:
        return condition(await pool.read(), "NodeRegistrationHealthy").get("status") == "True"

    await until(healthy)
    assert (await pool.read())["status"]["nodeClassObservedGeneration"] == 1
    assert condition(claim, "ConsistentStateFound")["status"] == "True"

    shape = json.dumps({"status": {"capacity": {"cpu": "1"}}})
    sandbox.kubectl("patch", "node", claim["status"]["nodeName"], "--subresource=status", "--patch", shape)
    await pool.seen(name, "FailedConsistencyCheck", "expected 2 of resource cpu, but found 1 (50.0% of expected)")
    result = await pool.claim()
    assert condition(result, "ConsistentStateFound")["status"] == "False"
    assert condition(result, "Ready")["status"] == "True"
