"""One batch on a cluster in memory: what is written, what a retry does, what is refused, what people are told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tenon.apis import labels
from tenon.kube.pod_rules import PodRules, PodTerm
from tenon.kube.requirements import Requirements
from tenon.kube.selectors import LabelSelector
from tenon.messages.provisioning import PlanInput, UnavailableTypes
from tenon.provisioning.claims import largest_capacity
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.scheduling.explanation.waiting import reason_in
from tenon.scheduling.model import Node
from tests.activities.provisioning.fake_view import START, UNREADY, FakeView, node_class, node_pool
from tests.activities.provisioning.setting import BATCH, Setting
from tests.tenon.scheduling.builders import CATALOG, asking, need, node, pod


async def test_pending_pods_become_a_claim_that_names_them() -> None:
    at = Setting(pod("a"), pod("b"))
    result = await at.planner.plan(BATCH)
    (body,) = at.kube.objects.values()
    assert result.claims == [body["metadata"]["name"]]
    assert (result.pods, result.unschedulable, result.placed_on_existing) == (2, 0, 0)
    assert result.price > 0
    assert body["metadata"]["labels"][labels.BATCH] == "41"
    assert body["metadata"]["annotations"][labels.PLANNED_PODS] == "default/a=uid-a,default/b=uid-b"
    assert body["metadata"]["ownerReferences"][0]["uid"] == "uid-default"


async def test_a_claim_says_why_it_is_bought() -> None:
    """The pods, the cheapest types, why the first of them was chosen, and the price."""
    at = Setting(*(pod(f"p{number}") for number in range(7)))
    result = await at.planner.plan(BATCH)
    (body,) = at.kube.objects.values()
    requests, types, choice, price = body["metadata"]["annotations"][labels.EXPLANATION].splitlines()
    assert requests == "7 pods: default/p0, default/p1, default/p2, default/p3, default/p4 and 2 more"
    cheapest = types.removeprefix("cheapest available types that fit: ").split(", ")[0]
    assert choice.startswith(f"{cheapest} in us-west-2")
    assert ": the cheapest of " in choice
    assert price.startswith(f"planned price: ${result.price:.4f} an hour ({cheapest}, us-west-2")


async def test_evt03_pods_on_a_nodeclaim_without_a_node_are_nominated_to_the_nodeclaim() -> None:
    """Also in the batches after the one that bought it."""
    at = Setting(pod("late"))
    at.view.existing = [replace(node("default-abcdef"), requirements=Requirements(), initialized=False)]
    result = await at.planner.plan(BATCH)
    assert result.placed_on_existing == 1
    messages = {(name, reason): message for _, name, reason, message in at.recorder.events}
    assert messages[("late", "Nominated")] == "Pod should schedule on: nodeclaim/default-abcdef"


async def test_the_same_batch_gives_the_same_names() -> None:
    """Two processes that plan one batch at the same time write the same objects, not twice as many."""
    first, second = Setting(pod("a")), Setting(pod("a"))
    assert (await first.planner.plan(BATCH)).claims == (await second.planner.plan(BATCH)).claims


async def test_a_retry_finds_what_was_written_and_writes_nothing() -> None:
    """A worker that dies after the writes and before the answer must not buy twice."""
    at = Setting(pod("a"), follows=False)
    first = await at.planner.plan(BATCH)
    at.restart()
    at.view.add(pod("late"))
    again = await at.planner.plan(BATCH)
    assert again.claims == first.claims
    assert len(at.kube.objects) == 1


async def test_a_lost_race_for_a_batch_writes_nothing_even_if_the_first_claim_is_the_same() -> None:
    """Plans that begin alike may differ further on: the retry finds what the winner wrote."""
    at = Setting(pod("a"))
    first = await at.planner.plan(BATCH)
    (body,) = at.kube.objects.values()
    other = Setting(pod("a"), pod("b", cpu="30"))
    other.kube.objects[first.claims[0]] = body
    listed, other.kube.list = other.kube.list, _nothing_yet  # type: ignore[method-assign]
    with pytest.raises(ApplicationError, match="another planner works on this batch"):
        await other.planner.plan(BATCH)
    other.kube.list = listed  # type: ignore[method-assign]
    assert list(other.kube.objects) == first.claims
    assert (await other.planner.plan(BATCH)).claims == first.claims


async def test_a_plan_waits_for_one_that_was_given_up_and_still_writes() -> None:
    """An ended provisioner does not stop its plan: the next provisioner's must see what that one bought."""
    at = Setting(pod("a"))
    task = asyncio.create_task(at.planner.plan(BATCH))
    after = asyncio.create_task(at.planner.plan(BATCH.model_copy(update={"batch": BATCH.batch + 1})))
    first, second = await asyncio.gather(task, after)
    assert len(first.claims) == 1
    assert second.claims == []
    assert len(at.kube.objects) == 1


async def test_half_a_batch_written_leaves_the_other_half_for_the_next() -> None:
    """The API server fails between two writes: no pod is lost, none is bought for twice."""
    pools = [node_pool("left"), node_pool("right")]
    at = Setting(
        asking("l", need(labels.NODEPOOL, "In", "left")),
        asking("r", need(labels.NODEPOOL, "In", "right")),
    )
    at.view.pools = pools
    at.kube.refuse_after = 1
    begun = await at.planner.plan(BATCH)
    assert len(begun.claims) == 1
    at.kube.refuse_after = None
    at.restart()
    assert (await at.planner.plan(BATCH)).claims == begun.claims
    rest = await at.planner.plan(BATCH.model_copy(update={"batch": 42}))
    assert rest.pods == 1
    assert at.pools_used() == {"left", "right"}
    assert len(at.kube.objects) == 2


async def test_a_plan_on_a_cache_behind_the_last_one_catches_up_first() -> None:
    """A plan on a stale cache would buy for the same pods again."""
    at = Setting(pod("a"), follows=False)
    last = await at.planner.plan(BATCH)
    at.restart()
    at.view.on_catch_up = lambda: at.view.claim(last.claims[0], "uid-a")
    after = await at.planner.plan(PlanInput(cluster="c", batch=42))
    assert (after.pods, after.claims) == (0, [])
    assert [set(names) for names in at.view.behind] == [set(last.claims)]
    assert len(at.kube.objects) == 1


async def test_claims_without_an_event_are_still_found() -> None:
    """The last plan may have been another replica's, ended by a kill before it could answer."""
    at = Setting(pod("a"), follows=False)
    lost = await at.planner.plan(BATCH)
    at.restart()
    at.view.known_batch = 40
    at.view.on_catch_up = lambda: at.view.claim(lost.claims[0], "uid-a")
    after = await at.planner.plan(PlanInput(cluster="c", batch=42))
    assert after.claims == []
    assert len(at.kube.objects) == 1
    assert at.kube.requests[-1] == 39, "no more is read than what may be missing"


async def test_a_cache_that_cannot_be_reread_makes_the_plan_retry() -> None:
    def silent() -> None:
        raise TimeoutError

    at = Setting(pod("a"), follows=False)
    await at.planner.plan(BATCH)
    at.restart()
    at.view.on_catch_up = silent
    with pytest.raises(ApplicationError, match="behind") as refused:
        await at.planner.plan(PlanInput(cluster="c", batch=42))
    assert (refused.value.type, refused.value.non_retryable) == ("CacheBehind", False)
    assert len(at.kube.objects) == 1


async def test_a_claim_that_is_gone_after_the_cache_was_reread_delays_nothing() -> None:
    """Plans go on; what the claim was for is bought again."""
    at = Setting(pod("a"), follows=False)
    await at.planner.plan(BATCH)
    at.restart()
    assert (await at.planner.plan(PlanInput(cluster="c", batch=42))).pods == 1


async def test_nothing_is_bought_for_pods_that_a_quiet_watch_shows_as_pending() -> None:
    """They were bound meanwhile; the first pass is a guess, the second is the truth."""
    at = Setting(pod("a"), pod("b", cpu="8"))

    def read_anew() -> bool:
        at.view.pods = [pod for pod in at.view.pods if pod.name == "b"]
        return True

    at.view.on_confirm = read_anew
    result = await at.planner.plan(BATCH)
    (body,) = at.kube.objects.values()
    assert result.pods == 1
    assert body["metadata"]["annotations"][labels.PLANNED_PODS] == "default/b=uid-b"


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


async def test_pods_are_not_read_again_for_a_plan_that_buys_nothing() -> None:
    at = Setting(pod("huge", cpu="5000"))
    requests: list[bool] = []
    at.view.on_confirm = lambda: requests.append(True) or False  # type: ignore[func-returns-value]
    await at.planner.plan(BATCH)
    assert requests == []


async def test_two_replicas_that_plan_one_batch_for_other_pods_do_not_mix() -> None:
    """The second stops at the first claim it finds, before it has written any."""
    others = [asking("l", need(labels.NODEPOOL, "In", "left")), asking("r", need(labels.NODEPOOL, "In", "right"))]
    first = Setting(pod("a"))
    await first.planner.plan(BATCH)
    second = Setting(pod("b"), *others)
    second.view.pools = [node_pool(), node_pool("left"), node_pool("right")]
    racing = second.kube
    listed, racing.list = racing.list, _nothing_yet  # type: ignore[method-assign]
    racing.objects = dict(first.kube.objects)
    with pytest.raises(ApplicationError, match="another planner"):
        await second.planner.plan(BATCH)
    racing.list = listed  # type: ignore[method-assign]
    assert racing.objects == first.kube.objects
    assert (await second.planner.plan(BATCH)).claims == list(first.kube.objects)


async def _nothing_yet(*_: object, **__: object) -> list[dict[str, Any]]:
    return []


async def test_an_unsynced_cache_is_refused_for_a_retry() -> None:
    """A plan on half a picture would buy nodes that exist."""
    at = Setting(pod("a"))
    at.view.wait_complete = False
    with pytest.raises(ApplicationError) as refused:
        await at.planner.plan(BATCH)
    assert (refused.value.type, refused.value.non_retryable) == ("CacheBehind", False)
    assert at.kube.objects == {}


async def test_decided_pods_are_not_planned_again() -> None:
    at = Setting(pod("a"))
    await at.planner.plan(BATCH)
    again = await at.planner.plan(PlanInput(cluster="c", batch=42))
    assert (again.pods, again.claims) == (0, [])


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


async def test_pods_that_fit_nowhere_hear_of_the_pools_that_launch_nothing() -> None:
    """SCH-007: the pool that would have taken them may be the one that is not ready."""
    claim = "its volume claim default/b does not exist: create it"
    at = Setting(pod("a", cpu="5000"), pod("b", unsupported=claim))
    at.view.classes["unready"] = node_class("unready", UNREADY)
    at.view.pools.append(node_pool("other", {"template/spec/nodeClassRef/name": "unready"}))
    await at.planner.plan(BATCH)
    events = {event[1]: event[3] for event in at.recorder.events}
    assert "NodePool default: " in events["a"]
    assert "NodePool other: EC2NodeClass unready is not ready" in events["a"]
    assert reason_in(events["b"]) == claim, "no pool could change that"


async def test_no_pool_at_all_leaves_every_pod_with_a_reason() -> None:
    at = Setting(pod("a"))
    at.view.pools = []
    result = await at.planner.plan(BATCH)
    assert (result.unschedulable, result.claims) == (1, [])
    ((kind, name, reason, message),) = at.recorder.events
    assert (kind, name, reason) == ("Pod", "a", "FailedScheduling")
    assert message


async def test_events_say_what_becomes_of_each_pod() -> None:
    """EVT-03: Nominated with the NodeClaim or the node, FailedScheduling with the reason."""
    at = Setting(pod("fits"), pod("bought", cpu="8"), pod("huge", cpu="5000"))
    at.view.existing = [node("n1", cpu="2")]
    result = await at.planner.plan(BATCH)
    messages = {(name, reason): message for _, name, reason, message in at.recorder.events}
    assert messages[("fits", "Nominated")] == "Pod should schedule on: node/n1"
    assert messages[("bought", "Nominated")] == f"Pod should schedule on: nodeclaim/{result.claims[0]}"
    assert "default" in messages[("huge", "FailedScheduling")]
    assert len(messages) == 3
    assert (result.pods, result.placed_on_existing, result.unschedulable) == (3, 1, 1)


async def test_evt03_a_pool_without_instance_types_is_named_on_the_pool_itself() -> None:
    """A user who reads the NodePool must find what its pods hear."""
    at = Setting(pod("a"))
    typo = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m5.gigantic"]}
    at.view.pools = [node_pool("typo", {"template/spec/requirements": [typo]}), node_pool("good")]
    await at.planner.plan(BATCH)
    ((name, message),) = [
        (name, message)
        for kind, name, reason, message in at.recorder.events
        if (kind, reason) == ("NodePool", "NoCompatibleInstanceTypes")
    ]
    assert name == "typo"
    assert message.startswith("No available instance type meets its requirement node.kubernetes.io/instance-type In")


async def test_pods_on_existing_nodes_wait_for_kube_scheduler() -> None:
    """SCH-018: nominated for 20 s."""
    at = Setting(pod("a"))
    at.view.existing = [node("n1")]
    result = await at.planner.plan(BATCH)
    assert (result.claims, result.placed_on_existing) == ([], 1)
    at.now += timedelta(seconds=19)
    assert at.batcher.undecided() == []
    at.now += timedelta(seconds=2)
    assert len(at.batcher.undecided()) == 1


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
    assert (reason, reason_in(message)) == ("FailedScheduling", "its volume claim default/a does not exist: create it")
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


async def test_a_plan_names_the_pods_without_a_node_also_those_of_earlier_plans() -> None:
    """The page of the provisioner shows them. A pod that is gone is not named."""
    at = Setting(pod("huge", cpu="9000"), pod("vast", cpu="8000"))
    first = await at.planner.plan(BATCH)
    assert [(group.pods, group.has_place) for group in first.pending] == [
        (["default/vast"], False),
        (["default/huge"], False),
    ]
    at.view.pods = [pod("huge", cpu="9000"), pod("small")]
    second = await at.planner.plan(PlanInput(cluster="c", batch=42))
    lost, bought = second.pending
    assert lost.pods == ["default/huge"]
    assert "NodePool default: needs 9000 CPU" in lost.why
    (name,) = second.claims
    assert (bought.pods, bought.has_place) == (["default/small"], True)
    assert bought.why.startswith(f"{name} (")
    assert bought.why.endswith(") was created for it")
