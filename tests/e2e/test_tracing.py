"""What a collector gets from a worker: one trace for each operation, with links between them and no span over a wait.

A worker of this module's own sends its spans to a receiver of OTLP, while a pod gets a node, drift replaces the node,
and EC2 interrupts the replacement. In the middle, the worker is started again.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import pytest
import pytest_asyncio
from temporalio.client import Client

from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS
from activities.tracing.catalogue import TRACED, Attribute, Operation, Phase
from sandbox.cluster import Sandbox
from tests.e2e.conftest import NewPool
from tests.e2e.pools import SMALL
from tests.e2e.worker_process import WorkerProcess
from tests.otlp_receiver import OtlpReceiver, ReceivedSpan, children_of
from tests.workflows.waiting import until
from workflows import names

REPLICA = 6
SPOT = ("spot",)
CLIENT = "SPAN_KIND_CLIENT"
DECISION = [Phase.TYPES, Phase.PROBLEM, Phase.SOLVE, Phase.EXPLAIN]
"""The phases of a decision about a batch."""
LEFT_TO_SCHEDULER = "The API server's watches are behind, and kube-scheduler binds the pods of a node"
"""What the worker logs where it binds no pod to a node."""
REQUEST = re.compile(
    r"(EC2|SSM|EKS|IAM|SQS|Pricing)\.[A-Za-z]+|(get|list|create|update|patch|delete) [a-z0-9]+(/[a-z]+)?"
)
RESOURCES = {"service.name": "tenon"}


@pytest.fixture(scope="module")
def receiver() -> Iterator[OtlpReceiver]:
    """Receives the spans."""
    with OtlpReceiver().serving() as running:
        yield running


@pytest.fixture(scope="module")
def traced_worker(worker: WorkerProcess, sandbox: Sandbox, receiver: OtlpReceiver) -> Iterator[WorkerProcess]:
    """A worker that is traced, in place of the usual one."""
    stopped = [worker.stop()]
    own = WorkerProcess(
        sandbox,
        "traced-worker",
        replica=REPLICA,
        INTERRUPTION_QUEUE=sandbox.cluster_name,
        OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint,
        OTEL_BSP_SCHEDULE_DELAY="200",
    )
    try:
        own.start()
        yield own
    finally:
        if own.running:
            stopped.append(own.stop())
        worker.start()
    assert not any(stopped), f"they ended with {stopped}: see {worker.log} and {own.log}"


@dataclass
class Story:
    """What happened, and the spans of it."""

    pool: str
    bought: str
    """The NodeClaim that the pod was bought."""
    node: str
    """Its Node."""
    replacement: str
    """The NodeClaim that came in its place."""
    instances: dict[str, str]
    """The instance of each NodeClaim."""
    spans: list[ReceivedSpan] = field(default_factory=list)

    def root(self, operation: Operation, **attributes: str) -> ReceivedSpan:
        """The root span of the only operation of this kind with these attributes."""
        names = {key.replace("__", "."): value for key, value in attributes.items()}
        (root,) = [
            span
            for span in self.spans
            if span.name == operation and not span.parent and names.items() <= span.attributes.items()
        ]
        return root

    def steps(self, root: ReceivedSpan) -> dict[str, ReceivedSpan]:
        """The steps right below a root span, the last of each name."""
        return {span.name: span for span in children_of(self.spans, root)}

    def below(self, span: ReceivedSpan) -> list[ReceivedSpan]:
        """All spans below this one."""
        direct = children_of(self.spans, span)
        return [*direct, *(deeper for child in direct for deeper in self.below(child))]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def story(
    traced_worker: WorkerProcess, new_pool: NewPool, sandbox: Sandbox, receiver: OtlpReceiver, client: Client
) -> AsyncIterator[Story]:
    """Buy, replace, interrupt; the worker is started again before the interruption, and stopped in the end.

    What an earlier test left running began under a worker without traces: its traces have no root, and are left out.
    """
    query = f"{names.CLUSTER.name} = '{sandbox.cluster_name}' AND ExecutionStatus = 'Running'"
    begun = f"{query} AND WorkflowType IN ('DisruptionCommand', 'NodeClaim')"
    earlier = {execution.id async for execution in client.list_workflows(begun)}
    async with new_pool(requirements=SMALL, consolidate_after="Never", capacity_types=SPOT) as pool:
        await pool.deploy(1)
        await pool.running(1)
        (bought,) = await pool.settled(1)
        name = bought["metadata"]["name"]
        labels = {"spec": {"template": {"metadata": {"labels": {"example.com/drifts": "yes"}}}}}
        await pool.kube.patch(NODEPOOLS, pool.name, labels)
        await pool.gone(name)
        await pool.running(1)
        (replacement,) = await pool.settled(1)
        other = replacement["metadata"]["name"]
        stopped = traced_worker.stop()
        traced_worker.start()
        assert stopped == 0, f"see {traced_worker.log}"
        instance = replacement["status"]["providerID"].rsplit("/", 1)[-1]
        sandbox.ec2().interrupt_instance(instance, notice_seconds=120)
        await pool.gone(other)
        await pool.running(1)
        (last,) = await pool.settled(1)
        story = Story(
            pool=pool.name,
            bought=name,
            node=bought["status"]["nodeName"],
            replacement=other,
            instances={
                claim["metadata"]["name"]: claim["status"]["providerID"].rsplit("/", 1)[-1]
                for claim in (bought, replacement, last)
            },
        )

        async def ended() -> bool:
            return await pool.kube.get(NODECLAIMS, other) is None

        await until(ended)
    assert traced_worker.stop() == 0  # sends what it has not sent yet
    spans = receiver.spans()
    left_out = {span.trace for span in spans if span.attributes.get(Attribute.WORKFLOW) in earlier}
    story.spans = [span for span in spans if span.trace not in left_out]
    yield story
    traced_worker.start()


def links(span: ReceivedSpan) -> set[str]:
    """The spans that a span links to."""
    return {linked for _, linked in span.links}


async def test_a_pod_that_gets_a_node_is_a_trace_from_its_creation_to_its_binding(
    story: Story, traced_worker: WorkerProcess
) -> None:
    root = story.root(Operation.START, tenon__nodeclaim=story.bought)
    steps = story.steps(root)
    assert list(steps)[:4] == ["prepare launch", "launch instance", "register node", "initialize node"]
    launch = steps["launch instance"]
    assert launch.attributes[Attribute.INSTANCE] == story.instances[story.bought]
    assert launch.attributes[Attribute.CAPACITY_TYPE] == "spot"
    assert float(launch.attributes[Attribute.PRICE]) > 0
    assert launch.attributes[Attribute.INSTANCE_TYPE]
    (fleet,) = [span for span in story.below(launch) if span.name == "EC2.CreateFleet"]
    assert fleet.kind == CLIENT
    assert fleet.attributes[Attribute.RPC_SYSTEM] == "aws-api"
    assert fleet.attributes[Attribute.HTTP_STATUS] == 200
    assert fleet.attributes[Attribute.AWS_REQUEST]
    bound = [span for span in story.below(root) if span.name == "create pods/binding"]
    is_left = traced_worker.logged(LEFT_TO_SCHEDULER, node=story.node)
    assert [span.attributes[Attribute.HTTP_STATUS] for span in bound] == ([] if is_left else [201])


async def test_the_trace_of_a_node_links_to_the_plan_that_bought_it(story: Story) -> None:
    root = story.root(Operation.START, tenon__nodeclaim=story.bought)
    (write,) = [span for span in story.spans if span.id in links(root)]
    assert write.name == Phase.WRITE
    plans = [span for span in story.spans if span.name == Operation.PROVISION and span.trace == write.trace]
    (batch,) = plans
    assert root.start == batch.start  # both began when the pod was created
    attempts = children_of(story.spans, batch)  # more than one if the worker's cache was behind
    assert {span.name for span in attempts} == {"plan batch"}
    numbers = [span.attributes[Attribute.ATTEMPT] for span in attempts]
    assert numbers == list(range(1, len(attempts) + 1))
    (plan,) = [span for span in attempts if span.id == write.parent]
    assert plan.attributes[Attribute.PODS] == 1
    assert plan.attributes[Attribute.NODECLAIMS] == 1
    phases = [span.name for span in children_of(story.spans, plan) if span.kind != CLIENT]
    # Before a launch, the worker lists the pods again if their watch was quiet for seconds, and decides once more.
    assert phases in ([*DECISION, Phase.WRITE], [*DECISION, *DECISION, Phase.WRITE])
    assert "create nodeclaims" in {span.name for span in children_of(story.spans, write)}


async def test_a_command_is_a_trace_to_which_its_nodes_link(story: Story) -> None:
    created = story.root(Operation.START, tenon__nodeclaim=story.replacement)
    (step,) = [span for span in story.spans if span.id in links(created)]
    assert step.name == "create replacements"
    (command,) = [span for span in story.spans if span.id == step.parent]
    assert command.name == Operation.COMMAND
    assert command.attributes[Attribute.REASON] == "Drifted"
    steps = story.steps(command)
    assert {"validate command", "taint candidates", "create replacements", "disrupt nodes"} <= set(steps)
    leaving = story.root(Operation.LEAVE, tenon__nodeclaim=story.bought)
    assert steps["disrupt nodes"].id in links(leaving)
    started = story.root(Operation.START, tenon__nodeclaim=story.bought)
    assert any(trace == started.trace for trace, _ in leaving.links)  # the run before


async def test_the_trace_of_a_command_links_to_the_search_that_decided_it(story: Story) -> None:
    command = story.root(Operation.COMMAND, tenon__reason="Drifted")
    (step,) = [span for span in story.spans if span.id in links(command)]
    assert step.name == Phase.PASS
    assert step.attributes[Attribute.COMMANDS] == command.attributes[Attribute.COMMAND]
    assert step.attributes[Attribute.NODECLAIMS] == 1
    assert int(step.attributes[Attribute.NODES]) >= int(step.attributes[Attribute.CANDIDATES]) >= 1
    (search,) = [span for span in story.spans if span.id == step.parent]
    assert (search.name, search.parent) == (Operation.SEARCH, "")
    phases = children_of(story.spans, step)
    assert [span.name for span in phases if span.name in (Phase.TYPES, Phase.PROBLEM)] == [Phase.TYPES, Phase.PROBLEM]
    methods = {span.attributes[Attribute.METHOD]: span for span in phases if span.name == Phase.METHOD}
    assert len(methods) > 1
    assert methods["drift"].attributes[Attribute.CANDIDATES] == 1
    assert methods["drift"].seconds > 0


async def test_a_drain_is_a_trace_with_its_evictions(story: Story) -> None:
    root = story.root(Operation.LEAVE, tenon__nodeclaim=story.bought)
    steps = story.steps(root)
    expected = ["cordon node", "drain node", "terminate instance"]
    assert [name for name in steps if name in expected] == expected
    evictions = [span for span in story.below(steps["drain node"]) if span.name == "create pods/eviction"]
    assert [span.attributes[Attribute.HTTP_STATUS] for span in evictions] == [201]
    assert all(span.attributes[Attribute.POD] for span in evictions)
    ended = [span.name for span in story.below(steps["terminate instance"])]
    assert "EC2.TerminateInstances" in ended


async def test_an_interruption_is_a_trace_to_which_the_drain_links(story: Story) -> None:
    notice = story.root(Operation.INTERRUPTION, tenon__nodeclaim=story.replacement)
    assert notice.attributes[Attribute.REASON] == "spot_interrupted"
    (handled,) = children_of(story.spans, notice)
    assert "delete nodeclaims" in {span.name for span in children_of(story.spans, handled)}
    leaving = story.root(Operation.LEAVE, tenon__nodeclaim=story.replacement)
    assert handled.id in links(leaving)


async def test_no_span_covers_a_wait(story: Story) -> None:
    """An activity that waits has no length, and nothing is open while a node boots or a replacement starts."""
    waiting = {name for name, traced in TRACED.items() if traced.waits} | set(Operation)
    assert {span.name for span in story.spans if span.name in waiting and span.start != span.end} == set()
    not_recorded = {name for name, traced in TRACED.items() if traced.operation is None}
    assert {span.name for span in story.spans} & not_recorded == set()
    start = story.root(Operation.START, tenon__nodeclaim=story.bought)
    command = story.root(Operation.COMMAND, tenon__reason="Drifted")
    for root, before, after in (
        (start, "launch instance", "register node"),
        (command, "create replacements", "disrupt nodes"),
    ):
        steps = story.steps(root)
        wait = (steps[before].end, steps[after].start)
        assert wait[0] < wait[1]
        assert [span.name for span in story.below(root) if span.start <= wait[0] and span.end >= wait[1]] == []


async def test_every_span_has_its_parent_although_the_worker_was_started_again(story: Story) -> None:
    """Nothing is open when the worker stops. The spans of the second worker are in traces of their own."""
    identifiers = {(span.trace, span.id) for span in story.spans}
    assert len(identifiers) == len(story.spans)
    assert [span for span in story.spans if span.parent and (span.trace, span.parent) not in identifiers] == []
    roots = [span.trace for span in story.spans if not span.parent]
    assert len(roots) == len(set(roots))


async def test_spans_and_attributes_are_those_of_the_documents(story: Story) -> None:
    others = {span.name for span in story.spans} - {*Operation, *Phase, *TRACED}
    assert [name for name in others if not REQUEST.fullmatch(name)] == []
    assert {key for span in story.spans for key in span.attributes} <= set(Attribute)
    assert all(RESOURCES.items() <= span.resource.items() for span in story.spans)


async def test_a_log_line_names_its_span(story: Story, traced_worker: WorkerProcess) -> None:
    root = story.root(Operation.START, tenon__nodeclaim=story.bought)
    lines = [
        (line["trace_id"], line["span_id"])
        for line in traced_worker.logged("A NodeClaim registered", nodeclaim=story.bought)
    ]
    assert lines[-1:] == [(root.trace, story.steps(root)["register node"].id)]  # a repeated step logs again
