"""When a workflow starts for a node whose instance EC2 does not show: who stays, and who leaves (rule 22, ACT-04)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, cast

import pytest

from activities.ec2.errors import EC2Error
from activities.kubernetes.resources import NODECLAIMS
from activities.node.launching import Launching
from tenon.apis import labels
from tenon.messages.launch import Instance, LaunchInput, LaunchRequest, PrepareLaunchInput
from tenon.node import machine
from tenon.node.state import NodeState, Stage
from tenon.node.timeline import why_blocked
from tests.activities.node.fake_kube import stamp
from tests.activities.node.seller import Seller
from tests.activities.node.world import PROVIDER_ID, REF, World, claim, live, pod

REQUEST = LaunchRequest(client_token="t", capacity_type="on-demand", templates=[], tags={})


class Forgetful(Seller):
    """Gives the state of the instance from ``answers``, the last one for ever. It knows the instances ``others``."""

    def __init__(self, *answers: str | None, others: Sequence[str] = ()) -> None:
        super().__init__()
        self.answers = list(answers)
        self.others = others
        self.requests = 0
        self.counted = 0
        self.launched = 0

    def _next(self) -> str | None:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def instance_state(self, instance_id: str) -> str | None:
        self.requests += 1
        return self._next()

    def describe_instance(self, instance_id: str) -> Instance | None:  # type: ignore[override]
        return super().describe_instance(instance_id) if self._next() else None

    def states(self, instance_ids: Sequence[str]) -> dict[str, str]:
        self.counted += 1
        return {instance_id: "running" for instance_id in instance_ids if instance_id in self.others}

    def launch(self, request: LaunchRequest) -> Any:
        self.launched += 1
        return super().launch(request)


def later(*, ready: bool = True, hours: int = 1) -> World:
    world = World().put_live().put_pods(pod("web-1"))
    world.node["status"]["conditions"][0]["status"] = "True" if ready else "Unknown"
    world.clock.instant += timedelta(hours=hours)
    return world


def put_others(world: World, count: int) -> None:
    """Launched claims with the instances i-100, i-101 and so on."""
    for number in range(100, 100 + count):
        other = live(claim())
        other["metadata"] |= {"name": f"web-{number}", "uid": f"uid-{number}"}
        other["status"]["providerID"] = f"aws:///us-west-2a/i-{number}"
        world.kube.add(NODECLAIMS, other)


def launching(world: World, ec2: Forgetful) -> Launching:
    return Launching(world.kube, world.recorder, cast("Any", ec2), world.clock)


async def begun(world: World, ec2: Forgetful) -> NodeState:
    """What a workflow becomes that starts for the claim."""
    result = await launching(world, ec2).prepare(PrepareLaunchInput(claim=REF, attempt=1))
    return machine.apply(NodeState(claim=REF), result, world.clock())


def is_kept(world: World) -> bool:
    return "deletionTimestamp" not in world.claim["metadata"]


async def test_act04_a_ready_node_stays_although_ec2_does_not_know_its_instance() -> None:
    world = later()
    world.claim["metadata"]["labels"] |= {labels.INSTANCE_TYPE: "m5.large", labels.ZONE: "us-west-2a"}
    state = await begun(world, Forgetful(None))
    assert state.stage == "live"
    assert state.instance is not None
    assert (state.instance.provider_id, state.instance.instance_type, state.instance.price) == (
        PROVIDER_ID,
        "m5.large",
        0.1,
    )
    assert is_kept(world)
    (event,) = [event for event in world.recorder.events if event[2] == "InstanceUnknown"]
    assert "Node node-1 is Ready: the node stays" in event[3]


async def test_act04_a_ready_node_stays_while_ec2_calls_its_instance_terminated() -> None:
    """Like in a sweep: its kubelet has reported a moment ago."""
    world = later()
    assert (await begun(world, Forgetful("terminated"))).stage == "live"


async def test_a_node_that_is_not_ready_stays_if_only_one_answer_lacks_its_instance() -> None:
    world = later(ready=False)
    assert (await begun(world, Forgetful(None, "running"))).stage == "live"
    assert is_kept(world)


@pytest.mark.parametrize("present_items", [True, False])
async def test_act04_a_node_leaves_that_is_not_ready_and_that_ec2_twice_does_not_know(*, present_items: bool) -> None:
    world, ec2 = later(ready=False), Forgetful(None)
    if not present_items:
        world.kube.objects.pop(("nodes", "", "node-1"))
    state = await begun(world, ec2)
    assert state.leave is not None
    assert state.leave.reason == "instance_gone"
    assert ec2.requests == 2
    assert not is_kept(world)


async def test_a_deleted_claim_whose_instance_is_lost_leaves_because_it_was_deleted() -> None:
    world = later(ready=False)
    world.claim["metadata"]["deletionTimestamp"] = stamp(world.clock())
    state = await begun(world, Forgetful(None))
    assert state.leave is not None
    assert state.leave.reason == "deleted"
    assert world.status_of("Launched")[0] == "True", "it was launched, whatever became of it"


async def test_an_instance_of_seconds_ago_is_not_lost() -> None:
    """EC2 may show it later."""
    for world in (World().put_live(), registering()):
        world.clock.instant += timedelta(seconds=90)
        with pytest.raises(EC2Error, match="EC2 does not show i-1 yet") as refused:
            await begun(world, Forgetful(None))
        assert refused.value.retryable
        assert is_kept(world)


def registering() -> World:
    """A claim that was launched, and whose Node has not joined."""
    world = World()
    world.kube.add(NODECLAIMS, claim())
    return world


async def test_no_node_leaves_while_ec2_does_not_know_many_instances() -> None:
    """As in a wrong account or region. A person deletes the NodeClaims whose instances are really gone."""
    world, ec2 = later(ready=False), Forgetful(None, others=["i-100", "i-101", "i-102"])
    put_others(world, 5)
    state = await begun(world, ec2)
    assert (state.stage, state.leave, state.attempt, state.launch_failures) == ("preparing", None, 1, 0)
    assert state.deadline == world.clock() + timedelta(minutes=1)
    assert "so are 3 of 6 in the cluster, so no node leaves for that" in why_blocked(state)
    assert is_kept(world)
    assert ("NodeClaim", REF.name, "InstanceUnknown", why_blocked(state)) in world.recorder.events
    assert world.status_of("Launched")[0] == "True"
    world.claim["metadata"]["deletionTimestamp"] = stamp(world.clock())
    assert (await begun(world, ec2)).leave is not None


async def test_a_claim_that_waits_because_of_many_unknown_instances_goes_on_when_ec2_shows_its_own() -> None:
    world = later(ready=False)
    put_others(world, 5)
    part = launching(world, Forgetful(None, None, "running"))
    first = machine.apply(NodeState(claim=REF), await part.prepare(PrepareLaunchInput(claim=REF)), world.clock())
    assert first.stage == "preparing"
    again = machine.apply(first, await part.prepare(PrepareLaunchInput(claim=REF)), world.clock())
    assert (again.stage, again.blocked) == ("live", None)


async def test_few_unknown_instances_among_many_are_lost() -> None:
    world, ec2 = later(ready=False), Forgetful(None, others=["i-100", "i-101", "i-102", "i-103", "i-104"])
    put_others(world, 5)
    assert (await begun(world, ec2)).leave is not None


def recent(other: dict[str, Any]) -> None:
    for condition in other["status"]["conditions"]:
        condition["lastTransitionTime"] = stamp(World().clock() + timedelta(minutes=59))


def terminating(other: dict[str, Any]) -> None:
    other["status"]["conditions"].append({"type": "InstanceTerminating", "status": "True"})


def foreign(other: dict[str, Any]) -> None:
    other["spec"]["nodeClassRef"] = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}


@pytest.mark.parametrize("change", [recent, terminating, foreign])
async def test_instances_that_ec2_need_not_know_do_not_count(change: Callable[[dict[str, Any]], None]) -> None:
    world, ec2 = later(ready=False), Forgetful(None)
    put_others(world, 5)
    for name in world.kube.names(NODECLAIMS):
        if name != REF.name:
            change(world.kube.objects[("nodeclaims", "", name)])
    assert (await begun(world, ec2)).leave is not None


async def test_claims_that_ask_at_the_same_time_count_once() -> None:
    world, ec2 = later(ready=False), Forgetful(None)
    put_others(world, 5)
    part = launching(world, ec2)
    for _ in range(3):
        await part.prepare(PrepareLaunchInput(claim=REF))
    assert ec2.counted == 1
    world.clock.instant += timedelta(minutes=2)
    await part.prepare(PrepareLaunchInput(claim=REF))
    assert ec2.counted == 2


async def test_an_instance_that_ec2_shows_and_then_does_not_describe_is_not_launched_again() -> None:
    world, ec2 = later(ready=False), Forgetful("running", None)
    with pytest.raises(EC2Error, match="does not describe it now"):
        await begun(world, ec2)


async def test_a_reset_workflow_of_a_claim_with_a_provider_id_launches_nothing() -> None:
    """EC2 forgets client tokens, so the recorded request would buy a second instance."""
    world, ec2 = registering(), Forgetful("running")
    result = await launching(world, ec2).launch(LaunchInput(claim=REF, request=REQUEST))
    assert (result.instance is not None and result.instance.id, ec2.launched) == ("i-1", 0)


async def test_a_reset_workflow_whose_instance_is_lost_says_so() -> None:
    world, ec2 = registering(), Forgetful("terminated")
    result = await launching(world, ec2).launch(LaunchInput(claim=REF, request=REQUEST))
    assert (result.instance, result.reason, ec2.launched) == (None, "instance_gone", 0)


async def test_a_reset_workflow_waits_while_ec2_does_not_know_many_instances() -> None:
    world, ec2 = registering(), Forgetful(None)
    world.clock.instant += timedelta(hours=1)
    put_others(world, 5)
    result = await launching(world, ec2).launch(LaunchInput(claim=REF, request=REQUEST))
    assert result.waits is not None
    assert (result.waits.launched, ec2.launched) == (True, 0)
    state = NodeState(claim=REF, stage=Stage.LAUNCHING, request=REQUEST)
    assert machine.apply(state, result, world.clock()).stage == "preparing"
