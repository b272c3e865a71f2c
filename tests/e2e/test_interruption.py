"""A worker that reads the interruption queue: what AWS announces about an instance reaches its node and its pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODES
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.conftest import MakePool, NewPool
from tests.e2e.lives import life_of
from tests.e2e.pools import SMALL, Pool, leaving
from tests.e2e.worker import Worker
from tests.e2e.worker_process import WorkerProcess
from tests.workflows.waiting import until

ROOM_FOR_FIVE = [
    {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["8"]},
    {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["spot"]},
]
TAINT = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def reader(sandbox: Sandbox, worker: Worker) -> Iterator[WorkerProcess]:
    """A second replica, the only one that reads the queue. The first one leads.

    It is a process next to the first one, in pods too, because all replicas of a release have the same settings.
    """
    running = WorkerProcess(sandbox, "queue-reader", replica=1, INTERRUPTION_QUEUE=sandbox.cluster_name)
    running.start()
    yield running
    assert running.stop() == 0, f"see {running.log}"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pool(reader: WorkerProcess, new_pool: NewPool) -> AsyncIterator[Pool]:
    async with new_pool(requirements=ROOM_FOR_FIVE, consolidate_after="Never") as pool:
        await pool.deploy(5)
        yield pool


class Queue:
    """The queue, as its owner sees it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sqs: Any = sandbox.aws("sqs")
        self._url = self._sqs.get_queue_url(QueueName=sandbox.cluster_name)["QueueUrl"]

    async def empty(self) -> bool:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        attributes = self._sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=names)["Attributes"]
        return not any(int(number) for number in attributes.values())

    def send(self, body: str) -> None:
        self._sqs.send_message(QueueUrl=self._url, MessageBody=body)


@pytest.fixture(scope="module")
def queue(sandbox: Sandbox) -> Queue:
    return Queue(sandbox)


async def claim_to_interrupt(pool: Pool) -> tuple[str, str, str]:
    """The NodeClaim of one of the five pods, its Node, and its instance.

    Mostly all five share it. If the node drained while the replacement was planned, there may be two.
    """
    pods = await pool.running(5)
    name = await pool.claim_of(pods[0])
    claim = await pool.kube.get(NODECLAIMS, name)
    assert claim is not None
    assert claim["metadata"]["labels"][labels.CAPACITY_TYPE] == "spot"
    return name, claim["status"]["nodeName"], claim["status"]["providerID"].rsplit("/", 1)[-1]


async def replacements(pool: Pool, claim: str) -> list[str]:
    """The instances on which all five pods run after a NodeClaim is gone."""
    await pool.gone(claim)
    pods = await pool.running(5)
    claims = {await pool.claim_of(pod) for pod in pods}
    assert claim not in claims
    return [str(instance["id"]) for name in claims for instance in pool.instances(name)]


async def marked(kube: Kube, claim: str, node: str) -> bool:
    """Whether the Node is tainted and its claim is being deleted."""
    result, owner = await kube.get(NODES, node), await kube.get(NODECLAIMS, claim)
    if result is None or owner is None:
        return result is None
    return any(TAINT.items() <= taint.items() for taint in result["spec"].get("taints", [])) and leaving(owner)


async def test_aws140_an_interrupted_spot_node_is_replaced_before_its_instance_ends(
    pool: Pool, reader: WorkerProcess, sandbox: Sandbox, kube: Kube, queue: Queue, client: Client
) -> None:
    """AWS-041, EVT-04, EVT-07, MET-55: a hostile message in front of the notice changes nothing."""
    claim, node, instance = await claim_to_interrupt(pool)
    queue.send('{"detail-type": "EC2 Spot Instance Interruption Warning", "source": "aws.ec2", "detail": 1}')
    sandbox.ec2().interrupt_instance(instance, notice_seconds=120)
    await until(lambda: marked(kube, claim, node))
    successors = await replacements(pool, claim)
    life = await life_of(client, sandbox, claim)
    why = ("spot_interrupted", "EC2 interrupts the spot instance", "controller interruption")
    assert (life.reason, life.detail, life.actor) == why
    text = "SpotInterrupted: EC2 interrupts the spot instance (controller interruption)"
    assert f"leaving: {text}" in [entry.text for entry in life.timeline]
    await pool.seen(claim, "Disrupted", "SpotInterrupted: EC2 interrupts the spot instance (controller interruption)")
    await until(queue.empty)
    own = {instance["id"]: instance for instance in sandbox.ec2().instances()}
    assert own[instance]["state_reason"] != "Server.SpotInstanceTermination"  # the node was gone in time
    interrupted, *others = [(own[i]["type"], own[i]["zone"], own[i]["capacity_type"]) for i in (instance, *successors)]
    assert interrupted not in others
    for reason in ("SpotInterrupted", "TerminatingOnInterruption"):
        await pool.seen(claim, reason)
    received = "karpenter_interruption_received_messages_total"
    assert reader.metric(received, message_type="spot_interrupted") == 1
    assert reader.metric("tenon_interruption_malformed_messages_total") == 1
    assert reader.metric("karpenter_interruption_deleted_messages_total") >= 2


async def test_aws140_a_notice_while_temporal_is_away_taints_at_once_and_drains_later(
    pool: Pool, sandbox: Sandbox, kube: Kube, queue: Queue
) -> None:
    claim, node, instance = await claim_to_interrupt(pool)
    sandbox.stop_component("temporal")
    try:
        sandbox.ec2().interrupt_instance(instance, notice_seconds=600)
        await until(lambda: marked(kube, claim, node))
        await until(queue.empty)
        assert await kube.get(NODECLAIMS, claim) is not None  # nothing drains it yet
    finally:
        sandbox.start_component("temporal")
    await replacements(pool, claim)


async def test_aws140_a_worker_that_starts_while_temporal_is_away_reads_the_queue(
    pool: Pool, reader: WorkerProcess, sandbox: Sandbox, kube: Kube, queue: Queue
) -> None:
    """It waits for Temporal, says so in /readyz, and goes on by itself when Temporal is back."""
    claim, node, instance = await claim_to_interrupt(pool)
    assert reader.stop() == 0
    sandbox.stop_component("temporal")
    try:
        reader.start(unready="has not answered since")
        sandbox.ec2().interrupt_instance(instance, notice_seconds=600)
        await until(lambda: marked(kube, claim, node))
        await until(queue.empty)
    finally:
        sandbox.start_component("temporal")
    await replacements(pool, claim)


@pytest.mark.parametrize("subject", ["kill_instance", "stop_instance", "schedule_retirement"])
async def test_aws141_143_a_node_whose_instance_ends_otherwise_is_replaced(
    pool: Pool, sandbox: Sandbox, kube: Kube, queue: Queue, subject: str
) -> None:
    claim, node, instance = await claim_to_interrupt(pool)
    getattr(sandbox.ec2(), subject)(instance)
    await until(lambda: marked(kube, claim, node))
    await replacements(pool, claim)
    await until(queue.empty)


async def test_aws146_a_node_whose_instance_fails_its_system_status_check_is_replaced(
    make_pool: MakePool, sandbox: Sandbox
) -> None:
    """The leader asks EC2 once a minute; no message in the queue says it."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    await pool.deploy(1)
    (claim,) = await pool.settled(1)
    (instance,) = pool.instances()
    sandbox.ec2().impair_instance(instance["id"], "system", seconds=200)
    name = claim["metadata"]["name"]
    await pool.seen(name, "InstanceUnhealthy", "system status check")
    await pool.gone(name)
    (pod,) = await pool.running(1)
    assert await pool.claim_of(pod) != name


async def test_aws146_sch104_nodes_that_fail_their_status_checks_together_stay(
    make_pool: MakePool, sandbox: Sandbox
) -> None:
    """As when the power of a zone fails. When one of the two is well again, the other one leaves."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    await pool.deploy(2)
    claims = {claim["status"]["providerID"].rsplit("/", 1)[-1]: claim for claim in await pool.settled(2)}
    for seconds in (0, 200):  # none leaves for a check that has just begun to fail, so the leader sees both or none
        for instance in claims:
            await asyncio.to_thread(sandbox.ec2().impair_instance, instance, "system", seconds=seconds)
    for claim in claims.values():
        for name in (claim["metadata"]["name"], claim["status"]["nodeName"]):
            await pool.seen(name, "NodeRepairBlocked", "More than 20%", pool.name)
    assert not any(leaving(claim) for claim in await pool.claims())
    well, sick = sorted(claims)
    sandbox.ec2().impair_instance(well, "system", seconds=None)
    await pool.gone(claims[sick]["metadata"]["name"])
    assert claims[well]["metadata"]["name"] in {claim["metadata"]["name"] for claim in await pool.claims()}
