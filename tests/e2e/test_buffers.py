"""CapacityBuffers as users apply them: room for pods that are not there, used by those that come, and kept."""

from __future__ import annotations

from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import CAPACITYBUFFERS, EVENTS, PODTEMPLATES
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.pools import NAMESPACE, SMALL, Pool, condition
from tests.e2e.worker import Worker
from tests.workflows.waiting import until


async def apply(pool: Pool, replicas: int) -> None:
    """A buffer and its PodTemplate, both named after the pool."""
    template = {"metadata": {"name": pool.name}, "template": {"spec": pool.pod_spec()}}
    await pool.kube.create(PODTEMPLATES, template, NAMESPACE)
    spec = {"podTemplateRef": {"name": pool.name}, "replicas": replicas}
    await pool.kube.create(CAPACITYBUFFERS, {"metadata": {"name": pool.name}, "spec": spec}, NAMESPACE)


async def full(kube: Kube, name: str) -> dict[str, Any]:
    """Wait until a buffer has room for all its pods on nodes that are ready; the buffer."""
    result: dict[str, Any] = {}

    async def so() -> bool:
        result.update(await kube.get(CAPACITYBUFFERS, name, NAMESPACE) or {})
        return condition(result, "Provisioning").get("reason") == "FitsExistingCapacity"

    await until(so)
    return result


async def test_a_buffer_has_nodes_before_pods_come_and_is_refilled_when_they_do(
    make_pool: MakePool, kube: Kube, worker: Worker
) -> None:
    """CB-05 to CB-09, CRD-05, GAT-06, ANN-08: each node holds one pod; nothing is bought twice, and a worker that is
    replaced meanwhile does not take the buffer's nodes for empty.
    """
    pool = await make_pool(consolidate_after="1s", requirements=SMALL)
    await apply(pool, 2)
    try:
        claims = await pool.settled(2)
        buffer = await full(kube, pool.name)
        assert condition(buffer, "ReadyForProvisioning")["reason"] == "Resolved"
        status = {key: buffer["status"][key] for key in ("replicas", "podTemplateRef", "provisioningStrategy")}
        assert status == {
            "replicas": 2,
            "podTemplateRef": {"name": pool.name},
            "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
        }
        assert await pool.pods() == []
        assert all(claim["metadata"]["annotations"][labels.PLANNED_PODS] == "" for claim in claims)

        stopped = worker.stop()
        worker.start()
        assert stopped == 0, f"see {worker.log}"
        await pool.pod("real")
        (pod,) = await pool.running(1)
        assert pod["spec"]["nodeName"] in {claim["status"]["nodeName"] for claim in claims}
        events = await kube.list(EVENTS, field_selector=f"involvedObject.name={pod['metadata']['name']}")
        assert "FailedScheduling" not in {event["reason"] for event in events}
        again = await pool.settled(3)
        assert {claim["metadata"]["name"] for claim in claims} < {claim["metadata"]["name"] for claim in again}
        await full(kube, pool.name)
    finally:
        await kube.delete(CAPACITYBUFFERS, pool.name, namespace=NAMESPACE)
        await kube.delete(PODTEMPLATES, pool.name, namespace=NAMESPACE)
    used = await pool.claim_of(pod)
    for claim in again:
        if claim["metadata"]["name"] != used:
            await pool.gone(claim["metadata"]["name"])
    assert [claim["metadata"]["name"] for claim in await pool.settled(1)] == [used]
    bought = sorted(instance["tags"][labels.TAG_NODECLAIM] for instance in pool.instances())
    assert bought == [claim["metadata"]["name"] for claim in again], await pool.history()
