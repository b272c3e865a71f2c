"""The interruption controller reads a real SQS queue of the sandbox, and writes to an API server in memory."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest
from prometheus_client import REGISTRY

from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error
from activities.ec2.queue import MessageQueue
from activities.kubernetes.errors import ApiUnreachableError
from activities.kubernetes.resources import NODECLAIMS, NODES
from sandbox.ec2.authorization.identities import ACCOUNT, ADMINISTRATOR_KEY, SECRET, environment, worker_key
from tenon.apis import labels
from tenon.ec2.instances.interruption import Notice, NoticeKind
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.decode import decode_object
from tenon.kube.offerings import OfferingKey
from tenon.messages.node import Removal
from tenon.messages.offerings import OfferingRef
from tenon.node.leave_text import recorded
from tests.activities.node.fake_kube import START, Clock, FakeKube, Recorder, stamp
from tests.ec2.interruption_events import HEALTH, HOSTILE, INTERRUPTIBLE, REBALANCE, RESERVATION, SPOT, state
from tests.worker.background import in_background
from tests.worker.cache.objects import claim, metadata, node
from tests.worker.fake_temporal import Cache
from tests.workflows.waiting import until
from worker.controllers.interruption import notices as interruption
from worker.controllers.interruption.confirmation import InstanceReader
from worker.controllers.interruption.early_notices import MAX_KEPT, EarlyNotices
from worker.controllers.interruption.notices import InterruptionController
from worker.controllers.interruption.scheduled_changes import ScheduledChangeLimit

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

    from sandbox.ec2.server import Server

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="function")]

INTERRUPTED = Removal(
    reason="spot_interrupted", detail="EC2 interrupts the spot instance", actor="controller interruption"
)
QUEUE = "interruptions"
"""Also the name of the cluster: the worker's policy lets it read only the queue of that name."""
TAINT = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    from sandbox.ec2.server import start

    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(worker_key(QUEUE)).items():
            patch.setenv(name, value)
        running = start(tmp_path_factory.mktemp("ec2"))
        yield running
        running.close()


@pytest.fixture(scope="module")
def clients(server: Server) -> tuple[SQSClient, SQSClient]:
    """The worker's client of SQS, and the administrator's. Making them takes longer than a test."""
    administrators: SQSClient = boto3.Session().client(
        "sqs",
        endpoint_url=server.endpoint,
        region_name="us-west-2",
        aws_access_key_id=ADMINISTRATOR_KEY,
        aws_secret_access_key=SECRET,
    )
    return Ec2("us-west-2", server.endpoint).sqs, administrators


class World:
    """A queue, a cluster of nodes, and a controller's view of both."""

    def __init__(self, workers_sqs: SQSClient, sqs: SQSClient) -> None:
        self.workers_sqs, self.sqs = workers_sqs, sqs
        self.url = self.sqs.create_queue(QueueName=QUEUE)["QueueUrl"]
        self.cache = Cache()
        self.kube = FakeKube(Clock())
        self.recorder = Recorder()
        self.unavailable: list[OfferingRef] = []
        self.states: dict[str, str] = {}
        """What EC2 answers about instances. Those that are not here run."""
        self.scheduled: set[str] = set()
        self.requests: list[str] = []
        """What EC2 was asked: the instances, or "events"."""
        self.failures: list[Exception] = []
        self._records: dict[str, ClaimRecord] = {}

    def reader(self) -> InstanceReader:
        def states(ids: Sequence[str]) -> dict[str, str]:
            self.requests.append(" ".join(ids))
            if self.failures:
                raise self.failures.pop()
            return {item: state for item in ids if (state := self.states.get(item, "running"))}

        def scheduled() -> set[str]:
            self.requests.append("events")
            return self.scheduled

        return InstanceReader(states, scheduled)

    def ends(self, *instance_ids: str) -> None:
        """EC2 says that these instances end."""
        self.states |= dict.fromkeys(instance_ids, "shutting-down")

    def node(
        self,
        number: int,
        *,
        entries: bool = True,
        meta: dict[str, Any] | None = None,
        kinds: dict[str, str] | None = None,
    ) -> str:
        """A node, of spot capacity unless ``kinds`` says otherwise, in the API server and in the cache; its instance
        id.
        """
        name = f"{number:017x}"
        usual = {labels.CAPACITY_TYPE: "spot", labels.INSTANCE_TYPE: "m7g.large", labels.ZONE: "us-west-2a"}
        result = {labels.NODEPOOL: "pool", **usual, **(kinds or {})}
        described = {"labels": result, "finalizers": [labels.TERMINATION_FINALIZER]}
        record = claim(name, node_name=name, meta={**described, **(meta or {})})
        self.kube.add(NODECLAIMS, dict(record.body))
        self.kube.add(NODES, {"metadata": metadata(name), "spec": {"providerID": record.provider_id}})
        self._records[f"i-{name}"] = record
        if entries:
            self.announce(f"i-{name}")
        return f"i-{name}"

    def announce(self, instance_id: str) -> None:
        """Let the cache have the NodeClaim with its instance, and its Node."""
        self.cache.publish(self._records[instance_id])
        self.cache.publish(node(instance_id.removeprefix("i-")))

    def send(self, *bodies: Any) -> None:
        for body in bodies:
            text = body if isinstance(body, str) else json.dumps(body)
            self.sqs.send_message(QueueUrl=self.url, MessageBody=text)

    def removals(self, instance_id: str) -> list[Removal]:
        """Why the NodeClaim of this instance says that it is removed."""
        result = self.kube.objects["nodeclaims", "", instance_id.removeprefix("i-")]
        return list(recorded(result["metadata"].get("annotations") or {}))

    def delete(self, instance_id: str) -> None:
        """The NodeClaim of this instance is deleted, and the cache knows."""
        body = self.kube.objects["nodeclaims", "", instance_id.removeprefix("i-")]
        version = metadata("any")["resourceVersion"]  # the cache ignores an object of the version that it has
        body["metadata"] |= {"deletionTimestamp": stamp(START), "resourceVersion": version}
        self.cache.publish(ClaimRecord.of(body))

    def left(self) -> int:
        """Messages that are in the queue, received or not."""
        names: Sequence[Any] = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
        queue_attributes = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)
        return sum(int(number) for number in queue_attributes["Attributes"].values())

    def show_again(self) -> None:
        """Show the messages that were received and not deleted, as SQS does after their visibility timeout."""
        from moto.sqs.models import sqs_backends

        for message in sqs_backends[ACCOUNT]["us-west-2"].queues[QUEUE]._messages:
            message.visible_at = 0

    async def emptied(self) -> None:
        async def empty() -> bool:
            return await asyncio.to_thread(self.left) == 0

        await until(empty)

    def leaving(self) -> list[str]:
        """The instances whose NodeClaims are deleted."""
        claims = [item["metadata"] for (plural, _, _), item in self.kube.objects.items() if plural == "nodeclaims"]
        return sorted(f"i-{claim['name']}" for claim in claims if claim.get("deletionTimestamp"))

    def tainted(self) -> list[str]:
        """The instances whose Nodes are cordoned, with all that belongs to it."""
        result = []
        for (plural, _, name), body in self.kube.objects.items():
            if plural == "nodes" and TAINT in body["spec"].get("taints", []):
                assert body["metadata"]["finalizers"] == [labels.TERMINATION_FINALIZER]
                assert body["metadata"]["labels"][labels.EXCLUDE_BALANCERS] == "karpenter"
                result.append(f"i-{name}")
        return sorted(result)


def about(message: dict[str, Any], instance_id: str) -> dict[str, Any]:
    return {**message, "detail": {**message["detail"], "instance-id": instance_id}}


@pytest.fixture
def world(clients: tuple[SQSClient, SQSClient], monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(interruption, "WAIT_SECONDS", 1)  # `reading` waits for the end of the last request
    world = World(*clients)
    yield world
    world.sqs.delete_queue(QueueUrl=world.url)


@contextlib.asynccontextmanager
async def reading(
    world: World, now: Callable[[], datetime] | None = None, *, leads: bool = True
) -> AsyncIterator[InterruptionController]:
    kube, recorder = cast("Any", world.kube), world.recorder
    limit = ScheduledChangeLimit(world.cache)
    limit.leads = leads
    controller = InterruptionController(
        kube,
        recorder,
        world.cache,
        MessageQueue(world.workers_sqs, QUEUE),
        "c",
        world.unavailable.extend,
        world.reader(),
        limit,
        now or (lambda: datetime.now(UTC)),
    )
    try:
        async with in_background(controller.run()):
            yield controller
    finally:
        # Its last request would receive, and hide, what the test sends to the queue afterwards.
        await asyncio.to_thread(controller._threads.shutdown)


def counted(name: str, **expectation: str) -> float:
    return REGISTRY.get_sample_value(name, expectation) or 0.0


def disrupted(reason: str) -> float:
    of_pool = {"nodepool": "pool", "capacity_type": "spot", "consolidation_policy": "", "termination_mode": "graceful"}
    return counted("karpenter_nodeclaims_disrupted_total", reason=reason, **of_pool)


async def test_aws140_the_message_goes_after_the_node_is_tainted_and_its_claim_deleted(world: World) -> None:
    """EVT-07, MET-55, MET-56, AWS-041: and no replacement is bought where EC2 has just taken an instance back."""
    interrupted, other = world.node(1), world.node(2)
    received = {"message_type": "spot_interrupted"}
    before = counted("karpenter_interruption_received_messages_total", **received)
    deleted = counted("karpenter_interruption_deleted_messages_total")
    waited = counted("karpenter_interruption_message_queue_duration_seconds_count")
    lost = disrupted("spot_interrupted")
    world.send(about(SPOT, interrupted))
    async with reading(world):
        await world.emptied()
    assert world.leaving() == world.tainted() == [interrupted] != [other]
    assert world.unavailable == [OfferingRef(capacity_type="spot", instance_type="m7g.large", zone="us-west-2a")]
    name = interrupted.removeprefix("i-")
    pair = [("NodeClaim", name), ("Node", name)]
    assert [event[:3] for event in world.recorder.events] == [
        (*subject, reason) for subject in pair for reason in ("SpotInterrupted", "TerminatingOnInterruption")
    ]
    assert counted("karpenter_interruption_received_messages_total", **received) == before + 1
    assert counted("karpenter_interruption_deleted_messages_total") == deleted + 1
    assert counted("karpenter_interruption_message_queue_duration_seconds_count") == waited + 1
    assert disrupted("spot_interrupted") == lost + 1
    assert world.removals(interrupted) == [INTERRUPTED]


async def test_evt04_an_interruption_of_a_node_that_leaves_already_is_noted_there(world: World) -> None:
    """For the timeline of the node. That its instance ends is no news, and neither is a notice that cannot be true."""
    leaving, ending, reserved = world.node(1), world.node(2), world.node(3, kinds={labels.CAPACITY_TYPE: "reserved"})
    for item in (leaving, ending, reserved):
        world.delete(item)
    world.ends(ending)
    world.send(about(SPOT, leaving), about(SPOT, leaving), about(state("terminated"), ending), about(SPOT, reserved))
    async with reading(world):
        await world.emptied()
    first, later = world.removals(leaving)
    assert (first.reason, later) == ("deleted", INTERRUPTED)
    assert world.removals(ending) == world.removals(reserved) == []
    assert world.recorder.events == []
    spot = OfferingRef(capacity_type="spot", instance_type="m7g.large", zone="us-west-2a")
    assert world.unavailable == [spot, spot], "no replacement is bought there"


@pytest.mark.parametrize("notice", [RESERVATION, INTERRUPTIBLE], ids=["any", "interruptible"])
async def test_aws125_aws145_a_node_whose_reservation_is_taken_back_leaves_it(
    world: World, notice: dict[str, Any]
) -> None:
    """As after a spot interruption. What is avoided is the reservation, not the type in its zone."""
    in_reservation = {labels.CAPACITY_TYPE: "reserved", labels.RESERVATION_ID: "cr-1"}
    taken_back, other = world.node(3, kinds=in_reservation), world.node(4, kinds=in_reservation)
    world.send(about(notice, taken_back))
    async with reading(world):
        await world.emptied()
    assert world.leaving() == world.tainted() == [taken_back] != [other]
    assert [item.key for item in world.unavailable] == [
        OfferingKey("reserved", "", "us-west-2a", "reservation", "cr-1")
    ]
    assert {"CapacityReservationInstanceInterrupted", "TerminatingOnInterruption"} <= set(world.recorder.reasons())


async def test_aws141_143_every_notice_about_the_end_of_an_instance_makes_its_node_leave(world: World) -> None:
    ids = [world.node(number) for number in range(10, 14)]
    for number in range(14, 30):  # so that four of the NodePool may leave at once
        world.node(number)
    retired = {**HEALTH["detail"], "affectedEntities": [{"entityValue": item} for item in ids[2:]]}
    world.ends(*ids[:2])
    world.scheduled |= {*ids[2:]}
    world.send(about(state("stopping"), ids[0]), about(state("terminated"), ids[1]), {**HEALTH, "detail": retired})
    async with reading(world):
        await world.emptied()
    assert world.leaving() == world.tainted() == ids
    assert world.unavailable == []
    assert {"InstanceStopping", "InstanceTerminating"} < set(world.recorder.reasons())


async def test_a_stop_of_a_warm_node_is_no_interruption_but_its_termination_is(world: World) -> None:
    """Tenon itself stops warm nodes, and EventBridge reports that as it does any other stop."""
    kinds = {labels.CAPACITY_TYPE: "on-demand"}
    stays, ends = (
        world.node(number, kinds=kinds, meta={"annotations": {labels.WARM: "stopped"}}) for number in (15, 16)
    )
    world.states |= {stays: "stopped"}
    world.ends(ends)
    world.send(about(state("stopping"), stays), about(state("stopped"), stays), about(state("terminated"), ends))
    async with reading(world):
        await world.emptied()
    assert world.leaving() == [ends]


async def test_aws148_messages_about_nothing_of_this_cluster_are_deleted(world: World) -> None:
    node = world.node(20)
    world.send(about(SPOT, "i-0fffffffffffffff0"), about(state("running"), node), {"detail-type": "x", **HEALTH})
    async with reading(world):
        await world.emptied()
    assert world.leaving() == []
    assert world.kube.calls == []


async def test_aws148_hostile_bodies_are_dropped_counted_and_delay_nothing(world: World) -> None:
    interrupted = world.node(30)
    hostile = [body for body in HOSTILE if body and body.isascii()]  # SQS itself refuses the others
    before = counted("tenon_interruption_malformed_messages_total")
    world.send(*hostile, about(SPOT, interrupted))
    async with reading(world):
        await world.emptied()
    assert world.leaving() == [interrupted]
    assert counted("tenon_interruption_malformed_messages_total") == before + len(hostile)


async def test_act06_the_same_notices_again_and_together_change_nothing_more(world: World) -> None:
    """SQS delivers at least once, and EC2 sends several notices about one instance."""
    interrupted = world.node(40)
    lost = disrupted("spot_interrupted") + disrupted("instance_terminated")
    world.ends(interrupted)
    messages = [about(SPOT, interrupted)] * 12 + [about(state("shutting-down"), interrupted)] * 13
    world.send(*messages)
    async with reading(world):
        await world.emptied()
    assert world.leaving() == [interrupted]
    assert disrupted("spot_interrupted") + disrupted("instance_terminated") == lost + 1
    patched = [call[1] for call in world.kube.calls if call[0] == "patch"]
    assert sorted(patched) == ["nodeclaims", "nodes"], "the reason of the deletion, and the taint"
    assert len(world.recorder.events) == 4


async def test_aws140_a_message_stays_until_its_node_is_tainted_and_its_claim_deleted(world: World) -> None:
    """The API server is away at first: the message is not deleted, and comes again."""
    interrupted = world.node(50)
    world.kube.before_patch.append(_unreachable)
    world.send(about(SPOT, interrupted))

    async def tried() -> bool:
        return not world.kube.before_patch

    async with reading(world):
        await until(tried)
        assert world.leaving() == []
        assert await asyncio.to_thread(world.left) == 1
        world.show_again()
        await world.emptied()
    assert world.leaving() == world.tainted() == [interrupted]


async def test_dis84_do_not_disrupt_does_not_keep_a_node_whose_instance_is_interrupted(world: World) -> None:
    interrupted = world.node(55, meta={"annotations": {labels.DO_NOT_DISRUPT: "true"}})
    world.send(about(SPOT, interrupted))
    async with reading(world):
        await world.emptied()
    assert world.leaving() == world.tainted() == [interrupted]


def _unreachable() -> None:
    raise ApiUnreachableError("https://x", "refused")


@pytest.mark.parametrize(
    ("annotations", "meta", "leaves"),
    [
        pytest.param({}, {}, False, id="not asked for"),
        pytest.param({labels.REPLACE_ON_REBALANCE: "false"}, {}, False, id="refused"),
        pytest.param({labels.REPLACE_ON_REBALANCE: "true"}, {}, True, id="asked for"),
        pytest.param(
            {labels.REPLACE_ON_REBALANCE: "true"}, {labels.DO_NOT_DISRUPT: "true"}, False, id="a protected node"
        ),
        pytest.param(
            {labels.REPLACE_ON_REBALANCE: "true"}, {labels.KEEP_UNTIL: "2026-03-02T00:00:00Z"}, False, id="a kept node"
        ),
    ],
)
async def test_wsh26_a_recommendation_replaces_a_node_only_if_its_pool_asks_for_it(
    world: World, annotations: dict[str, str], meta: dict[str, str], leaves: bool
) -> None:
    """AWS-144, EVT-07: in any case there is an event."""
    instance = world.node(60, meta={"annotations": meta})
    pool = {"metadata": metadata("pool", annotations=annotations), "spec": {}}
    pool["spec"] = {"template": {"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass"}}}}
    world.cache.pools.on_event("pool", decode_object(json.dumps(pool).encode()))
    world.send(about(REBALANCE, instance))
    async with reading(world, lambda: datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=1)):
        await world.emptied()
    assert world.leaving() == world.tainted() == ([instance] if leaves else [])
    assert "SpotRebalanceRecommendation" in world.recorder.reasons()
    assert ("TerminatingOnInterruption" in world.recorder.reasons()) is leaves
    assert bool(world.unavailable) is leaves


async def test_act06_a_queue_that_does_not_exist_is_waited_for(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.sqs.delete_queue(QueueUrl=world.url)
    async with reading(world):

        async def said() -> bool:
            return "create it, or correct INTERRUPTION_QUEUE" in " ".join(str(r.__dict__) for r in caplog.records)

        await until(said)
        world.sqs.create_queue(QueueName=QUEUE)
        interrupted = world.node(70)
        world.send(about(SPOT, interrupted))
        await world.emptied()
    assert world.leaving() == [interrupted]


OLD = datetime(2026, 3, 1, 12, 5, tzinfo=UTC)
"""Five minutes after AWS sent the messages: EC2 shows by then what it knows."""
FRESH = datetime(2026, 3, 1, 12, tzinfo=UTC) + timedelta(seconds=5)


@pytest.mark.parametrize("message", [state("stopped"), state("terminated"), HEALTH], ids=["stopped", "ended", "change"])
@pytest.mark.parametrize("entries", [True, False], ids=["runs", "is unknown"])
async def test_aws141_143_a_message_that_ec2_does_not_confirm_drains_nobody(
    world: World, message: dict[str, Any], entries: bool
) -> None:
    """Forged, or delivered again after the instance was started again."""
    node = world.node(80)
    world.states[node] = "running" if entries else ""
    kind = "scheduled_change" if message is HEALTH else f"instance_{message['detail']['state']}"
    before = counted("tenon_interruption_unconfirmed_messages_total", message_type=kind)
    detail = {**HEALTH["detail"], "affectedEntities": [{"entityValue": node}]}
    world.send({**HEALTH, "detail": detail} if message is HEALTH else about(message, node))
    async with reading(world, lambda: OLD):
        await world.emptied()
    assert world.leaving() == world.tainted() == []
    assert set(world.recorder.reasons()) == {"InterruptionNotConfirmed"}
    assert counted("tenon_interruption_unconfirmed_messages_total", message_type=kind) == before + 1


async def test_aws143_a_message_that_is_faster_than_ec2s_answer_comes_again(world: World) -> None:
    """EC2's describe calls may show a change later than EventBridge says it."""
    node = world.node(81)
    world.send(about(state("shutting-down"), node))

    async def asked() -> bool:
        return len(world.requests) == 1

    async with reading(world, lambda: FRESH):
        await until(asked)
        assert world.leaving() == []
        world.ends(node)
        world.show_again()
        await world.emptied()
    assert world.leaving() == world.tainted() == [node]
    assert "InterruptionNotConfirmed" not in world.recorder.reasons()


async def test_aws143_a_message_stays_while_ec2_cannot_be_asked(world: World) -> None:
    node = world.node(82)
    world.ends(node)
    world.failures.append(EC2Error("ConnectionError", "away", retryable=True))
    world.send(about(state("terminated"), node))

    async def failed() -> bool:
        return not world.failures

    async with reading(world, lambda: OLD):
        await until(failed)
        world.show_again()
        await world.emptied()
    assert (world.leaving(), world.requests) == ([node], [node, node])


async def test_aws140_143_ec2_is_asked_once_for_a_batch_and_never_about_a_spot_interruption(world: World) -> None:
    """The call waits for its turn within EC2's limits, and two minutes are short."""
    ids = [world.node(number) for number in range(83, 90)]
    world.ends(*ids)
    world.send(*(about(SPOT, item) for item in ids[:3]))
    async with reading(world, lambda: OLD):
        await world.emptied()
    assert world.requests == []
    world.send(*(about(state("terminated"), item) for item in ids[3:]))
    async with reading(world, lambda: OLD):
        await world.emptied()
    assert world.leaving() == ids
    assert sorted(" ".join(world.requests).split()) == ids[3:], "each instance once, however SQS splits the messages"
    assert len(world.requests) < 4


async def test_aws140_a_spot_interruption_of_an_instance_that_is_no_spot_instance_drains_nobody(world: World) -> None:
    node = world.node(91, kinds={labels.CAPACITY_TYPE: "on-demand"})
    world.send(about(SPOT, node))
    async with reading(world, lambda: OLD):
        await world.emptied()
    assert (world.leaving(), world.unavailable) == ([], [])
    assert set(world.recorder.reasons()) == {"InterruptionNotConfirmed"}


async def test_aws141_sch104_scheduled_changes_of_a_whole_nodepool_end_a_fifth_at_a_time(world: World) -> None:
    """EC2 announces them days before, so the others can wait. Spot interruptions do not wait."""
    ids = [world.node(number) for number in range(100, 110)]
    world.scheduled |= {*ids}
    detail = {**HEALTH["detail"], "affectedEntities": [{"entityValue": item} for item in ids]}
    world.send({**HEALTH, "detail": detail})

    async def held() -> bool:
        return world.recorder.reasons().count("ScheduledChangeDelayed") >= 2 * (len(ids) - 2)

    async with reading(world, lambda: OLD):
        await until(held)
        assert len(world.leaving()) == 2
        assert await asyncio.to_thread(world.left) == 1, "the message comes again"
        world.send(*(about(SPOT, item) for item in ids))

        async def gone() -> bool:
            return world.leaving() == ids

        await until(gone)


async def test_sch104_only_the_leader_lets_nodes_go_for_scheduled_changes(world: World) -> None:
    """SQS hands a burst of messages to all replicas. If each had a limit of its own, too many nodes would leave."""
    changing, interrupted = world.node(111), world.node(112)
    world.scheduled.add(changing)
    detail = {**HEALTH["detail"], "affectedEntities": [{"entityValue": changing}]}
    world.send({**HEALTH, "detail": detail}, about(SPOT, interrupted))

    async def handled() -> bool:
        return await asyncio.to_thread(world.left) <= 1

    received = counted("karpenter_interruption_received_messages_total", message_type="scheduled_change")
    async with reading(world, leads=False):
        await until(handled)
    assert world.leaving() == [interrupted], "the message about the other one comes again"
    assert counted("karpenter_interruption_received_messages_total", message_type="scheduled_change") == received
    world.delete(interrupted)
    world.show_again()
    for number in range(113, 119):
        world.node(number)
    async with reading(world):
        await world.emptied()
    assert world.leaving() == [changing, interrupted]


async def test_sch104_a_young_scheduled_change_of_a_node_that_starts_is_left_to_the_leader(world: World) -> None:
    """Otherwise a replica that never leads would try to apply it each second."""
    starting = world.node(119, entries=False)
    world.scheduled.add(starting)
    world.send({**HEALTH, "detail": {**HEALTH["detail"], "affectedEntities": [{"entityValue": starting}]}})
    async with reading(world, leads=False) as controller:
        await world.emptied()
        world.announce(starting)

        async def is_dropped() -> bool:
            return not controller._early

        await until(is_dropped)
    assert not controller._early
    assert world.leaving() == []


async def test_aws140_a_notice_that_comes_before_the_claim_names_its_instance_is_applied_later(world: World) -> None:
    """EC2 takes a spot instance back in the middle of its launch."""
    early, other = world.node(120, entries=False), world.node(121, entries=False)
    world.send(about(SPOT, early), about(state("running"), other), about(SPOT, "i-0fffffffffffffff0"))
    async with reading(world, lambda: OLD):
        await world.emptied()
        assert world.leaving() == []
        world.kube.before_patch.append(_unreachable)
        world.announce(other)
        world.announce(early)

        async def leaves() -> bool:
            return bool(world.leaving())

        await until(leaves)
    assert world.leaving() == world.tainted() == [early]
    assert "SpotInterrupted" in world.recorder.reasons()


async def test_early_notices_are_limited_in_number_and_time() -> None:
    """The queue may have the notices of all instances of the account."""
    notices, taken_back = EarlyNotices(), Notice(NoticeKind.SPOT_INTERRUPTED, at=OLD)
    notices.keep(taken_back, "i-1", OLD)
    notices.keep(Notice(NoticeKind.INSTANCE_TERMINATED), "i-1", OLD)
    assert notices.take("i-1", OLD) is taken_back, "with its time"
    assert notices.take("i-1", OLD) is None
    notices.keep(taken_back, "i-2", OLD)
    assert notices.take("i-2", OLD + timedelta(minutes=16)) is None
    notices.keep(taken_back, "i-3", OLD)
    notices.keep(taken_back, "i-4", OLD + timedelta(minutes=16))
    assert len(notices) == 1, "the old one is forgotten"
    for number in range(MAX_KEPT + 5):
        notices.keep(taken_back, f"i-{number:017x}", OLD)
    assert len(notices) == MAX_KEPT
