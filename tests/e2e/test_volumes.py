"""Pods with volumes get nodes where the volumes are, or a word; and what the settings that bear on plans do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODES, PVCS, PVS, STORAGECLASSES, Resource
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.conftest import MakePool, MakeWorker
from tests.e2e.other_worker import in_place_of
from tests.e2e.pools import NAMESPACE, ROOMY, SMALL, Object, Pool
from tests.e2e.worker import Worker
from tests.workflows.waiting import until

ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")


@dataclass
class Disks:
    """Volumes that nobody has to attach: their only rule is the zone."""

    kube: Kube
    created_objects: list[tuple[Resource, str]] = field(default_factory=list)

    async def volume(
        self, name: str, zone: str, storage_class: str = "", modes: Sequence[str] = ("ReadWriteOnce",)
    ) -> None:
        """A volume of a zone."""
        place = {"matchExpressions": [{"key": labels.ZONE, "operator": "In", "values": [zone]}]}
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": list(modes),
            "storageClassName": storage_class,
            "hostPath": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [place]}},
        }
        await self._create(PVS, {"metadata": {"name": name}, "spec": spec})

    async def storage_class(self, name: str, zone: str) -> None:
        """A class whose volumes wait for their pod, in a zone."""
        body = {
            "metadata": {"name": name},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": labels.ZONE, "values": [zone]}]}],
        }
        await self._create(STORAGECLASSES, body)

    async def claim(self, name: str, storage_class: str = "", **spec: Any) -> None:
        """A claim; bound at once if it names its volume."""
        requests = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        body = {"metadata": {"name": name}, "spec": {**requests, "storageClassName": storage_class, **spec}}
        await self._create(PVCS, body, NAMESPACE)
        if "volumeName" in spec:
            await until(lambda: self.bound(name))

    async def bound(self, name: str) -> bool:
        """Whether a claim is bound."""
        claim = await self.kube.get(PVCS, name, NAMESPACE)
        return claim is not None and claim["status"].get("phase") == "Bound"

    async def _create(self, resource: Resource, body: Object, namespace: str = "") -> None:
        await self.kube.create(resource, body, namespace)
        self.created_objects.append((resource, body["metadata"]["name"]))


@pytest_asyncio.fixture(loop_scope="session")
async def disks(kube: Kube) -> AsyncIterator[Disks]:
    """Volumes, claims and classes that are gone after the test; name it before `make_pool`, whose pods use them."""
    disks = Disks(kube)
    yield disks
    for resource, name in reversed(disks.created_objects):
        await kube.delete(resource, name, namespace=NAMESPACE if resource is PVCS else "")


def mounting(claim: str) -> list[Object]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]


async def zone_of(pool: Pool, app: str) -> str:
    """The zone of the node on which a pod runs at last."""
    (pod,) = await pool.running(1, app=app)
    node = await pool.kube.get(NODES, pod["spec"]["nodeName"])
    assert node is not None
    return str(node["metadata"]["labels"][labels.ZONE])


async def test_pods_get_nodes_where_their_bound_volumes_are(disks: Disks, make_pool: MakePool) -> None:
    """SCH-070: whatever zone is cheapest."""
    pool = await make_pool(requirements=SMALL)
    for zone in ZONES:
        name = f"{pool.name}-{zone}"
        await disks.volume(name, zone)
        await disks.claim(name, volumeName=name)
    for zone in ZONES:
        await pool.pod(zone, volumes=mounting(f"{pool.name}-{zone}"))
    assert [await zone_of(pool, zone) for zone in ZONES] == list(ZONES)
    assert len(await pool.claims()) == len(ZONES)


async def test_sch070_of_two_pods_with_a_claim_of_one_pod_at_a_time_the_second_follows_the_first(
    disks: Disks, make_pool: MakePool
) -> None:
    """kube-scheduler would refuse the second one on any node."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")  # the node is empty for a moment
    await disks.volume(pool.name, ZONES[1], modes=["ReadWriteOncePod"])
    await disks.claim(pool.name, volumeName=pool.name, accessModes=["ReadWriteOncePod"])
    for name in ("one", "two"):
        await pool.pod(name, volumes=mounting(pool.name))
    phases: dict[str, str] = {}

    async def one_runs() -> bool:
        phases.update({pod["metadata"]["name"]: pod["status"]["phase"] for pod in await pool.pods()})
        return "Running" in phases.values()

    await until(one_runs)
    first, other = sorted(phases, key=lambda name: phases[name] != "Running")
    await pool.seen(other, "FailedScheduling", f"claim {NAMESPACE}/{pool.name} is ReadWriteOncePod")
    assert len(await pool.claims()) == 1
    await pool.delete_pod(first.removeprefix(f"{pool.name}-"))
    await pool.running(1, app=other.removeprefix(f"{pool.name}-"))
    assert len(pool.instances()) == 1


async def test_a_volume_that_waits_for_its_pod_gets_a_node_where_its_class_allows(
    disks: Disks, make_pool: MakePool
) -> None:
    """SCH-071: Tenon buys the node, kube-scheduler binds the claim and then the pod."""
    pool = await make_pool()
    for zone in reversed(ZONES):
        name = f"{pool.name}-{zone}"
        await disks.storage_class(name, zone)
        await disks.volume(name, zone, name)
        await disks.claim(name, name)
        await pool.pod(zone, volumes=mounting(name))
        assert await zone_of(pool, zone) == zone
        assert await disks.bound(name)


async def test_a_pod_without_its_volume_claim_is_reported_and_runs_once_it_exists(
    disks: Disks, make_pool: MakePool, worker: Worker
) -> None:
    """SCH-004: one sentence, no node; others go on; the claim's arrival is enough, whatever back-off the pod had."""
    pool = await make_pool(requirements=SMALL)
    name = f"{pool.name}-late"
    pod = await pool.pod("late", volumes=mounting(name))
    sentence = f"its volume claim {NAMESPACE}/{name} does not exist: create it"
    message = await pool.seen(pod["metadata"]["name"], "FailedScheduling", sentence)
    assert message.startswith(f"No node is bought for the pod: {sentence}; `tenon explain pod ")

    async def counted() -> bool:
        return worker.metric("karpenter_scheduler_ignored_pods_count") == 1

    await until(counted)
    await pool.pod("other")
    await pool.running(1, app="other")
    assert len(await pool.claims()) == 1
    await disks.volume(name, "us-west-2b")
    await disks.claim(name, volumeName=name)
    assert await zone_of(pool, "late") == "us-west-2b"


@pytest.fixture
def ignoring(worker: Worker, sandbox: Sandbox, make_worker: MakeWorker) -> Iterator[Worker]:
    """Another worker in place of the one of the tests: it ignores preferences."""
    other = make_worker(sandbox, "e2e-ignoring", PREFERENCE_POLICY="Ignore")
    with in_place_of(worker, other):
        yield other


def rather_alone(pool: Pool) -> Object:
    """Affinity of pods that would rather not share a node with each other."""
    term = {"topologyKey": labels.HOSTNAME, "labelSelector": {"matchLabels": {"app": f"{pool.name}-web"}}}
    preferred = [{"weight": 1, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


async def test_preferences_buy_nodes(make_pool: MakePool) -> None:
    """SET-03, SCH-015: the default is to respect them."""
    pool = await make_pool(consolidate_after="Never", requirements=ROOMY)
    await pool.deploy(2, affinity=rather_alone(pool))
    await pool.running(2)
    assert len(await pool.claims()) == 2


async def test_ignored_preferences_buy_none(ignoring: Worker, make_pool: MakePool) -> None:
    """SET-03, SCH-015: PREFERENCE_POLICY=Ignore. The pods come while no worker runs, so that one plan has both."""
    pool = await make_pool(consolidate_after="Never", requirements=ROOMY)
    assert ignoring.stop() == 0
    await pool.deploy(2, affinity=rather_alone(pool))

    async def both_exist() -> bool:
        return len(await pool.pods()) == 2

    await until(both_exist)
    ignoring.start()
    await pool.running(2)
    assert len(await pool.claims()) == 1
