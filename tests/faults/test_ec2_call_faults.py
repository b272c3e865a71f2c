"""A tenth of all calls to AWS fails while 80 nodes launch and terminate: nothing is bought twice, nothing is left."""

from __future__ import annotations

import asyncio
from collections import Counter

from sandbox.ec2.client import Ec2Admin
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL, Pool
from tests.faults.conftest import Observe
from tests.workflows.waiting import until

WAVES, EACH = 2, 40
WITHIN = 400.0
"""Bounds what would otherwise hang, on a machine that is busy with other tests too."""
SHARE = 0.035
"""The share of calls with each of the three faults: a tenth of the calls altogether."""
CHANGES = {"CreateFleet", "TerminateInstances"}
"""Each loses an answer for certain. Chance may spare both, as most calls are descriptions."""


async def test_80_launches_and_terminations_while_a_tenth_of_the_calls_fails(
    make_pool: MakePool, observe: Observe, ec2: Ec2Admin
) -> None:
    """AWS-030, LIF-01: throttled, failed before the effect, or timed out after it."""
    pool = await make_pool(requirements=SMALL)
    async with observe(pool) as observations:
        ec2.clear_calls()
        for change in CHANGES:
            ec2.fault(change, "RequestTimeout", status=504, count=1, after_effect=True)
        ec2.fault("*", "RequestLimitExceeded", status=503, count=None, chance=SHARE, seed=1)
        ec2.fault("*", "InternalError", status=500, count=None, chance=SHARE, seed=2)
        ec2.fault("*", "RequestTimeout", status=504, count=None, chance=SHARE, seed=3, after_effect=True)
        for wave in range(WAVES):
            app = f"wave-{wave}"
            await pool.deploy(EACH, app)
            await pool.running(EACH, app, within=WITHIN)
            await observations.look()
            assert observations.bought(pool) == (wave + 1) * EACH
            await pool.scale(0, app)

            await _all_ended(pool)
        calls = ec2.calls()
        ec2.clear_faults()
        failed = Counter(call["error"] for call in calls)
        assert min(failed[code] for code in ("RequestLimitExceeded", "InternalError", "RequestTimeout")) > 0
        hit = {call["action"] for call in calls if call["error"] == "RequestTimeout"}
        assert hit >= CHANGES, "no answer to a change was lost"
    assert observations.bought(pool) == WAVES * EACH


async def _all_ended(pool: Pool) -> None:
    """Wait until the pool has no NodeClaim and no instance that lives; a failure names those that are left."""
    remaining: list[str] = []

    async def nothing_left() -> bool:
        instances = await asyncio.to_thread(pool.instances)
        remaining[:] = [f"{item['id']} is {item['state']}" for item in instances if item["state"] != "terminated"]
        remaining.extend(f"NodeClaim {claim['metadata']['name']} is left" for claim in await pool.claims())
        return not remaining

    try:
        await until(nothing_left, within=WITHIN)
    except TimeoutError:
        raise AssertionError("; ".join(remaining)) from None
