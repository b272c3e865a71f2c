"""A cluster that Karpenter made and that changes hands: what is in it, and what a test waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import LEASES, NODECLAIMS, NODES, PODS
from tenon.node.state import NodeState
from tests.e2e.pools import NAMESPACE, WITHIN, Object, Pool, condition
from tests.e2e.upstream import LEASE, LEASE_NAMESPACE, Karpenter
from tests.e2e.upstream_beta import OldKarpenter
from tests.e2e.worker import Worker
from tests.workflows.waiting import until
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow


@dataclass
class Story:
    """A cluster that Karpenter made, and the controller that manages it now."""

    karpenter: Karpenter | OldKarpenter
    worker: Worker
    client: Client
    claims: dict[str, Object]
    """By what they show: ``settled``, ``second``, ``tainted`` (a disruption was begun), ``launched`` (not registered),
    ``deleted`` (its grace period is over in a moment)."""
    pods: dict[str, str]
    """Name -> UID of the pods that no change of controllers may move."""

    @property
    def pool(self) -> Pool:
        return self.karpenter.pool

    @property
    def kube(self) -> Kube:
        return self.karpenter.kube

    def name(self, name: str) -> str:
        return str(self.claims[name]["metadata"]["name"])

    async def read(self, name: str) -> Object | None:
        return await self.kube.get(NODECLAIMS, self.name(name))

    async def state(self, name: str) -> NodeState:
        workflow_id = names.nodeclaim_id(self.karpenter.sandbox.cluster_name, self.name(name))
        return await self.client.get_workflow_handle_for(NodeClaimWorkflow.run, workflow_id).query(
            NodeClaimWorkflow.status
        )

    async def open(self) -> set[str]:
        """The pool's claims whose workflow is open."""
        query = names.open_nodeclaims_query(self.karpenter.sandbox.cluster_name)
        return {
            workflow.id.rsplit("/", 1)[-1]
            async for workflow in self.client.list_workflows(query)
            if self.pool.name in workflow.id
        }

    async def live(self, *name: str) -> None:
        """Wait until these nodes are at rest in workflows of their own."""
        names = {self.name(item) for item in name}

        async def rests() -> bool:
            if not names <= await self.open():
                return False
            return all([(await self.state(item)).stage.value == "live" for item in name])

        await until(rests, within=WITHIN)

    async def pods_now(self) -> dict[str, str]:
        pods = await self.kube.list(PODS, namespace=NAMESPACE, field_selector="status.phase=Running")
        return {p["metadata"]["name"]: p["metadata"]["uid"] for p in pods if p["metadata"]["name"] in self.pods}

    def bought(self) -> set[str]:
        """Every instance that there ever was of the pool."""
        return {instance["id"] for instance in self.pool.instances()}

    def living(self) -> set[str]:
        return {i["id"] for i in self.pool.instances() if i["state"] not in ("shutting-down", "terminated")}


async def delete_at_once(story: Story) -> None:
    """As Karpenter was told to: the drain has begun, and ends by force in a moment."""
    soon = (datetime.now(UTC) + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    written = {"metadata": {"annotations": {"karpenter.sh/nodeclaim-termination-timestamp": soon}}}
    await story.kube.patch(NODECLAIMS, story.name("deleted"), written)
    await story.karpenter.taint(story.claims["deleted"])
    await story.kube.delete(NODECLAIMS, story.name("deleted"))
    await story.kube.delete(NODES, story.claims["deleted"]["status"]["nodeName"])


async def standing_by(worker: Worker) -> None:
    async def stands_by() -> bool:
        return await asyncio.to_thread(worker.metric, "tenon_standing_by") == 1

    await until(stands_by)


async def held_for(check: Callable[[], Awaitable[None]], story: Story) -> None:
    """A pod that fits nowhere comes, and Karpenter renews its Lease three times: who acts would show it."""
    pod = await story.pool.pod("asks", cpu="3")
    renewals: set[str] = set()

    async def renewed() -> bool:
        await check()
        result = await story.kube.get(PODS, pod["metadata"]["name"], NAMESPACE)
        lease = await story.kube.get(LEASES, LEASE, LEASE_NAMESPACE)
        assert result is not None
        assert lease is not None
        if condition(result, "PodScheduled").get("reason") == "Unschedulable":
            renewals.add(lease["metadata"]["resourceVersion"])
        return len(renewals) > 3

    await until(renewed)
    await story.pool.delete_pod("asks")
