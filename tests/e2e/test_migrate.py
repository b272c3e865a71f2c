"""From Karpenter to Tenon and back, on the same nodes (OPS-04, QRK-15, DIS-75; docs/migrate.md).

One story in several tests, each beginning where the one before ended: a cluster of Karpenter's, with nodes in every
part of their lives, is taken over, given back, and taken over again. `upstream` plays Karpenter.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest_asyncio
from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EVENTS, LEASES, NODECLAIMS, NODEPOOLS, NODES, PDBS, PODS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tenon.apis.hashing import EC2NODECLASS_VERSION, NODEPOOL_VERSION
from tenon.kube.timestamps import parse_instant
from tests.e2e.conftest import Run
from tests.e2e.lives import life_of
from tests.e2e.pools import NAMESPACE, WITHIN, Object, Pool, clear, condition, leaving
from tests.e2e.repair_policies import DEADLOCK, deadlock, stated
from tests.e2e.upstream import FINALIZER, LEASE, LEASE_NAMESPACE, POOL_HASHES, Karpenter
from tests.e2e.upstream_story import Story, delete_at_once, held_for, standing_by
from tests.e2e.worker import Worker
from tests.faults.sweeping import sweep
from tests.workflows.waiting import until
from worker.runtime.election.lease import released_by_tenon

DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
FENCE = {"key": "karpenter.sh/rebooting", "effect": "NoSchedule"}
WHOLE = ("settled", "second", "tainted", "rebooting")
"""The nodes that Karpenter has initialized and does not delete, by what they show."""


@dataclass
class KarpentersStory(Story):
    """With a Karpenter of v1."""

    karpenter: Karpenter

    async def rebooted(self) -> Object:
        """Wait until the node of ``rebooting`` has booted and is initialized; its NodeClaim."""
        claims: list[Object] = []

        async def done() -> bool:
            claim = await self.read("rebooting")
            assert claim is not None
            claims.append(claim)
            booted = condition(claim, "Rebooting").get("reason") == "RebootSucceeded"
            return booted and condition(claim, "Initialized").get("status") == "True"

        await until(done, within=WITHIN)
        return claims[-1]

    def asked_to_reboot(self, sandbox: Sandbox) -> int:
        """How often EC2 was asked to reboot the machine of ``rebooting``."""
        machine = self.karpenter.bought[self.name("rebooting")]
        return sum(machine in str(call) for call in sandbox.ec2().calls("RebootInstances"))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def story(sandbox: Sandbox, kube: Kube, client: Client, worker: Worker) -> AsyncIterator[KarpentersStory]:
    """The package's worker stands still while Karpenter makes its cluster; in the end it serves again."""
    assert await asyncio.to_thread(worker.stop) == 0
    pool = Pool(kube, sandbox, f"upstream-{datetime.now(UTC):%H%M%S}")
    karpenter = Karpenter(kube, sandbox, pool)
    try:
        await karpenter.set_up()
        whole = [karpenter.node(item) for item in WHOLE]
        whole.append(karpenter.node("deleted", terminationGracePeriod="1h"))
        output = await asyncio.gather(*whole)
        claims = dict(zip((*WHOLE, "deleted"), output, strict=True))
        claims["launched"] = await karpenter.claim("launched")
        await karpenter.launch(claims["launched"])
        pods = {}
        for name in (*WHOLE, "deleted"):
            hostname = {"kubernetes.io/hostname": claims[name]["status"]["nodeName"]}
            survivors = {"karpenter.sh/do-not-disrupt": "true"} if name == "deleted" else {}
            pod = await pool.pod(name, annotations=survivors, nodeSelector=hostname)
            pods[pod["metadata"]["name"]] = pod["metadata"]["uid"]
        await pool.running(5)
        del pods[f"{pool.name}-deleted"]
        await karpenter.taint(claims["tainted"])
        await karpenter.reboot(claims["rebooting"])
        story = KarpentersStory(karpenter, worker, client, claims, pods)
        await delete_at_once(story)
        yield story
    finally:
        if not worker.running:
            await asyncio.to_thread(worker.start)
        await clear(pool)
        # A worker that another module starts soon would wait for a Karpenter that has just released it.
        await kube.delete(LEASES, LEASE, namespace=LEASE_NAMESPACE)


async def test_ops04_tenon_does_nothing_while_karpenter_leads(story: KarpentersStory) -> None:
    """It is ready and says whom it waits for; no claim is begun, no hash is written, no node is bought for a pod."""
    before = story.bought()
    async with story.karpenter.leads():
        await asyncio.to_thread(story.worker.start)
        await standing_by(story.worker)

        async def nothing_is_done() -> None:
            assert await story.open() == set()
            assert story.bought() == before
            pool = await story.kube.get(NODEPOOLS, story.pool.name)
            assert pool is not None
            assert POOL_HASHES.items() <= pool["metadata"]["annotations"].items()

        await held_for(nothing_is_done, story)
        events = await story.kube.list(EVENTS, namespace=LEASE_NAMESPACE, field_selector=f"involvedObject.name={LEASE}")
        assert any(event["reason"] == "StandingBy" for event in events)


async def test_every_node_is_taken_over_as_it_is(story: KarpentersStory) -> None:
    """No instance is bought or ended, no pod moves; a disruption that was only begun is taken back."""
    before = story.bought()
    await story.live("settled", "second", "tainted", "launched")
    assert story.bought() == before
    assert await story.pods_now() == story.pods
    for name in ("settled", "second", "tainted", "launched"):
        claim = await story.read(name)
        assert claim is not None
        assert condition(claim, "Ready")["status"] == "True"
        assert condition(claim, "Drifted") == {}
        node = await story.kube.get(NODES, claim["status"]["nodeName"])
        assert node is not None
        assert DISRUPTED not in (node["spec"].get("taints") or [])
        assert node["metadata"]["labels"]["karpenter.sh/initialized"] == "true"


async def test_n15_643_a_reboot_that_karpenter_began_is_finished(story: KarpentersStory, sandbox: Sandbox) -> None:
    """EC2 is not asked again, and the pod has stayed."""
    claim = await story.rebooted()
    node = await story.kube.get(NODES, claim["status"]["nodeName"])
    assert node is not None
    assert FENCE not in (node["spec"].get("taints") or [])
    assert condition(claim, "Initialized")["status"] == "True"
    assert "karpenter.sh/reboot-pre-boot-id" not in claim["metadata"]["annotations"]
    assert story.asked_to_reboot(sandbox) == 1


async def test_conditions_that_karpenter_wrote_stay_if_they_are_true(story: KarpentersStory) -> None:
    """NC-05, NP-S4: Consolidatable goes, because the NodePool says consolidateAfter: Never."""

    async def judged() -> bool:
        return condition(await story.read("settled"), "Consolidatable") == {}

    await until(judged, within=WITHIN)
    assert condition(await story.read("settled"), "ConsistentStateFound")["status"] == "True"
    assert condition(await story.pool.read(), "NodeRegistrationHealthy")["status"] == "True"


async def test_qrk15_what_karpenter_hashed_is_hashed_again_and_never_drifts(story: KarpentersStory) -> None:
    """ANN-03, EC-S10, DIS-75: pool, class and claims carry Tenon's versions, and the same digest as each other."""

    async def rehashed() -> bool:
        result = [await story.pool.read(), *await story.pool.claims()]
        annotations = [obj["metadata"].get("annotations") or {} for obj in result]
        pools = {marks.get("karpenter.sh/nodepool-hash-version") for marks in annotations}
        classes = {marks.get("karpenter.k8s.aws/ec2nodeclass-hash-version") for marks in annotations[1:]}
        return (pools, classes) == ({NODEPOOL_VERSION}, {EC2NODECLASS_VERSION})

    await until(rehashed)
    pool, claim = await story.pool.read(), await story.read("settled")
    assert claim is not None
    ours, its = pool["metadata"]["annotations"], claim["metadata"]["annotations"]
    assert its["karpenter.sh/nodepool-hash"] == ours["karpenter.sh/nodepool-hash"]
    assert its["karpenter.k8s.aws/ec2nodeclass-hash-version"] == EC2NODECLASS_VERSION


async def test_dis80_expiry_counts_from_the_claims_creation(story: KarpentersStory) -> None:
    claim = await story.read("second")
    assert claim is not None
    created = parse_instant(claim["metadata"]["creationTimestamp"])
    assert created is not None
    assert (await story.state("second")).expires_at == created + timedelta(hours=720)


async def test_trm06_a_deletion_that_karpenter_began_is_carried_to_its_end(story: KarpentersStory) -> None:
    """Its termination timestamp, not the grace period counted again, ends the pod that nothing may disrupt."""
    await story.pool.gone(story.name("deleted"))
    assert await story.kube.get(PODS, f"{story.pool.name}-deleted", NAMESPACE) is None


async def test_aan02_a_sweep_ends_nothing_and_mends_tags(story: KarpentersStory, sandbox: Sandbox) -> None:
    """ACT-04, AWS-122: a claim that was not tagged yet has its tags now."""
    living = story.living()
    report = await sweep(story.client, sandbox.cluster_name)
    assert set(report.figures) <= {"untagged_instance"}
    assert story.living() == living
    instance_id = story.karpenter.bought[story.name("launched")]
    (tags,) = [i["tags"] for i in story.pool.instances() if i["id"] == instance_id]
    assert tags["karpenter.sh/nodeclaim"] == story.name("launched")
    claim = await story.read("launched")
    assert claim is not None
    assert claim["metadata"]["annotations"]["karpenter.k8s.aws/tagged"] == "true"


async def test_ops04_open_workflows_do_nothing_while_a_karpenter_that_came_back_leads(
    story: KarpentersStory, tenon: Run
) -> None:
    """A node that is told to leave leaves when Tenon leads again, and not before."""
    living = story.living()
    async with story.karpenter.leads():
        await standing_by(story.worker)
        done = await asyncio.to_thread(tenon, "node", "expire", story.name("second"))
        assert done.returncode == 0, done.stderr

        async def nobody_leaves() -> None:
            claim = await story.read("second")
            assert claim is not None
            assert "deletionTimestamp" not in claim["metadata"]
            assert story.living() == living

        await held_for(nobody_leaves, story)
    await story.pool.gone(story.name("second"))
    del story.pods[f"{story.pool.name}-second"]
    assert await story.pods_now() == story.pods


async def test_handback_leaves_the_cluster_as_karpenter_would_have_it(
    story: KarpentersStory, tenon: Run, sandbox: Sandbox
) -> None:
    """No workflow is left, no mark of Tenon's on a node; instances, pods and finalizers stay."""

    async def leads_again() -> bool:
        """The process that calls EC2 may have gone on before the other one had the Lease back from Karpenter."""
        lease = await story.kube.get(LEASES, LEASE, "tenon")
        return lease is not None and bool(lease["spec"].get("holderIdentity"))

    await until(leads_again)
    refused = await asyncio.to_thread(tenon, "handback", "--yes")
    assert refused.returncode == 2
    assert "stop all workers first" in refused.stderr
    await story.pool.deploy(1, app="new", cpu="3")  # a node of Tenon's own goes the same way
    await story.pool.running(1, app="new")
    await story.pool.settled(5)
    assert await asyncio.to_thread(story.worker.stop) == 0
    living, pods = story.living(), await story.pods_now()
    done = await asyncio.to_thread(tenon, "handback", "--yes")
    assert done.returncode == 0, done.stderr
    assert await story.open() == set()
    claims, nodes = await story.pool.claims(), await story.pool.nodes()
    assert (len(claims), len(nodes)) == (5, 5)
    for obj in (*claims, *nodes):
        metadata = obj["metadata"]
        assert FINALIZER in metadata["finalizers"]
        assert not [k for k in (*metadata["labels"], *metadata["annotations"]) if k.startswith("tenon.sh/")]
        assert "deletionTimestamp" not in metadata
    for claim in claims:  # AAN-01: so that Karpenter tags nothing again, and deletes no profile that is in use
        annotations = claim["metadata"]["annotations"]
        assert (
            annotations["karpenter.k8s.aws/tagged"]
            == annotations["compatibility.karpenter.k8s.aws/cluster-name-tagged"]
            == "true"
        )
        assert annotations["karpenter.k8s.aws/instance-profile-name"]
    for node in nodes:
        assert DISRUPTED not in (node["spec"].get("taints") or [])
        assert not node["spec"].get("unschedulable")
    assert (story.living(), await story.pods_now()) == (living, pods)
    lease = await story.kube.get(LEASES, LEASE, "tenon")
    assert lease is not None
    assert lease["spec"].get("holderIdentity", "") == ""
    assert released_by_tenon(lease), "so that Tenon's next start need not wait for a Karpenter of this namespace"
    assert "app.kubernetes.io/managed-by" not in (lease["metadata"].get("labels") or {})


async def test_dis75_karpenter_may_rehash_and_tenon_take_over_once_more(story: KarpentersStory) -> None:
    """Karpenter's return (versions differ: it writes its hashes again) and a second take-over move nobody."""
    for claim in await story.pool.claims():
        await story.kube.patch(NODECLAIMS, claim["metadata"]["name"], {"metadata": {"annotations": POOL_HASHES}})
    await story.kube.patch(NODEPOOLS, story.pool.name, {"metadata": {"annotations": POOL_HASHES}})
    living = story.living()
    await asyncio.to_thread(story.worker.start)
    await story.live("settled", "tainted", "launched")
    assert story.living() == living
    assert await story.pods_now() == story.pods


async def test_a_node_that_was_taken_over_drains_as_any_other(story: KarpentersStory, tenon: Run) -> None:
    """TRM-01: `tenon node drain`, and the deletion of the Node by kubectl."""
    done = await asyncio.to_thread(tenon, "node", "drain", story.name("settled"))
    assert done.returncode == 0, done.stderr
    await story.kube.delete(NODES, story.claims["tainted"]["status"]["nodeName"])
    await story.pool.gone(story.name("settled"))
    await story.pool.gone(story.name("tainted"))


async def test_n15_649_handback_in_the_middle_of_a_drain_a_reboot_and_a_repair_loses_nothing(
    story: KarpentersStory, tenon: Run, sandbox: Sandbox, client: Client
) -> None:
    """N15-641: Karpenter finds them in its own form, and Tenon ends each of them once when it leads again.

    The drain and the reboot wait for PodDisruptionBudgets, and the repair for an instance that does not join.
    """
    pool, kube, ec2 = story.pool, story.kube, sandbox.ec2()
    (pod,) = await pool.pods("new")
    drained, rebooting, sick = await pool.claim_of(pod), story.name("rebooting"), story.name("launched")
    budgets = [await pool.protect(app) for app in ("new", "rebooting")]
    async with stated(kube, sandbox) as policies:
        await policies.state(pool.name, {**DEADLOCK, "terminationGracePeriod": "5m"})
        await pool.deploy(1, app="sick")  # only this node has room
        await pool.running(1, app="sick")
        bought = story.bought()
        ec2.boot(never=True)
        try:
            claim = await story.read("launched")
            assert claim is not None
            deadlock(sandbox, claim["status"]["nodeName"])

            async def is_repaired() -> bool:
                marked = condition(await story.read("launched"), "DisruptionReason").get("status") == "True"
                return marked and len(story.bought() - bought) == 1

            await until(is_repaired, within=WITHIN)  # the others use up the budget
            for command in (("drain", drained), ("reboot", rebooting, "--reason", "a test", "--no-wait")):
                done = await asyncio.to_thread(tenon, "node", *command)
                assert done.returncode == 0, done.stderr

            async def all_are_under_way() -> bool:
                claims = {claim["metadata"]["name"]: claim for claim in await pool.claims()}
                requested = condition(claims[rebooting], "Rebooting").get("reason") == "RebootRequested"
                return leaving(claims[drained]) and requested

            await until(all_are_under_way, within=WITHIN)
            assert await asyncio.to_thread(story.worker.stop) == 0
            done = await asyncio.to_thread(tenon, "handback", "--yes")
            assert done.returncode == 0, done.stderr
            claims = {claim["metadata"]["name"]: claim for claim in await pool.claims()}
            taints = {str(node["spec"]["providerID"]): node["spec"].get("taints") or [] for node in await pool.nodes()}
            of = {name: taints.get(str(claim["status"].get("providerID")), []) for name, claim in claims.items()}
            assert leaving(claims[drained])
            assert FINALIZER in claims[drained]["metadata"]["finalizers"]
            assert DISRUPTED in of[drained]
            assert condition(claims[rebooting], "Rebooting")["status"] == "True"
            assert FENCE in of[rebooting]
            assert not leaving(claims[sick])
            assert DISRUPTED not in of[sick], "Karpenter decides that itself"
            for claim in claims.values():
                marks = {key for key in claim["metadata"]["annotations"] if key.startswith("tenon.sh/")}
                assert marks <= {labels.REBOOTS}, "reboots of the last day count when Tenon leads again"
        finally:
            ec2.clear_boot()
        await kube.delete(LEASES, LEASE, namespace=LEASE_NAMESPACE)  # Karpenter's, which nobody has held since
        await asyncio.to_thread(story.worker.start)
        for budget in budgets:
            await kube.delete(PDBS, budget, namespace=NAMESPACE)
        await asyncio.gather(pool.gone(drained), pool.gone(sick))
        await story.rebooted()
    await pool.running(1, app="new")
    await pool.running(1, app="sick")
    assert story.asked_to_reboot(sandbox) == 2, "once for Karpenter and once for this reboot"
    assert (await life_of(client, sandbox, sick)).reason == "Unhealthy"
