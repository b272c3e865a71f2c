"""The end of a command that moves pods: what undoing removes, and what stays."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities.disruption.command_end import MAX_ATTEMPTS, OFFERS, CommandEnd
from activities.kubernetes.resources import NODECLAIMS, NODES, PODS
from tenon.apis.reasons import Reason
from tenon.messages.command_steps import FinishInput
from tenon.messages.node import Disrupt, DisruptAnswer
from tenon.node.ids import nodeclaim_id
from tenon.node.leave_text import recorded
from tests.activities.disruption.command_setting import ID, annotations_of, command, given, replacement, steps
from tests.activities.node.world import DISRUPTED, FINALIZER, REF, World, condition, live, node, pod


async def test_undoing_leaves_a_nodeclaim_that_belongs_to_another_command_by_now() -> None:
    """Neither deletes it nor takes the other command's mark off it."""
    world = World().put_live()
    other = replacement(**{"tenon.sh/replacement-for": "another-1"})
    world.kube.add(NODECLAIMS, other)
    await finish(world, stay=True, undo=True)
    metadata = world.kube.objects[("nodeclaims", "", "web-new")]["metadata"]
    assert metadata["annotations"]["tenon.sh/replacement-for"] == "another-1"
    assert "deletionTimestamp" not in metadata


class Replacements:
    """Stands for Temporal: the workflow of a replacement gives this answer to an update."""

    def __init__(self, answer: DisruptAnswer | Exception) -> None:
        self.answer = answer
        self.requests: list[tuple[str, Disrupt]] = []

    def get_workflow_handle(self, ident: str) -> Any:
        async def execute_update(_name: str, request: Disrupt, **_: Any) -> DisruptAnswer:
            self.requests.append((ident, request))
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        return SimpleNamespace(execute_update=execute_update)


def put_ready_replacement(world: World) -> dict[str, Any]:
    """The metadata of a replacement whose Node has joined."""
    ready = live(replacement() | {"status": {}})
    ready["metadata"]["uid"] = "uid-web-new"
    world.kube.add(NODECLAIMS, ready)
    return metadata_of_replacement(world)


def metadata_of_replacement(world: World) -> dict[str, Any]:
    metadata: dict[str, Any] = world.kube.objects[("nodeclaims", "", "web-new")]["metadata"]
    return metadata


def put_uninitialized_replacement(world: World, *pods: dict[str, Any]) -> None:
    """A replacement whose Node has joined and is not ready, with these pods."""
    provider_id = "aws:///us-west-2a/i-2"
    status = {
        "providerID": provider_id,
        "nodeName": "node-2",
        "conditions": [condition("Launched"), condition("Registered"), condition("Initialized", "False")],
    }
    world.kube.add(NODECLAIMS, replacement() | {"status": status})
    joined = node()
    joined["metadata"]["name"] = "node-2"
    joined["spec"]["providerID"] = provider_id
    world.kube.add(NODES, joined)
    world.put_pods(*pods)


async def finish(world: World, *, stay: bool, undo: bool, attempt: int = 1, client: Replacements | None = None) -> None:
    finish_input = FinishInput(cluster=REF.cluster, command=command(), stay=[REF.name] if stay else [], undo=undo)
    environment = ActivityEnvironment(client=cast("Any", client))
    environment.info = replace(environment.info, attempt=attempt)
    end = CommandEnd(world.kube, world.recorder, world.clock)
    await environment.run(end.finish_command, finish_input)


async def test_dis_65_undoing_leaves_no_trace_on_the_candidate() -> None:
    world = World().put_live()
    await steps(world).taint_candidates(given())
    await finish(world, stay=True, undo=True)
    assert world.node["spec"]["taints"] == []
    assert world.status_of("DisruptionReason") == ("", "")
    assert "tenon.sh/disrupted-by" not in annotations_of(world)


async def test_met34_a_command_that_is_undone_counts_as_a_failure() -> None:
    def failures() -> float:
        labels = {"decision": "replace", "reason": "underutilized", "consolidation_type": ""}
        return REGISTRY.get_sample_value("karpenter_voluntary_disruption_queue_failures_total", labels) or 0.0

    before = failures()
    await finish(World().put_live(), stay=True, undo=True)
    assert failures() == before + 1
    await finish(World().put_live(), stay=True, undo=False)
    assert failures() == before + 1


async def test_undoing_leaves_what_belongs_to_another_command() -> None:
    world = World().put_live()
    await steps(world).taint_candidates(given())
    annotations_of(world)["tenon.sh/disrupted-by"] = "drifted-2"
    await finish(world, stay=True, undo=True)
    assert world.node["spec"]["taints"] == [DISRUPTED]
    assert annotations_of(world)["tenon.sh/disrupted-by"] == "drifted-2"


async def test_a_candidate_that_leaves_by_now_keeps_its_taint() -> None:
    """The request to leave failed, but its workflow had received it."""
    world = World().put_live()
    await steps(world).taint_candidates(given())
    await world.kube.delete(NODECLAIMS, REF.name)
    await finish(world, stay=True, undo=False)
    assert world.node["spec"]["taints"] == [DISRUPTED]


async def test_dis_64_an_event_says_that_a_candidate_leaves() -> None:
    world = World().put_live()
    await steps(world).taint_candidates(given())
    await world.kube.delete(NODECLAIMS, REF.name)
    await finish(world, stay=False, undo=False)
    node = world.node["metadata"]["name"]
    for kind, name in (("NodeClaim", REF.name), ("Node", node)):
        event = (kind, name, "DisruptionTerminating", f"Disrupting {kind}: Underutilized")
        assert event in world.recorder.events


@pytest.mark.parametrize("stays", [False, True])
async def test_dis_64_an_event_says_that_a_candidate_left_before_the_command_looked(stays: bool) -> None:
    """On a busy machine the whole removal may be over. A candidate that was to stay left for another reason."""
    world = World().put_live()
    del world.kube.objects[("nodeclaims", "", REF.name)]
    await finish(world, stay=stays, undo=False)
    event = ("NodeClaim", REF.name, "DisruptionTerminating", "Disrupting NodeClaim: Underutilized")
    assert (event in world.recorder.events) is not stays


async def test_a_node_that_accepted_and_never_leaves_is_given_up() -> None:
    """Its workflow was terminated after it accepted, and the next one knows nothing of the command."""
    world = World().put_live()
    await steps(world).taint_candidates(given())
    with pytest.raises(ApplicationError, match="is not leaving yet"):
        await finish(world, stay=False, undo=False, attempt=MAX_ATTEMPTS - 1)
    assert world.node["spec"]["taints"] == [DISRUPTED]
    await finish(world, stay=False, undo=False, attempt=MAX_ATTEMPTS)
    assert world.node["spec"]["taints"] == []
    assert "tenon.sh/disrupted-by" not in annotations_of(world)


async def test_undoing_deletes_a_replacement_without_a_node() -> None:
    world = World().put_live()
    await steps(world).create_replacements(given())
    await finish(world, stay=True, undo=True)
    new = world.kube.objects[("nodeclaims", "", "web-new")]["metadata"]
    assert new["deletionTimestamp"]
    (why,) = recorded(new["annotations"])
    assert (why.reason, why.actor) == ("unused_replacement", f"command {ID}")


async def test_undoing_gives_a_replacement_its_finalizer_back_before_it_deletes_it() -> None:
    """Without the finalizer the NodeClaim is gone at once, and the instance that was just launched stays."""
    world = World().put_live()
    await steps(world).create_replacements(given())
    world.kube.objects[("nodeclaims", "", "web-new")]["metadata"]["finalizers"] = []
    await finish(world, stay=True, undo=True)
    new = world.kube.objects[("nodeclaims", "", "web-new")]["metadata"]
    assert new["finalizers"] == [FINALIZER]
    assert new["deletionTimestamp"]


async def test_dis_65_undoing_deletes_a_replacement_that_did_not_initialize_in_time() -> None:
    """Its workflow would refuse to leave, and it would cost money until the timeout of its initialization."""
    world = World().put_live()
    put_uninitialized_replacement(world, pod("kube-proxy-1", owner="DaemonSet", on="node-2"), pod("web-1"))
    temporal = Replacements(DisruptAnswer(accepted=False, why="not live yet: initializing"))
    await finish(world, stay=True, undo=True, client=temporal)
    new = metadata_of_replacement(world)
    assert new["deletionTimestamp"]
    (why,) = recorded(new["annotations"])
    assert (why.reason, why.actor) == ("unused_replacement", f"command {ID}")
    assert temporal.requests == []


async def test_dis_65_undoing_does_not_delete_an_uninitialized_replacement_that_pods_use() -> None:
    world = World().put_live()
    put_uninitialized_replacement(world, pod("web-1", on="node-2"))
    temporal = Replacements(DisruptAnswer(accepted=False, why="not live yet: initializing"))
    await finish(world, stay=True, undo=True, attempt=OFFERS, client=temporal)
    new = metadata_of_replacement(world)
    assert "deletionTimestamp" not in new
    assert "tenon.sh/replacement-for" not in new["annotations"]


async def test_undoing_asks_a_replacement_that_has_its_node_to_leave_if_it_is_empty() -> None:
    """Pods may have started there. Its workflow looks, and cordons it first."""
    world = World().put_live()
    put_ready_replacement(world)
    temporal = Replacements(DisruptAnswer(accepted=True))
    await finish(world, stay=True, undo=True, client=temporal)
    ((ident, request),) = temporal.requests
    assert ident == nodeclaim_id(REF.cluster, "web-new")
    assert (request.command, request.reason, request.only_if_empty) == (ID, Reason.EMPTY, True)
    new = metadata_of_replacement(world)
    assert "deletionTimestamp" not in new
    assert "tenon.sh/replacement-for" not in new["annotations"]


async def test_undoing_waits_for_a_replacement_that_binds_pods_and_then_lets_it_stay() -> None:
    """Until it is asked no more, it belongs to the command, so that nothing else uses or removes it."""
    world = World().put_live()
    put_ready_replacement(world)
    temporal = Replacements(DisruptAnswer(accepted=False, why="not live yet: binding"))
    with pytest.raises(ApplicationError, match="web-new of the failed command does not leave yet: not live yet"):
        await finish(world, stay=True, undo=True, attempt=OFFERS - 1, client=temporal)
    assert metadata_of_replacement(world)["annotations"]["tenon.sh/replacement-for"] == ID
    await finish(world, stay=True, undo=True, attempt=OFFERS, client=temporal)
    new = metadata_of_replacement(world)
    assert "deletionTimestamp" not in new
    assert "tenon.sh/replacement-for" not in new["annotations"]


async def test_a_replacement_without_a_workflow_stays_after_a_command_that_is_undone() -> None:
    """Emptiness and consolidation look after it."""
    world = World().put_live()
    put_ready_replacement(world)
    rpc_error = RPCError("workflow not found", RPCStatusCode.NOT_FOUND, b"")
    await finish(world, stay=True, undo=True, client=Replacements(rpc_error))
    assert "tenon.sh/replacement-for" not in metadata_of_replacement(world)["annotations"]


async def test_undoing_leaves_the_mark_of_a_command_that_takes_the_candidate_meanwhile() -> None:
    world = World().put_live()
    await steps(world).taint_candidates(given())

    def take() -> None:
        annotations_of(world)["tenon.sh/disrupted-by"] = "drifted-2"

    world.kube.before_patch.append(take)
    await finish(world, stay=True, undo=True)
    assert annotations_of(world)["tenon.sh/disrupted-by"] == "drifted-2"


async def test_a_finished_command_gives_its_replacements_free() -> None:
    world = World().put_live()
    await steps(world).create_replacements(given())
    await finish(world, stay=False, undo=False)
    new = world.kube.objects[("nodeclaims", "", "web-new")]["metadata"]
    assert "tenon.sh/replacement-for" not in new["annotations"]
    assert "deletionTimestamp" not in new
    assert world.kube.names(PODS) == []
