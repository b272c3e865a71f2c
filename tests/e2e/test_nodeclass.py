"""An EC2NodeClass from outside: what a user is told of it, and what goes with it."""

from __future__ import annotations

from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EC2NODECLASSES, NODEPOOLS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.account import instance_profiles, launch_templates
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL, condition
from tests.workflows.waiting import until


async def test_ecs11_fin02_a_class_outlives_its_last_node_and_takes_what_was_made_for_it(
    make_pool: MakePool, sandbox: Sandbox, kube: Kube
) -> None:
    """It says what it waits for and harms no node; then it need not wait for its next look, a minute later."""
    pool = await make_pool(requirements=SMALL)
    await pool.deploy(1)
    (pod,) = await pool.running(1)
    (claim,) = await pool.settled(1)
    node_class = await kube.get(EC2NODECLASSES, pool.name) or {}
    assert labels.NODECLASS_FINALIZER in node_class["metadata"]["finalizers"]
    profile = node_class["status"]["instanceProfile"]
    assert profile in instance_profiles(sandbox)
    assert launch_templates(sandbox, pool.name)

    await kube.delete(EC2NODECLASSES, pool.name)
    await pool.seen(pool.name, "WaitingOnNodeClaimTermination", claim["metadata"]["name"])
    assert [item["metadata"]["uid"] for item in await pool.running(1)] == [pod["metadata"]["uid"]]
    assert profile in instance_profiles(sandbox)

    await kube.delete(NODEPOOLS, pool.name)
    await pool.gone(claim["metadata"]["name"])

    async def class_gone() -> bool:
        return await kube.get(EC2NODECLASSES, pool.name) is None

    await until(class_gone)
    assert profile not in instance_profiles(sandbox)
    assert launch_templates(sandbox, pool.name) == []


async def test_fin02_a_finalizer_that_a_plain_update_wiped_comes_back(make_pool: MakePool, kube: Kube) -> None:
    """As `kubectl replace` does: a class without it would vanish at once, and leave its instance profile."""
    pool = await make_pool(requirements=SMALL)

    async def guarded() -> bool:
        node_class = await kube.get(EC2NODECLASSES, pool.name) or {}
        return labels.NODECLASS_FINALIZER in (node_class["metadata"].get("finalizers") or ())

    await until(guarded)
    await kube.patch(EC2NODECLASSES, pool.name, {"metadata": {"finalizers": None}})
    await until(guarded)


async def test_ecs7_kubelet_settings_for_al2023_only_are_reported_on_another_family(
    make_pool: MakePool, kube: Kube
) -> None:
    """EC-13: the API server cannot tell, so the class is not ready and says why; nor is its NodePool."""
    pool = await make_pool(
        ready=False,
        amiSelectorTerms=[{"alias": "bottlerocket@latest"}],
        kubelet={"topologyManagerPolicy": "restricted"},
    )
    result: dict[str, Any] = {}

    async def told() -> bool:
        result.update(condition(await kube.get(EC2NODECLASSES, pool.name), "ValidationSucceeded"))
        return result.get("status") == "False"

    await until(told)
    assert result["reason"] == "UnsupportedKubeletConfiguration"
    assert (
        result["message"]
        == "spec.kubelet.topologyManagerPolicy: is passed on to AL2023 nodes only, not to Bottlerocket: remove it"
    )

    async def pool_waits() -> bool:
        return condition(await pool.read(), "NodeClassReady").get("status") == "False"

    await until(pool_waits)
