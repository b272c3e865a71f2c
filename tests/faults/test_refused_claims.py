"""The API server refuses NodeClaims: their pods hear why, all others run."""

from __future__ import annotations

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEPOOLS
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL
from tests.e2e.worker_process import WorkerProcess
from tests.faults.admission import no_nodeclaim_with

CLOSED = "this pool is closed until the audit is over"


async def test_a_policy_against_one_pool_leaves_the_others_alone(
    make_pool: MakePool, kube: Kube, worker: WorkerProcess
) -> None:
    """Both pools' pods are of one batch; the policy's own words are on the pods and on the pool."""
    closed, open_ = await make_pool(requirements=SMALL), await make_pool(requirements=SMALL)
    async with no_nodeclaim_with(kube, labels.NODEPOOL, closed.name, CLOSED):
        before = worker.metric("tenon_nodeclaims_refused_total", nodepool=closed.name)
        await closed.pod("waits", cpu="1500m")  # the largest pod is planned first, so its claim is refused first
        await open_.deploy(3)
        await open_.running(3)
        text = await closed.seen(f"{closed.name}-waits", "FailedScheduling", CLOSED)
        assert f"NodePool {closed.name}" in text
        assert "Tenon retries" in text
        await closed.seen(closed.name, "FailedCreate", CLOSED)
        assert await closed.claims() == []
        assert worker.metric("tenon_nodeclaims_refused_total", nodepool=closed.name) > before
    await kube.patch(NODEPOOLS, closed.name, {"spec": {"weight": 2}})  # a pool that changed is asked again at once
    await closed.running(1)
