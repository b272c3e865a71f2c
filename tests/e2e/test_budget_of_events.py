"""What a node's life costs on Temporal."""

from __future__ import annotations

from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import PODS
from sandbox.cluster import Sandbox
from tenon.messages.base import ActivityName
from tenon.node.state import Stage
from tests.e2e.conftest import MakePool
from tests.e2e.histories import activities, billable, kind, runs_of
from tests.e2e.lives import life_of, state_of
from tests.e2e.pools import NAMESPACE, SMALL
from tests.e2e.worker import Worker
from tests.workflows.waiting import until
from workflows import names

MAX_EVENTS = 110
MAX_ACTIONS = 22
"""A life has 18 at most if nothing is slow (tests/tools/test_temporal_actions.py). On a busy machine, an activity that
takes more than its local seconds counts again."""
MAX_IDLE_EVENTS = 10
STAGES = [
    ActivityName.PREPARE_LAUNCH,
    ActivityName.LAUNCH,
    ActivityName.REGISTER,
    ActivityName.INITIALIZE,
    ActivityName.CORDON,
    ActivityName.TERMINATE,
]
"""The node is bound when it is initialized, drained when it is cordoned empty, and released when it is terminated."""
RETRIED = {
    ActivityName.BIND: "The worker failed to bind pods and retries",
    ActivityName.DRAIN: "The worker failed to drain a node at once and retries",
    ActivityName.RELEASE: "The worker failed to release a node and retries",
}
"""Steps that a node has only after a call of the stage before failed, and what the worker logs then."""


async def test_a_life_without_incident_is_cheap(
    make_pool: MakePool, kube: Kube, client: Client, sandbox: Sandbox, worker: Worker
) -> None:
    """A life: at most 110 events and 22 billable actions, six activities; at rest pods cost nothing."""
    pool = await make_pool(consolidate_after="2s", requirements=SMALL)
    await pool.deploy(1, cpu="250m")
    await pool.running(1)  # a claim without an instance has no room for more than its own pods
    await pool.scale(3)
    pods = await pool.running(3)
    claim = await pool.claim()
    workflow_id = names.nodeclaim_id(sandbox.cluster_name, claim["metadata"]["name"])
    first_run = (await state_of(client, sandbox, claim["metadata"]["name"])).first_run_id

    async def rests() -> bool:
        return len(await runs_of(client, workflow_id, first_run)) == 2

    await until(rests)  # a minute after it became live
    assert (await state_of(client, sandbox, claim["metadata"]["name"])).stage is Stage.LIVE
    _, resting = await runs_of(client, workflow_id, first_run)
    assert len(resting) <= MAX_IDLE_EVENTS

    node = pods[0]["spec"]["nodeName"]
    for number in range(10):  # a crowd that comes and goes next to the pods that stay
        await pool.pod(f"guest{number}", cpu="1m", nodeName=node)
    await pool.running(13)
    for number in range(10):
        await pool.delete_pod(f"guest{number}")

    async def guests_left() -> bool:
        return len(await kube.list(PODS, namespace=NAMESPACE, field_selector=f"spec.nodeName={node}")) <= 3

    await until(guests_left)
    await pool.scale(0)
    await pool.gone(claim["metadata"]["name"])
    await life_of(client, sandbox, claim["metadata"]["name"])  # or the start of the last step may not be recorded yet

    _, last = runs = await runs_of(client, workflow_id, first_run)
    # Whatever the guests caused would stand between the rest and the update that ends it, whose task has 3 events.
    update = next(n for n, event in enumerate(last) if kind(event) == "WORKFLOW_EXECUTION_UPDATE_ACCEPTED")
    assert [kind(e) for e in last[: update - 3]] == [kind(e) for e in resting]

    events = [event for run in runs for event in run]
    name = claim["metadata"]["name"]
    retried = {step.value for step, message in RETRIED.items() if worker.logged(message, nodeclaim=name)}
    steps = [step for step in dict.fromkeys(activities(events)) if step not in retried]
    assert steps == [stage.value for stage in STAGES]
    actions = billable(events)
    print(f"{len(events)} events, {actions.total()} actions: {dict(actions)}; {len(resting)} events at rest")
    assert len(events) <= MAX_EVENTS
    assert actions.total() <= MAX_ACTIONS, dict(actions)
