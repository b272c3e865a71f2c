"""Two replicas of the worker, and who leads."""

from __future__ import annotations

from dataclasses import dataclass

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import LEASES
from sandbox.cluster import Sandbox
from sandbox.faults.apiproxy import ApiProxy
from tests.e2e.pools import WITHIN
from tests.e2e.worker_process import WorkerProcess
from tests.workflows.waiting import until

LEASE, LEASE_NAMESPACE = "karpenter-leader-election", "tenon"


@dataclass
class Replica:
    """A worker and what it takes for the API server."""

    worker: WorkerProcess
    api: ApiProxy
    webhook: int
    """Its port."""


async def holder(kube: Kube) -> str:
    """Who holds the Lease; empty when nobody does."""
    lease = await kube.get(LEASES, LEASE, LEASE_NAMESPACE)
    return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")


async def led_by_another(kube: Kube, than: str) -> None:
    """Wait until somebody else than ``than`` holds the Lease."""

    async def taken_over() -> bool:
        return await holder(kube) not in ("", than)

    await until(taken_over, within=WITHIN)


def replica(sandbox: Sandbox, api: ApiProxy, number: int, **changes: str) -> Replica:
    """A replica behind this proxy that was not started yet."""
    worker = WorkerProcess(sandbox, f"replica-{number}", replica=number, KUBECONFIG=str(api.kubeconfig), **changes)
    return Replica(worker, api, int(sandbox.worker_env(number)["WEBHOOK_PORT"]))
