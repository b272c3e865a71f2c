"""A workload with one replica moves without a moment in which it does not serve (WSH-16)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from activities.kubernetes.resources import DEPLOYMENTS, EC2NODECLASSES, PDBS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.moments import recorded
from tests.e2e.pools import KEY, NAMESPACE, SMALL, WITHIN, Object, Pool
from tests.e2e.restart_right import may_restart
from tests.workflows.waiting import until

DRIFT = {"spec": {"userData": "echo changed"}}


@pytest.fixture
def right(sandbox: Sandbox) -> Iterator[None]:
    """The right that an operator gives Tenon for this."""
    with may_restart(sandbox):
        yield


async def deployed(pool: Pool, **spec: object) -> str:
    """A Deployment of one pod that asks to start its new pod first, and a budget that lets no pod go; its name."""
    name = f"{pool.name}-db"
    own = {KEY: pool.name, "app": name}
    body: Object = {
        "metadata": {"name": name, "labels": {KEY: pool.name}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": own},
            "template": {
                "metadata": {"labels": own, "annotations": {labels.SURGE: "true"}},
                "spec": pool.pod_spec(),
            },
            **spec,
        },
    }
    await pool.kube.create(DEPLOYMENTS, body, NAMESPACE)
    budget = {"minAvailable": 1, "selector": {"matchLabels": own}}
    await pool.kube.create(PDBS, {"metadata": {"name": name, "labels": {KEY: pool.name}}, "spec": budget}, NAMESPACE)
    await pool.running(1)
    return name


@pytest.mark.usefixtures("right")
async def test_wsh16_a_single_replica_moves_off_a_drifted_node_and_serves_all_the_time(make_pool: MakePool) -> None:
    pool: Pool = await make_pool(requirements=SMALL)
    name = await deployed(pool)
    (old,) = await pool.settled(1)

    async def serves() -> bool:
        deployment = await pool.kube.get(DEPLOYMENTS, name, NAMESPACE)
        return deployment is not None and deployment["status"].get("readyReplicas") == 1

    await until(serves)
    async with recorded(pool.kube, f"{KEY}={pool.name}", (DEPLOYMENTS,)) as moments:
        await pool.kube.patch(EC2NODECLASSES, pool.name, DRIFT)
        await pool.gone(old["metadata"]["name"], within=2 * WITHIN)
        await pool.running(1)
    ready = [item["status"].get("readyReplicas", 0) for at in moments.replay() for item in at["Deployment"].values()]
    assert ready
    assert min(ready) >= 1
    assert max(ready) == 2, "the new pod served before the old one left"
    (new,) = await pool.settled(1)
    (pod,) = await pool.pods()
    assert await pool.claim_of(pod) == new["metadata"]["name"]


@pytest.mark.usefixtures("right")
async def test_wsh16_a_deployment_that_cannot_start_its_new_pod_first_keeps_its_node(make_pool: MakePool) -> None:
    """And nothing is launched for it in vain."""
    pool: Pool = await make_pool(requirements=SMALL)
    name = await deployed(pool, strategy={"type": "Recreate"})
    (old,) = await pool.settled(1)
    await pool.kube.patch(EC2NODECLASSES, pool.name, DRIFT)
    text = await pool.seen(old["metadata"]["name"], "DisruptionBlocked", name)
    assert text == f"Deployment {NAMESPACE}/{name} cannot start its new pod first: its strategy is Recreate"
    assert len(pool.instances()) == 1


async def test_wsh16_without_the_right_the_node_stays_and_says_what_is_missing(make_pool: MakePool) -> None:
    pool: Pool = await make_pool(requirements=SMALL)
    name = await deployed(pool)
    (old,) = await pool.settled(1)
    await pool.kube.patch(EC2NODECLASSES, pool.name, DRIFT)
    text = await pool.seen(old["metadata"]["name"], "DisruptionBlocked", name)
    assert text.startswith(f"Tenon may not restart Deployment {NAMESPACE}/{name}")
    assert len(pool.instances()) == 1
