"""The condition NodeRegistrationHealthy of a NodePool, through changes of its spec and of the leader."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tenon.kube.decode import decode_object
from tests.activities.provisioning.fake_view import READY
from tests.tenon.apis.case import EC2NODECLASS
from tests.worker.cache.objects import claim, metadata
from tests.worker.fake_temporal import MOMENT
from tests.worker.nodepool_cluster import keeping, pool, put

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]
HEALTH = "NodeRegistrationHealthy"
LAUNCHED = {"type": "Launched", "status": "True", "lastTransitionTime": "2026-03-01T12:00:00Z"}
REGISTERED = {"type": "Registered", "status": "True", "lastTransitionTime": "2026-03-01T12:01:00Z"}
TIMED_OUT = "2026-03-01T12:15:00Z"


def in_pool(name: str, *conditions: dict[str, str], deleted: str = "", pool: str = "web") -> Any:
    meta: dict[str, Any] = {"labels": {"karpenter.sh/nodepool": pool}}
    if deleted:
        meta["deletionTimestamp"] = deleted
    return claim(name, node_name=name, meta=meta, status={"conditions": list(conditions)})


async def test_lif06_ctl21_a_pool_says_whether_its_nodes_register() -> None:
    async with keeping(pool("web"), pool("other", {"weight": 5})) as (cache, server, events):

        async def health_after(*claims: Any) -> str:
            cache.publish(*claims)
            await asyncio.sleep(MOMENT)
            return str(server.condition("web", HEALTH)["status"])

        assert await health_after() == "Unknown"
        assert await health_after(in_pool("a", LAUNCHED)) == "Unknown"
        assert await health_after(in_pool("a", LAUNCHED, REGISTERED)) == "True"
        assert await health_after(in_pool("b", LAUNCHED, deleted=TIMED_OUT)) == "True"
        assert await health_after(in_pool("b", LAUNCHED, deleted=TIMED_OUT)) == "True", "one claim is one result"
        assert await health_after(in_pool("c", LAUNCHED, deleted=TIMED_OUT)) == "False"
        assert "NodeClaim c did not register" in server.condition("web", HEALTH)["message"]
        assert server.condition("web", "Ready")["status"] == "True", "it only informs"
        assert server.condition("other", HEALTH)["status"] == "Unknown"
        assert events.reasons() == []
        more = [in_pool(name, LAUNCHED, REGISTERED) for name in "def"]
        assert await health_after(*more) == "True", "only the last four count"


@pytest.mark.parametrize("changed", ["pool", "class"])
async def test_lif06_nps3_a_change_of_pool_or_class_forgets_the_results(changed: str) -> None:
    async with keeping(pool("web")) as (cache, server, _):
        cache.publish(*(in_pool(name, LAUNCHED, deleted=TIMED_OUT) for name in "ab"))
        await asyncio.sleep(MOMENT)
        assert server.condition("web", HEALTH)["status"] == "False"
        if changed == "pool":
            record = cache.pools.get("web")
            assert record is not None
            put(cache, {**record.body, "metadata": {"name": "web", "generation": 2}})
        else:
            newer = {**EC2NODECLASS, "metadata": metadata("default", generation=7), "status": {"conditions": [READY]}}
            cache.nodeclasses.on_event("default", decode_object(json.dumps(newer).encode()))
        await asyncio.sleep(MOMENT)
        assert server.condition("web", HEALTH)["status"] == "Unknown"
        if changed == "class":
            assert server.status("web")["nodeClassObservedGeneration"] == 7
        cache.publish(in_pool("c", LAUNCHED, REGISTERED))
        await asyncio.sleep(MOMENT)
        assert server.condition("web", HEALTH)["status"] == "True"


async def test_ctl21_a_new_leader_takes_over_the_condition_and_counts_what_it_sees_happen() -> None:
    async with keeping(pool("web")) as (cache, server, _):
        cache.publish(*(in_pool(name, LAUNCHED, deleted=TIMED_OUT) for name in "ab"))
        await asyncio.sleep(MOMENT)
        record = cache.pools.get("web")
        assert record is not None
        remainder = dict(record.body)
    old = [in_pool(name, LAUNCHED, REGISTERED) for name in ("old", "older", "oldest")]
    async with keeping(remainder, claims=old) as (cache, server, _):
        assert server.condition("web", HEALTH)["status"] == "False"
        cache.publish(*(in_pool(name, LAUNCHED, REGISTERED) for name in "def"))
        await asyncio.sleep(MOMENT)
        assert server.condition("web", HEALTH)["status"] == "True"
