"""What a plan takes into account of the cluster, of the operator's settings and of what EC2 refuses."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from tenon.apis import labels
from tenon.apis.ec2nodeclass import AMI
from tenon.apis.warm import STARTING
from tenon.ec2.types.bootable_types import without_images
from tenon.kube.pod import Pod
from tenon.kube.pod_rules import PodRules, PodTerm
from tenon.kube.requirements import Requirements
from tenon.kube.selectors import LabelSelector
from tenon.kube.taints import Taint
from tenon.messages.provisioning import UnavailableTypes
from tenon.provisioning.claims import largest_capacity
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.scheduling.model import Node
from tests.activities.provisioning.fake_view import START, UNREADY, FakeView, node_class, node_pool
from tests.activities.provisioning.setting import BATCH, Setting
from tests.tenon.scheduling.builders import CATALOG, asking, need, node, pod


async def test_nothing_is_bought_for_a_pod_that_goes_while_the_types_are_asked_for() -> None:
    """A new process asks EC2 for types and prices first, and that takes its time."""
    at = Setting(pod("a"), pod("b", cpu="8"))

    def gone() -> None:
        at.view.pods = [pod for pod in at.view.pods if pod.name == "b"]

    at.types.on_read = gone
    result = await at.planner.plan(BATCH)
    (body,) = at.kube.objects.values()
    assert result.pods == 1
    assert body["metadata"]["annotations"][labels.PLANNED_PODS] == "default/b=uid-b"


async def test_an_ec2nodeclass_that_goes_while_the_types_are_asked_for_does_not_stop_the_plan() -> None:
    """Those of the other class are asked for first, and that takes its time."""
    at = Setting(pod("a"))
    at.view.pools = [node_pool(), node_pool("other", {"template/spec/nodeClassRef/name": "other"})]
    at.view.classes["other"] = node_class("other")

    def gone() -> None:
        at.view.classes.pop("other", None)

    at.types.on_read = gone
    assert (await at.planner.plan(BATCH)).unschedulable == 0


async def test_a_warm_node_whose_state_changes_while_the_problem_is_stated_is_one_of_the_plan() -> None:
    """Or the node would have the taint of a warm node and not be one, and its pods would get another node."""
    at = Setting(pod("a"))
    at.view.existing = [node("n", cpu="2", taints=(Taint(labels.WARM, "NoSchedule"),))]
    at.view.warm = {"n": STARTING}

    def ready() -> list[Pod]:
        at.view.warm = {}
        return []

    at.view.daemons = ready  # type: ignore[method-assign]
    result = await at.planner.plan(BATCH)
    assert (result.claims, result.placed_on_existing) == ([], 1)


async def test_unusable_pools_are_left_out_and_the_others_go_on() -> None:
    """SCH-007: invalid, unready class, missing class, leaving, static: none of them stops a good pool."""
    at = Setting(pod("a"))
    reference = "template/spec/nodeClassRef/name"
    bad_schedule = {"disruption/budgets": [{"nodes": "1", "schedule": "61 * * * *", "duration": "1h"}]}
    at.view.classes["unready"] = node_class("unready", UNREADY)
    at.view.pools = [
        node_pool("invalid", {"weight": 100, **bad_schedule}),
        node_pool("unready", {"weight": 100, reference: "unready"}),
        node_pool("classless", {"weight": 100, reference: "nowhere"}),
        node_pool("leaving", {"weight": 100}, deletionTimestamp="2026-03-01T00:00:00Z"),
        node_pool("static", {"replicas": 3}),
        node_pool("good"),
    ]
    result = await at.planner.plan(BATCH)
    assert result.unschedulable == 0
    assert at.pools_used() == {"good"}


async def test_a_pod_that_no_image_boots_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    image = {"id": "ami-1", "requirements": [{"key": labels.ARCH, "operator": "In", "values": ["amd64"]}]}
    at = Setting(asking("a", need(labels.ARCH, "In", "arm64")))
    types = without_images(CATALOG, [AMI.model_validate(image)])
    monkeypatch.setattr(at.types, "instance_types", lambda *_, **__: types)
    result = await at.planner.plan(BATCH)
    await at.events_written()
    assert (result.claims, result.unschedulable) == ([], 1)
    ((*_, text),) = [event for event in at.recorder.events if event[0] == "Pod"]
    assert "NodePool default: no image of EC2NodeClass default boots arm64: " in text


async def test_a_pool_mended_while_the_plan_was_made_is_tried_at_once() -> None:
    """The verdict is about the pools that were read; a change since must not wait for a back-off."""
    at = Setting(pod("huge", cpu="5000"))

    def mend() -> None:
        at.view.pools = [node_pool(generation=2)]

    at.types.on_read = mend
    await at.planner.plan(BATCH)
    assert [result.name for result in at.batcher.undecided()] == ["huge"]


async def test_unavailable_offerings_are_not_planned_until_their_time_is_over() -> None:
    """AWS-033."""
    cheapest = (await _types_bought(()))[0]
    until = START + timedelta(minutes=3)
    assert cheapest not in await _types_bought([_unavailable(cheapest, until)])
    assert cheapest in await _types_bought([_unavailable(cheapest, START)])


async def test_an_unschedulable_pod_is_planned_again_when_an_offering_is_available_again() -> None:
    """After some plans in vain its own pause would be longer."""
    at = Setting(pod("a", cpu="5000"))
    for number in range(3):
        at.now += timedelta(minutes=2)
        offering = _unavailable(CATALOG[0].name, at.now + timedelta(seconds=15))
        value = {"batch": 41 + number, "unavailable": [offering]}
        assert (await at.planner.plan(BATCH.model_copy(update=value))).unschedulable == 1
    at.now += timedelta(seconds=14)
    assert at.batcher.undecided() == []
    at.now += timedelta(seconds=1)
    assert [result.name for result in at.batcher.undecided()] == ["a"]


def _unavailable(instance_type: str, until: datetime) -> UnavailableTypes:
    return UnavailableTypes(capacity_type="spot", zone="us-west-2a", instance_types=[instance_type], until=until)


async def _types_bought(unavailable: Sequence[UnavailableTypes]) -> Sequence[str]:
    at = Setting(pod("a"))
    result = await at.planner.plan(BATCH.model_copy(update={"unavailable": list(unavailable)}))
    return at.types_of(result.claims[0])


async def test_the_limits_of_a_pool_hold() -> None:
    """NP-23: usage counts before anything is bought."""
    at = Setting(pod("a"))
    at.view.pools = [node_pool(edits={"limits": {"nodes": "3"}})]
    at.view.usage = {"nodes": 3}
    assert (await at.planner.plan(BATCH)).unschedulable == 1
    assert at.kube.objects == {}


async def test_a_claim_says_how_much_of_the_limits_it_may_take() -> None:
    """SCH-092: the next batch counts that until the claim is launched. It names what the pool limits, and the usual."""
    at = Setting(pod("a"))
    at.view.pools = [node_pool(edits={"limits": {"cpu": "40", "nodes": "3", "nvidia.com/gpu": "4"}})]
    await at.planner.plan(BATCH)
    ((name, body),) = at.kube.objects.items()
    most = largest_capacity(body["metadata"]["annotations"])
    types = [kind for kind in CATALOG if kind.name in at.types_of(name)]
    assert most["cpu"] == max(kind.capacity["cpu"] for kind in types) <= 40_000
    assert most["memory"] == max(kind.capacity["memory"] for kind in types)
    assert most.keys() == {"cpu", "memory", "nvidia.com/gpu"}


async def test_preferences_hold_unless_the_operator_says_otherwise() -> None:
    """SET-03, SCH-015: two pods that would rather not share a node do so only under PREFERENCE_POLICY=Ignore."""
    apart = PodRules(preferred_anti_affinity=((1, PodTerm(labels.HOSTNAME, LabelSelector())),))
    pods = [pod("a", rules=apart), pod("b", rules=apart)]
    assert len((await Setting(*pods).planner.plan(BATCH)).claims) == 2
    ignoring = Setting(*pods, policy=PlanPolicy(ignore_preferences=True))
    assert len((await ignoring.planner.plan(BATCH)).claims) == 1


async def test_min_values_are_lowered_only_where_the_operator_lets_them() -> None:
    """SET-04, ANN-05: Strict leaves the pod pending, BestEffort buys and says so on the claim."""
    many = {"template/spec/requirements": [{"key": labels.INSTANCE_TYPE, "operator": "Exists", "minValues": 15}]}
    for best_effort in (False, True):
        at = Setting(pod("large", cpu="90"), policy=PlanPolicy(min_values_best_effort=best_effort))
        at.view.pools = [node_pool(edits=many)]
        result = await at.planner.plan(BATCH)
        annotations = [
            body["metadata"]["annotations"].get(labels.MIN_VALUES_RELAXED) for body in at.kube.objects.values()
        ]
        assert (result.unschedulable, annotations) == ((0, ["true"]) if best_effort else (1, []))


async def test_terms_that_choose_namespaces_by_label_see_their_labels() -> None:
    """SCH-064: the labels come from the cluster."""
    term = PodTerm(labels.HOSTNAME, LabelSelector(), (), LabelSelector((("team", "In", ("a",)),)))
    at = Setting(pod("a", rules=PodRules(anti_affinity=(term,))), pod("b"))
    assert len((await at.planner.plan(BATCH)).claims) == 1
    at = Setting(pod("a", rules=PodRules(anti_affinity=(term,))), pod("b"))
    at.view.spaces = {"default": {"team": "a"}}
    assert len((await at.planner.plan(BATCH)).claims) == 2


async def test_a_pod_with_a_volume_gets_a_node_where_it_can_be_reached() -> None:
    """SCH-070, SCH-072."""
    at = Setting(pod("a", volume_terms=(Requirements.of(need(labels.ZONE, "In", "us-west-2b")),)))
    await at.planner.plan(BATCH)
    (body,) = at.kube.objects.values()
    (zones,) = [term["values"] for term in body["spec"]["requirements"] if term["key"] == labels.ZONE]
    assert zones == ["us-west-2b"]


async def test_a_pod_whose_volume_is_made_at_last_is_planned_at_once() -> None:
    """SCH-004: it is told why it waits, and does not sit out a back-off afterwards."""
    at = Setting(pod("a", unsupported="its volume claim default/a does not exist: create it"))
    assert (await at.planner.plan(BATCH)).unschedulable == 1
    ((_, _, reason, message),) = at.recorder.events
    assert reason == "FailedScheduling"
    assert "for the pod: its volume claim default/a does not exist: create it; `tenon explain" in message
    assert at.batcher.undecided() == []
    at.view.pods = [pod("a", volume_terms=(Requirements.of(need(labels.ZONE, "In", "us-west-2b")),))]
    assert len((await at.planner.plan(BATCH.model_copy(update={"batch": 42}))).claims) == 1


async def test_the_problem_is_stated_from_a_snapshot_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 36 of docs/design.md: for thousands of nodes it takes seconds, and the event loop must renew the Lease."""
    threads: list[threading.Thread] = []
    nodes = FakeView.nodes

    def noted(view: FakeView) -> Sequence[Node]:
        threads.append(threading.current_thread())
        return nodes(view)

    monkeypatch.setattr(FakeView, "nodes", noted)
    assert (await Setting(pod("a")).planner.plan(BATCH)).claims
    assert threads
    assert threading.main_thread() not in threads
