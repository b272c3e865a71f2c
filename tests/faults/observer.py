"""Somebody who sees only EC2 and Kubernetes, and tells afterwards whether anything was bought twice or lost.

It knows nothing of Temporal or of Tenon's insides, so that it convicts both. ``async with observed(pool) as seen``
watches while a test does its worst; on leaving, all that the pools had must be gone, and what was seen must be right.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import DEPLOYMENTS, NODECLAIMS, NODES, PODS, Resource
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.pools import KEY, NAMESPACE, Pool, leaving
from tests.workflows.waiting import until

Object = dict[str, Any]
LOOK_SECONDS = 0.5
END_SECONDS = 120.0
LIVING = frozenset({"pending", "running", "stopping", "stopped"})
UNREADABLE = (ApiError, OSError, ValueError)
"""What reading meets while the API server or EC2 is down or refuses; `Ec2Admin` raises the last two."""


@dataclass
class Deployment:
    """What is known of one Deployment and of its pods, by uid."""

    replicas: int
    scaled_down: bool = False
    ran: dict[str, str] = field(default_factory=dict)


class Observer:
    """What happened to some pools, as EC2 and Kubernetes told it."""

    def __init__(self, kube: Kube, sandbox: Sandbox, pools: tuple[Pool, ...]) -> None:
        self._kube = kube
        self._ec2 = sandbox.ec2()
        self._names = sorted(pool.name for pool in pools)
        self._deployments: dict[str, Deployment] = {}
        self._may_move: set[str] = set()
        self._looking = asyncio.Lock()
        self.claims: set[str] = set()
        """Every NodeClaim that was ever seen."""
        self.instances: dict[str, set[str]] = defaultdict(set)
        """By the NodeClaim that each instance's tag names, or that names it: every instance that was ever seen."""
        self.untagged: dict[str, str] = {}
        """Instances that lead to no NodeClaim yet, and their NodePool."""
        self._instance_ids: set[str] = set()
        self.faults: set[str] = set()
        """A sentence for each thing that must never happen."""

    def may_move(self, pool: Pool, app: str = "web") -> None:
        """The pods of this app may be evicted from now on, if they run elsewhere afterwards."""
        self._may_move.add(f"{pool.name}-{app}")

    def bought(self, pool: Pool) -> int:
        """How many instances were ever seen of a pool."""
        tagged = sum(len(ids) for claim, ids in self.instances.items() if _of(pool.name, claim))
        return tagged + sum(of == pool.name for of in self.untagged.values())

    async def watch(self) -> None:
        """Look again and again, until cancelled; what cannot be read now is read a moment later."""
        while True:
            with suppress(*UNREADABLE):
                await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Look once. Of two looks at a time, the one that read first might note last that a new pod is not there."""
        async with self._looking:
            await self._look()

    async def _look(self) -> None:
        instances = await self._instances()  # before the claims: an instance that was seen has its claim in the list
        claims = await self._mine(NODECLAIMS, labels.NODEPOOL)
        self.claims |= {claim["metadata"]["name"] for claim in claims}
        self._note_instances(instances, claims)
        pods = await self._mine(PODS, KEY, NAMESPACE)  # before the Deployments: those shrink first
        for deployment in await self._mine(DEPLOYMENTS, KEY, NAMESPACE):
            self._note_replicas(deployment["metadata"]["name"], deployment["spec"]["replicas"])
        self._note_pods(pods)
        for pod in await asyncio.to_thread(self._ec2.misplaced):
            if any(_of(name, pod["name"]) for name in self._names):
                self.faults.add(f"pod {pod['name']} was bound to {pod['node']} in spite of {pod['taints']}")

    async def whole(self, pool: Pool) -> None:
        """Wait until every Deployment of a pool has all its pods running."""
        missing: list[str] = []

        async def all_run() -> bool:
            await self.look()
            running = Counter(
                pod["metadata"]["labels"]["app"]
                for pod in await self._mine(PODS, KEY, NAMESPACE, pool)
                if pod["status"]["phase"] == "Running" and not leaving(pod)
            )
            missing[:] = [
                f"{name} has {running[name]} of {deployment.replicas} pods running"
                for name, deployment in self._deployments.items()
                if _of(pool.name, name) and running[name] != deployment.replicas
            ]
            return not missing

        await _until(all_run, missing)

    async def nothing_left(self, pool: Pool) -> None:
        """Wait until no claim, Node or living instance of a pool is left."""
        names: list[str] = []

        async def all_gone() -> bool:
            await self.look()
            claims = await self._mine(NODECLAIMS, labels.NODEPOOL, "", pool)
            claims += await self._mine(NODES, labels.NODEPOOL, "", pool)
            names[:] = [f"{item['kind']} {item['metadata']['name']} is left" for item in claims]
            names.extend(
                f"instance {instance['id']} is {instance['state']}"
                for instance in await self._instances()
                if instance["state"] in LIVING and instance["tags"][labels.TAG_NODEPOOL] == pool.name
            )
            return not names

        await _until(all_gone, names)

    def judge(self, pool: Pool) -> None:
        """Assert that no claim of a pool had two instances, no instance lacked a claim, and no pod was lost."""
        faults = sorted(fault for fault in self.faults if f"{pool.name}-" in fault)
        for claim, ids in self.instances.items():
            if _of(pool.name, claim) and len(ids) > 1:
                faults.append(f"{len(ids)} instances were bought for {claim}: {sorted(ids)}")
            if _of(pool.name, claim) and claim not in self.claims:
                faults.append(f"{sorted(ids)} was bought for {claim}, which nobody ever saw")
        faults += [f"{key} was bought for no NodeClaim" for key, of in self.untagged.items() if of == pool.name]
        for item, owners in self._owners().items():
            if len(owners) > 1 and any(_of(pool.name, claim) for claim in owners):
                faults.append(f"{item} was given to {sorted(owners)}")
        assert not faults, "; ".join(faults)

    def _owners(self) -> dict[str, set[str]]:
        owners: dict[str, set[str]] = defaultdict(set)
        for claim, ids in self.instances.items():
            for item in ids:
                owners[item].add(claim)
        return owners

    async def _mine(
        self, resource: Resource, label: str, namespace: str = "", pool: Pool | None = None
    ) -> list[Object]:
        names = [pool.name] if pool else self._names
        text = f"{label} in ({','.join(names)})"
        return await self._kube.list(resource, namespace=namespace, label_selector=text)

    async def _instances(self) -> list[Object]:
        instances = await asyncio.to_thread(self._ec2.instances)
        return [item for item in instances if item["tags"].get(labels.TAG_NODEPOOL) in self._names]

    def _note_instances(self, instances: list[Object], claims: list[Object]) -> None:
        """Whose each instance is. One that was launched with a group gets its claim's tag when its Node joins."""
        for claim in claims:
            provider_id = (claim.get("status") or {}).get("providerID") or ""
            if provider_id:
                self._of(provider_id.rsplit("/", 1)[-1], claim["metadata"]["name"])
        for instance in instances:
            name = instance["tags"].get(labels.TAG_NODECLAIM)
            if name is None and instance["id"] not in self._instance_ids:
                self.untagged.setdefault(instance["id"], instance["tags"][labels.TAG_NODEPOOL])
            elif name is not None:
                self._of(instance["id"], name)

    def _of(self, instance_id: str, claim: str) -> None:
        self.untagged.pop(instance_id, None)
        self._instance_ids.add(instance_id)
        self.instances[claim].add(instance_id)

    def _note_replicas(self, name: str, replicas: int) -> None:
        deployment = self._deployments.setdefault(name, Deployment(replicas))
        deployment.scaled_down = deployment.scaled_down or replicas < deployment.replicas
        deployment.replicas = replicas

    def _note_pods(self, pods: list[Object]) -> None:
        """A pod that ran and goes although nobody scaled its Deployment down was evicted."""
        staying = {pod["metadata"]["uid"]: pod for pod in pods if not leaving(pod)}
        for name, deployment in self._deployments.items():
            if not deployment.scaled_down and name not in self._may_move:
                pod_names = [pod_name for uid, pod_name in deployment.ran.items() if uid not in staying]
                self.faults |= {f"pod {pod_name} ran and was evicted" for pod_name in pod_names}
        for uid, pod in staying.items():
            owner = self._deployments.get(pod["metadata"]["labels"].get("app", ""))
            if owner is not None and pod["status"]["phase"] == "Running":
                owner.ran[uid] = pod["metadata"]["name"]


def _of(pool: str, name: str) -> bool:
    """Whether a claim, pod or Deployment belongs to a pool, as names begin with their pool's."""
    return name.startswith(f"{pool}-")


async def _until(condition: Callable[[], Awaitable[bool]], names: list[str]) -> None:
    """As `until`; the failure says ``names`` was still missing."""

    async def tried() -> bool:
        try:
            return await condition()
        except UNREADABLE as error:
            names[:] = [str(error)]
            return False

    try:
        await until(tried, within=END_SECONDS)
    except TimeoutError:
        raise AssertionError(f"after {END_SECONDS:.0f} s: {'; '.join(names)}") from None


@asynccontextmanager
async def watching(kube: Kube, sandbox: Sandbox, *pools: Pool) -> AsyncIterator[Observer]:
    """Observe pools from now on; judging them is the caller's."""
    observer = Observer(kube, sandbox, pools)
    task = asyncio.create_task(observer.watch(), name="observer")
    try:
        yield observer
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def observed(kube: Kube, sandbox: Sandbox, *pools: Pool) -> AsyncIterator[Observer]:
    """Observe pools from now on; leaving waits until nothing of them is left, and judges what was seen."""
    async with watching(kube, sandbox, *pools) as observer:
        yield observer
        for pool in pools:
            await observer.nothing_left(pool)
            observer.judge(pool)
