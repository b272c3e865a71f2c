"""Draining against refusals, time and force."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from activities.kubernetes.client import EvictionAnswer
from activities.kubernetes.errors import ApiUnreachableError, ForbiddenError
from activities.kubernetes.resources import NODECLAIMS, PDBS, PODS, VOLUMEATTACHMENTS
from activities.node.drain import drain
from tenon.messages.node_steps import DrainInput, DrainResult
from tenon.node import drain_blockers
from tenon.node.drain import STUCK_AFTER
from tests.activities.node.fake_kube import START
from tests.activities.node.world import PROVIDER_ID, REF, World, claim, live, pod

CRITICAL = {"priorityClassName": "system-node-critical"}
BLOCKED = EvictionAnswer("blocked", "The disruption budget web needs 1 healthy pods and has 1 currently")


def said(result: DrainResult) -> list[str]:
    """What blocks the drain, in sentences."""
    return [*map(drain_blockers.sentence, result.blocked)]


async def run(world: World, **fields: Any) -> Any:
    drain_input = DrainInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1", **fields)
    return await drain(world.kube, world.recorder, drain_input, world.clock, world.clock.sleep)


def budget(name: str, app: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": app}}}}


async def test_waves_go_one_after_the_other() -> None:
    """TRM-03: no wave is asked before the one ahead of it is gone."""
    world = World().put_live()
    world.put_pods(
        pod("dns", **CRITICAL),
        pod("proxy", owner="DaemonSet", **CRITICAL),
        pod("web", terminationGracePeriodSeconds=5),
        pod("log", owner="DaemonSet"),
    )
    result = await run(world, budget_seconds=600)
    assert (result.drained, result.evicted, result.remaining) == (True, 4, 0)
    assert result.workloads == ["default/web", "default/dns"], "what may come back on another node"
    assert [call[1] for call in world.kube.calls if call[0] == "evict"] == ["web", "log", "dns", "proxy"]
    assert world.recorder.reasons() == ["Evicted"] * 4
    assert world.clock() - START >= timedelta(seconds=5 + 30 + 30), "each wave was waited for"
    assert world.status_of("Drained")[0] == "True"


async def test_what_cannot_be_drained_is_not_waited_for() -> None:
    """TRM-04."""
    ended = pod("job")
    ended["status"]["phase"] = "Failed"
    stuck = pod("stuck")
    stuck["metadata"] |= {"deletionTimestamp": "2026-03-01T11:58:59Z", "deletionGracePeriodSeconds": 30}
    mirror = pod("static", owner="")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    tolerant = pod("tolerant", tolerations=[{"key": "karpenter.sh/disrupted", "operator": "Exists"}])
    world = World().put_live().put_pods(ended, mirror, tolerant, stuck)
    world.kube.kubelet = False
    result = await run(world)
    assert (result.drained, result.evicted) == (True, 0)
    assert [call for call in world.kube.calls if call[0] == "evict"] == []


@pytest.mark.parametrize("force", [False, True])
async def test_n15_320_a_new_pod_of_the_same_name_is_not_removed_in_place_of_the_old_one(*, force: bool) -> None:
    """A StatefulSet's pod may have started again elsewhere since the pods were listed."""
    world = World().put_live().put_pods(pod("db-0", owner="StatefulSet"))
    listed = world.kube.list

    async def then_replaced(*value: Any, **more: Any) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = await listed(*value, **more)
        if any(item["metadata"].get("uid") == "uid-db-0" for item in answer):
            replaced = pod("db-0", owner="StatefulSet", on="node-2")
            replaced["metadata"]["uid"] = "uid-of-new"
            world.kube.add(PODS, replaced)
        return answer

    world.kube.list = then_replaced
    assert (await run(world, force=force)).drained
    new = world.kube.objects[("pods", "default", "db-0")]
    assert new["metadata"]["uid"] == "uid-of-new"
    assert "deletionTimestamp" not in new["metadata"]


@pytest.mark.parametrize(("force", "event"), [(False, "Evicted"), (True, "Disrupted")])
async def test_evt04_each_pod_says_why_it_was_removed(*, force: bool, event: str) -> None:
    world = World().put_live().put_pods(pod("web-0"))
    await run(world, why="Drain: ann@laptop", reason="drain", force=force)
    (events,) = [event for event in world.recorder.events if event[0] == "Pod"]
    assert events[2] == event
    assert "Node node-1" in events[3]
    assert events[3].endswith(": Drain: ann@laptop")


async def test_a_pod_that_the_last_pass_shows_is_drained_too() -> None:
    """The API server's cache may lack a pod that came a moment ago, and the instance ends next."""
    world = World().put_live().put_pods(pod("web-0"))
    listed = world.kube.list

    async def late(*value: Any, **more: Any) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = await listed(*value, **more)
        return [] if more.get("resource_version") == "0" and world.kube.names(PODS) else answer

    world.kube.list = late
    result = await run(world, budget_seconds=600)
    assert (result.drained, result.evicted) == (True, 1)
    assert world.kube.names(PODS) == []


async def test_a_time_of_force_that_is_earlier_than_the_recorded_one_is_recorded() -> None:
    """Because a workflow that starts again knows only what the claim says."""
    world = World().put_live().put_pods(pod("web-0"))
    name = "karpenter.sh/nodeclaim-termination-timestamp"
    world.claim["metadata"]["annotations"][name] = "2026-03-01T13:00:00Z"
    await run(world, force=True)
    assert world.claim["metadata"]["annotations"][name] == "2026-03-01T12:00:00Z"


async def test_a_pod_that_ends_already_is_not_counted_as_evicted_when_its_deletion_is_cut_short() -> None:
    ending = pod("web-0", terminationGracePeriodSeconds=3600)
    ending["metadata"] |= {"deletionTimestamp": "2026-03-01T13:00:00Z", "deletionGracePeriodSeconds": 3600}
    world = World().put_live().put_pods(ending)
    result = await run(world, force_at=START + timedelta(seconds=40), budget_seconds=600)
    assert (result.drained, result.evicted) == (True, 0)
    assert [event for event in world.recorder.events if event[0] == "Pod"] == []


async def test_a_budget_blocks_and_is_named() -> None:
    """TRM-05, EVT-04."""
    world = World().put_live().put_pods(pod("web-0"), pod("api-0"))
    world.kube.add(PDBS, budget("web", "web"))
    world.kube.answers["default/web-0"] = BLOCKED
    result = await run(world)
    assert not result.drained
    assert (result.evicted, result.remaining) == (1, 1)
    assert said(result) == ["pod default/web-0 cannot be evicted: PodDisruptionBudget default/web allows no eviction"]
    events = [event for event in world.recorder.events if event[2] == "FailedDraining"]
    assert [(event[0], event[1]) for event in events] == [("Pod", "web-0"), ("Node", "node-1")]
    assert all(said(result)[0] in event[3] for event in events)
    assert world.status_of("Drained") == ("Unknown", "Draining")
    calls = [call for call in world.kube.calls if call == ("evict", "web-0")]
    assert 6 <= len(calls) <= 12, "a refused eviction is asked again, ever more slowly"


async def test_ctl06_a_blocked_pod_is_tried_again_after_at_most_ten_seconds() -> None:
    """The pauses between looks at the pods, which grow too, add at most a second to those between its evictions."""
    world = World().put_live().put_pods(pod("web-0"))
    world.kube.answers["default/web-0"] = BLOCKED
    evict = world.kube.evict
    tries: list[float] = []

    async def noted(*value: Any, **more: Any) -> EvictionAnswer:
        tries.append((world.clock() - START).total_seconds())
        answer: EvictionAnswer = await evict(*value, **more)
        return answer

    world.kube.evict = noted
    await run(world, budget_seconds=120)
    gaps = [later - earlier for earlier, later in pairwise(tries)]
    assert all(gap <= bound + 1 for gap, bound in zip(gaps, [1, 2, 4, 8, *[10] * len(gaps)], strict=False)), gaps
    assert len(gaps) >= 4 + (120 - 19) // 11


async def test_two_budgets_on_one_pod_are_both_named() -> None:
    """QRK-09: the API server never evicts such a pod."""
    world = World().put_live().put_pods(pod("web-0"))
    world.kube.add(PDBS, budget("one", "web"))
    world.kube.add(PDBS, budget("two", "web"))
    world.kube.answers["default/web-0"] = EvictionAnswer("error", "more than one PodDisruptionBudget")
    [sentence] = said(await run(world, budget_seconds=2))
    assert "default/one, default/two" in sentence


async def test_an_overloaded_server_is_not_blamed_on_a_budget() -> None:
    world = World().put_live().put_pods(pod("web-0"))
    world.kube.add(PDBS, budget("web", "web"))
    world.kube.answers["default/web-0"] = EvictionAnswer("error", "too many requests")
    [sentence] = said(await run(world, budget_seconds=2))
    assert sentence == "pod default/web-0 cannot be evicted: too many requests"


async def test_a_budget_that_gives_way_lets_the_drain_go_on() -> None:
    world = World().put_live().put_pods(pod("web-0", terminationGracePeriodSeconds=1))
    world.kube.answers["default/web-0"] = BLOCKED
    world.clock.on_tick.append(lambda: world.kube.answers.clear() if world.clock.slept == 10 else None)
    result = await run(world)
    assert (result.drained, result.evicted, result.blocked) == (True, 1, [])


async def test_do_not_disrupt_holds_until_the_grace_period_takes_over() -> None:
    """DIS-80, TRM-06: force at the instant less the pod's own grace, with what remains of it."""
    hold = pod("web-0", terminationGracePeriodSeconds=20)
    hold["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    world = World().put_live().put_pods(hold)
    result = await run(world, force_at=START + timedelta(seconds=50))
    assert (result.drained, result.evicted) == (True, 1)
    assert [call for call in world.kube.calls if call[1] == "pods"] == [("delete", "pods", "web-0", "20")]
    assert world.clock() == START + timedelta(seconds=50)
    assert "do-not-disrupt" in next(event[3] for event in world.recorder.events if event[2] == "FailedDraining")
    assert "Disrupted" in world.recorder.reasons()


@pytest.mark.parametrize(("began_with", "seconds"), [(None, 50), (60, 50), (40, 40)])
async def test_ann04_an_earlier_end_of_the_grace_period_that_is_written_on_the_claim_holds(
    began_with: int | None, seconds: int
) -> None:
    """While the drain goes on: an operator's remedy for a node that a budget keeps."""
    world = World().put_live().put_pods(pod("web-0", terminationGracePeriodSeconds=20))
    world.kube.add(PDBS, budget("web", "web"))
    world.kube.answers["default/web-0"] = BLOCKED
    began = START + timedelta(seconds=began_with) if began_with is not None else None
    blocked = await run(world, force_at=began, budget_seconds=5)
    assert (blocked.drained, blocked.force_at) == (False, began)
    written = {"karpenter.sh/nodeclaim-termination-timestamp": "2026-03-01T12:00:50Z"}
    world.claim["metadata"]["annotations"] |= written
    reported = await run(world, force_at=began, budget_seconds=5)
    assert reported.force_at == START + timedelta(seconds=seconds)
    result = await run(world, force_at=began, budget_seconds=600)
    assert (result.drained, world.clock()) == (True, START + timedelta(seconds=seconds))


async def test_a_long_deletion_under_way_is_cut_to_the_grace_period_once() -> None:
    world = World().put_live().put_pods(pod("slow", terminationGracePeriodSeconds=3600))
    await run(world, budget_seconds=3)
    result = await run(world, force_at=START + timedelta(seconds=40))
    assert result.drained
    assert world.clock() == START + timedelta(seconds=40)
    assert [call for call in world.kube.calls if call[0] == "delete"][1:] == [("delete", "pods", "slow", "40")]


async def test_a_budget_holds_only_until_the_grace_period_of_the_node() -> None:
    """TRM-06, EVT-04: told before, then the pod is deleted past its budget, with what is left of its grace."""
    world = World().put_live().put_pods(pod("web-0", terminationGracePeriodSeconds=20))
    world.kube.add(PDBS, budget("web", "web"))
    world.kube.answers["default/web-0"] = BLOCKED
    force_at = START + timedelta(seconds=90)
    first = await run(world, force_at=force_at)
    [sentence] = said(first)
    assert "PodDisruptionBudget default/web allows no eviction" in sentence
    assert sentence.endswith("; it is deleted at 2026-03-01 12:01:10 UTC all the same")
    assert ("Node", "node-1", "TerminationGracePeriodExpiring") in [event[:3] for event in world.recorder.events]
    assert not [call for call in world.kube.calls if call[0] == "delete"]
    second = await run(world, force_at=force_at)
    assert (second.drained, second.evicted) == (True, 1)
    assert [call for call in world.kube.calls if call[0] == "delete"] == [("delete", "pods", "web-0", "20")]
    assert world.clock() == force_at


@pytest.mark.parametrize("finalizers", [[], ["example.com/hold"]])
async def test_after_the_grace_period_nothing_that_hangs_is_waited_for(finalizers: list[str]) -> None:
    """TRM-06: neither a dead kubelet nor a finalizer on a pod holds the node beyond its grace period."""
    hangs = pod("web-0", terminationGracePeriodSeconds=20)
    hangs["metadata"]["finalizers"] = finalizers
    world = World().put_live().put_pods(hangs)
    world.kube.kubelet = False
    force_at = START + timedelta(seconds=30)
    result = await run(world, force_at=force_at)
    assert result.drained
    assert force_at <= world.clock() <= force_at + timedelta(seconds=10)
    event = world.recorder.events[-1]
    assert event[:3] == ("Node", "node-1", "FailedDraining")
    assert event[3].startswith("the drain no longer waits for these pods: pod default/web-0 should have ended by ")
    assert ("example.com/hold" in event[3]) is bool(finalizers)


async def test_pods_that_were_never_asked_get_their_second_after_a_missed_grace_period() -> None:
    """TRM-06: a worker that comes back late still deletes with a grace of 1 s before the machine ends."""
    world = World().put_live().put_pods(pod("web-0"))
    result = await run(world, force_at=START - timedelta(hours=1))
    assert (result.drained, result.evicted) == (True, 1)
    assert ("delete", "pods", "web-0", "1") in world.kube.calls
    assert world.kube.names(PODS) == []


async def test_a_pod_that_cannot_be_deleted_holds_the_node_a_minute_past_its_grace_period() -> None:
    """TRM-06: an admission policy that forbids the deletion is named, and then the machine ends all the same."""
    world = World().put_live().put_pods(pod("guarded"))
    world.kube.undeletable = {"guarded"}
    force_at = START + timedelta(seconds=5)
    first = await run(world, force_at=force_at)
    assert said(first) == ["pod default/guarded cannot be deleted: denied by policy"]
    second = await run(world, force_at=force_at)
    assert second.drained
    assert world.clock() <= force_at + timedelta(seconds=70)
    assert "the drain no longer waits for these pods: pod default/guarded" in world.recorder.events[-1][3]


async def test_a_pod_that_can_be_deleted_at_last_still_gets_its_second() -> None:
    """TRM-06: the policy gives way in the round in which the drain would give up. The pod ends before the machine."""
    world = World().put_live().put_pods(pod("guarded"))
    world.kube.undeletable = {"guarded"}
    force_at = START + timedelta(seconds=5)

    def give_way() -> None:
        if world.clock() >= force_at + STUCK_AFTER:
            world.kube.undeletable = set()

    world.clock.on_tick.append(give_way)
    result = await run(world, force_at=force_at, budget_seconds=600)
    assert (result.drained, result.evicted) == (True, 1)
    assert world.kube.names(PODS) == []


async def test_a_finalizer_that_keeps_a_pod_is_named_and_then_not_waited_for() -> None:
    """TRM-04: a minute past its grace the pod is left behind; until then the sentence says who must act."""
    hold = pod("web-0", terminationGracePeriodSeconds=10)
    hold["metadata"]["finalizers"] = ["example.com/hold"]
    world = World().put_live().put_pods(hold)
    first = await run(world, budget_seconds=30)
    assert said(first) == [
        "pod default/web-0 should have ended by 2026-03-01 12:00:10 UTC, but finalizer example.com/hold keeps it: "
        "its owner must remove it"
    ]
    second = await run(world)
    assert second.drained
    assert timedelta(seconds=70) < world.clock() - START <= timedelta(seconds=75)


async def test_a_pod_that_is_slow_to_end_blocks_nothing() -> None:
    """TRM-04: nothing a person could change, so it blocks nothing; it is told once it is left behind."""
    world = World().put_live().put_pods(pod("web-0", terminationGracePeriodSeconds=10))
    world.kube.kubelet = False
    first = await run(world)
    assert (first.remaining, first.blocked) == (1, [])
    assert "FailedDraining" not in world.recorder.reasons()
    assert (await run(world)).drained
    assert world.recorder.events[-1][3].endswith("but its kubelet has not reported its end")


async def test_a_misspelled_protection_protects_nothing_and_is_reported() -> None:
    """ANN-01."""
    hold = pod("web-0", terminationGracePeriodSeconds=1)
    hold["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "yes"}
    world = World().put_live().put_pods(hold)
    assert (await run(world)).drained
    assert world.recorder.reasons() == ["InvalidDoNotDisruptAnnotation", "Evicted"]


def vanished(world: World) -> World:
    """The machine of the node is gone: no kubelet, so Kubernetes no longer calls the Node Ready."""
    world.kube.kubelet = False
    world.node["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    return world


async def test_a_vanished_machine_is_drained_at_once() -> None:
    """TRM-09: no wave, no budget, no protection and no volume is waited for; the pods start elsewhere at once."""
    protected, hold = pod("web-0"), pod("held-0")
    protected["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    hold["metadata"]["finalizers"] = ["example.com/hold"]
    ending = pod("slow-0")
    ending["metadata"] |= {"deletionTimestamp": "2026-03-01T13:00:00Z", "deletionGracePeriodSeconds": 3600}
    world = (
        World()
        .put_live()
        .put_pods(protected, hold, ending, pod("api-0"), pod("dns", **CRITICAL), pod("log", owner="DaemonSet"))
    )
    world.kube.answers["default/api-0"] = BLOCKED
    world.kube.undeletable = {"dns"}
    spec = {"nodeName": "node-1", "source": {"persistentVolumeName": "pv-1"}}
    world.kube.add(VOLUMEATTACHMENTS, {"metadata": {"name": "va"}, "spec": spec})
    result = await run(vanished(world), instance_gone=True)
    assert (result.drained, result.volumes_attached) == (True, 0)
    assert world.clock.slept == 0
    assert world.kube.names(PODS) == ["dns", "held-0", "log"], "what cannot go is left to garbage collection"
    assert world.status_of("Drained")[0] == "True"


async def test_a_machine_is_not_taken_for_gone_while_its_kubelet_reports() -> None:
    """TRM-09 needs both: EC2 without the instance, and a Node that is not Ready."""
    world = World().put_live().put_pods(pod("web-0", terminationGracePeriodSeconds=3600))
    world.kube.kubelet = False

    def tick() -> None:
        if world.clock.slept == 5:
            vanished(world)

    world.clock.on_tick.append(tick)
    result = await run(world, instance_gone=True)
    assert (result.drained, world.clock.slept) == (True, 5)
    assert world.kube.calls[0] == ("evict", "web-0"), "until then it is drained like any other"
    assert world.kube.names(PODS) == []


async def test_n15_318_n15_322_force_deletes_all_waves_at_once_whatever_protects_them() -> None:
    hold = pod("web-0")
    hold["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    world = World().put_live().put_pods(hold, pod("dns", **CRITICAL), pod("log", owner="DaemonSet"))
    result = await run(world, force=True)
    assert (result.drained, result.evicted) == (True, 3)
    assert world.clock() - START == timedelta(seconds=1)
    assert [call for call in world.kube.calls if call[0] == "evict"] == []


async def test_force_is_remembered_on_the_claim() -> None:
    """A workflow that is begun again in the middle of it knows only what stands there."""
    world = World().put_live().put_pods(pod("web-0"))
    await run(world, force=True, force_at=START - timedelta(seconds=5))
    written = world.claim["metadata"]["annotations"]["karpenter.sh/nodeclaim-termination-timestamp"]
    assert written == "2026-03-01T11:59:55Z"
    await run(world, force=True)
    assert world.claim["metadata"]["annotations"]["karpenter.sh/nodeclaim-termination-timestamp"] == written


async def test_force_does_not_wait_for_a_dead_kubelet() -> None:
    world = World().put_live().put_pods(pod("web-0"))
    world.kube.kubelet = False
    assert (await run(world, force=True)).drained
    assert ("delete", "pods", "web-0", "0") in world.kube.calls
    assert world.clock() - START < timedelta(seconds=10)


async def test_one_pod_refused_by_a_policy_does_not_stop_the_others() -> None:
    world = World().put_live().put_pods(pod("guarded"), pod("web-0", terminationGracePeriodSeconds=1))
    evict = world.kube.evict

    async def guarded(namespace: str, name: str, **options: Any) -> EvictionAnswer:
        if name == "guarded":
            raise ForbiddenError(403, "Forbidden", "denied by policy")
        answer: EvictionAnswer = await evict(namespace, name, **options)
        return answer

    world.kube.evict = guarded
    result = await run(world, budget_seconds=5)
    assert (result.evicted, result.remaining) == (1, 1)
    assert said(result) == ["pod default/guarded cannot be evicted: denied by policy"]


async def test_an_unreachable_server_is_an_error_and_not_a_reason() -> None:
    world = World().put_live().put_pods(pod("web-0"))

    async def away(*_: object, **__: object) -> EvictionAnswer:
        raise ApiUnreachableError("https://127.0.0.1", "refused")

    world.kube.evict = away
    with pytest.raises(ApiUnreachableError):
        await run(world)


async def test_volumes_are_counted_at_the_end_and_a_missing_node_is_drained() -> None:
    world = World().put_live()
    for number in range(2):
        spec = {"nodeName": "node-1", "source": {"persistentVolumeName": f"pv-{number}"}}
        world.kube.add(VOLUMEATTACHMENTS, {"metadata": {"name": f"va-{number}"}, "spec": spec})
    assert (await run(world)).volumes_attached == 2
    removal = World()
    removal.kube.add(NODECLAIMS, live(claim()))
    result = await run(removal)
    assert (result.drained, result.volumes_attached) == (True, 0)


async def test_at_most_ten_sentences_whatever_is_blocked() -> None:
    world = World().put_live().put_pods(*(pod(f"web-{number:02}") for number in range(30)))
    world.kube.answers = {f"default/web-{number:02}": BLOCKED for number in range(30)}
    result = await run(world, budget_seconds=1)
    assert (len(result.blocked), result.remaining) == (10, 30)
    [event] = [event for event in world.recorder.events if event[0] == "Node"]
    assert event[3].endswith("and 27 more")


@pytest.mark.parametrize("written", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
async def test_ann04_a_drain_ends_whatever_time_is_written_on_the_claim(written: str) -> None:
    world = World().put_live().put_pods(pod("web-0"))
    world.claim["metadata"]["annotations"]["karpenter.sh/nodeclaim-termination-timestamp"] = written
    assert (await run(world)).drained
    assert world.kube.names(PODS) == []


@pytest.mark.parametrize("volume", [None, "pv-1"])
async def test_trm10_a_drained_node_without_volumes_has_them_detached(volume: str | None) -> None:
    """`kubectl wait --for=condition=VolumesDetached` ends for every node that is drained."""
    world = World().put_live().put_pods(pod("web-0"))
    if volume:
        spec = {"nodeName": "node-1", "source": {"persistentVolumeName": volume}}
        world.kube.add(VOLUMEATTACHMENTS, {"metadata": {"name": "va"}, "spec": spec})
    assert (await run(world)).volumes_attached == bool(volume)
    assert world.status_of("Drained")[0] == "True"
    assert world.status_of("VolumesDetached")[0] == ("" if volume else "True")
