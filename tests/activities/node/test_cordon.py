"""The cordon of a node that leaves, why it leaves, and how a cordon is withdrawn from a node that stays."""

from __future__ import annotations

from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY

from activities.kubernetes.errors import ApiError, ApiUnreachableError
from activities.kubernetes.nodeclaim_deletion import delete_with_finalizer
from activities.kubernetes.nodeclaims import view_of
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS, NODES
from activities.node.cordon import cordon, withdraw
from tenon.evolve import evolve
from tenon.kube.claim_record import ClaimRecord
from tenon.messages.node import Removal
from tenon.messages.node_steps import CordonInput
from tests.activities.node.fake_kube import START
from tests.activities.node.world import DISRUPTED, PROVIDER_ID, REF, UNREGISTERED, World, claim, node, pod

BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"
INTERRUPTED = Removal(
    reason="spot_interrupted", detail="EC2 interrupts the spot instance", actor="controller interruption"
)
STARTUP = {"key": "cni", "effect": "NoSchedule"}
FORCE_AT = "karpenter.sh/nodeclaim-termination-timestamp"


def wanted(reason: str = "", **fields: Any) -> CordonInput:
    removal = Removal(reason=reason, detail="so it goes", actor="a test")
    return CordonInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1", removal=removal, **fields)


async def refused(*_: object, **__: object) -> dict[str, Any]:
    raise ApiError(422, "Invalid", "a policy refuses annotations")


async def run(world: World, **fields: Any) -> Any:
    return await cordon(world.kube, world.recorder, wanted(**fields), world.clock)


async def test_cordon_marks_and_deletes_what_finalizers_hold() -> None:
    """TRM-01, TRM-02, LBL-10, NC-05."""
    world = World().put_live().put_pods(pod("a"), pod("agent", owner="DaemonSet"), pod("static", owner="Node"))
    result = await run(world, reason="drifted")
    assert world.node["spec"]["taints"] == [DISRUPTED]
    assert world.node["metadata"]["labels"][BALANCERS] == "karpenter"
    assert world.node["metadata"]["deletionTimestamp"]
    assert world.claim["metadata"]["deletionTimestamp"]
    assert world.status_of("DisruptionReason") == ("True", "Drifted")
    assert (result.cordoned, result.node_name, result.pods) == (True, "node-1", 2)
    assert (result.claim_exists, result.node_exists, result.force_at) == (True, True, None)
    assert FORCE_AT not in world.claim["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("Empty", "Empty"),
        ("unhealthy", "Unhealthy"),
        ("expired", ""),
        ("spot_interrupted", ""),
        ("drain", ""),
        ("deleted", ""),
    ],
)
async def test_dis60_only_disruption_and_node_repair_set_the_disruption_reason(reason: str, text: str) -> None:
    world = World().put_live()
    await run(world, reason=reason)
    assert world.status_of("DisruptionReason") == (("True", text) if text else ("", ""))


@pytest.mark.parametrize(
    ("reason", "policy", "grace", "mode", "pods"),
    [
        ("Underutilized", "balanced", None, "graceful", 2),
        ("Drifted", "", "1h", "eventual", 2),
        ("expired", "", "0s", "forceful", 2),
        ("garbage_collected", "", None, "graceful", 2),
        ("drain", "", None, "graceful", 0),
    ],
)
async def test_n15_530_met28_the_pods_of_a_disrupted_node_are_counted_once(
    reason: str, policy: str, grace: str | None, mode: str, pods: int
) -> None:
    world = World().put_live().put_pods(pod("a"), pod("b"), pod("agent", owner="DaemonSet"))
    world.claim["metadata"]["labels"] |= {"karpenter.sh/nodepool": f"of-{reason}", "karpenter.sh/capacity-type": "spot"}
    if grace is not None:
        world.claim["spec"]["terminationGracePeriod"] = grace
    balanced = {"metadata": {"name": f"of-{reason}"}, "spec": {"disruption": {"consolidationPolicy": "Balanced"}}}
    world.kube.add(NODEPOOLS, balanced)
    labels = {"nodepool": f"of-{reason}", "reason": reason.lower(), "capacity_type": "spot"}
    labels |= {"consolidation_policy": policy, "termination_mode": mode}
    for _ in range(2):
        await run(world, reason=reason)
        assert (REGISTRY.get_sample_value("karpenter_pods_disruption_initiated_total", labels) or 0) == pods


@pytest.mark.parametrize(
    ("seconds", "mode"), [(None, "graceful"), (300, "eventual"), (0, "forceful")], ids=["none", "bound", "zero"]
)
async def test_n15_528_a_repaired_node_is_counted_once_with_its_condition_and_mode(
    seconds: int | None, mode: str
) -> None:
    """N15-530, N15-531: so are its pods, with the mode of its terminationGracePeriod, as always."""
    pool = f"sick-{mode}"
    world = World().put_live().put_pods(pod("a"), pod("b"))
    world.claim["metadata"]["labels"] |= {"karpenter.sh/nodepool": pool, "karpenter.sh/capacity-type": "spot"}
    stamp = None if seconds is None else START + timedelta(seconds=seconds)
    for _ in range(2):
        await run(world, reason="Unhealthy", termination_timestamp=stamp, fault="KernelReady")
    common = {"nodepool": pool, "capacity_type": "spot", "termination_mode": mode}
    claims = {**common, "condition": "kernel_ready", "image_id": world.claim["status"].get("imageID", "")}
    assert REGISTRY.get_sample_value("karpenter_nodeclaims_unhealthy_disrupted_total", claims) == 1
    pods = {**common, "reason": "unhealthy", "consolidation_policy": "", "termination_mode": "graceful"}
    assert REGISTRY.get_sample_value("karpenter_pods_disruption_initiated_total", pods) == 2


@pytest.mark.parametrize("reason", ["expired", "deleted"])
async def test_dis84_do_not_disrupt_stops_neither_expiration_nor_deletion(reason: str) -> None:
    """It keeps its pods until the terminationGracePeriod ends, but the node goes."""
    world = World().put_live().put_pods(pod("a"))
    for protected in (world.claim, world.node):
        protected["metadata"].setdefault("annotations", {})["karpenter.sh/do-not-disrupt"] = "true"
    result = await run(world, reason=reason)
    assert (result.cordoned, result.pods) == (True, 1)
    assert world.node["metadata"]["deletionTimestamp"]
    assert world.claim["metadata"]["deletionTimestamp"]


async def test_cordon_again_changes_nothing() -> None:
    world = World().put_live(terminationGracePeriod="10m")
    first = await run(world, reason="drifted")
    writes = len(world.kube.calls)
    world.clock.instant += timedelta(minutes=3)
    assert await run(world, reason="drifted") == first
    assert len(world.kube.calls) == writes


@pytest.mark.parametrize(
    ("grace", "explicit", "existing", "minutes"),
    [
        ("10m", None, None, 10),
        (None, 5, None, 5),
        ("10m", 5, None, 5),
        ("10m", 15, None, 10),
        ("10m", 7, 3, 3),
        (None, None, None, None),
    ],
)
async def test_force_begins_at_the_earliest_instant(
    grace: str | None, explicit: int | None, existing: int | None, minutes: int | None
) -> None:
    """TRM-06, ANN-04, N15-136: the earliest of deletion plus grace period, an instant asked for, what is written."""
    world = World().put_live(**({"terminationGracePeriod": grace} if grace else {}))
    if existing:
        written = (START + timedelta(minutes=existing)).strftime("%Y-%m-%dT%H:%M:%SZ")
        world.claim["metadata"]["annotations"][FORCE_AT] = written
    stamp = START + timedelta(minutes=explicit) if explicit else None
    result = await run(world, termination_timestamp=stamp)
    expected = START + timedelta(minutes=minutes) if minutes else None
    assert result.force_at == expected
    text = expected.strftime("%Y-%m-%dT%H:%M:%SZ") if expected else None
    assert world.claim["metadata"]["annotations"].get(FORCE_AT) == text


async def test_only_if_empty_finds_a_pod_and_undoes_its_marks() -> None:
    world = World().put_live().put_pods(pod("late"), pod("agent", owner="DaemonSet"))
    result = await run(world, only_if_empty=True, reason="empty")
    assert (result.cordoned, result.pods) == (False, 1)
    assert world.node["spec"]["taints"] == []
    assert BALANCERS not in world.node["metadata"]["labels"]
    assert "deletionTimestamp" not in world.node["metadata"]
    assert "deletionTimestamp" not in world.claim["metadata"]
    assert world.status_of("DisruptionReason") == ("", "")


async def test_dis46_a_busy_node_is_never_marked() -> None:
    """Load balancers and the scheduler notice nothing of a decision that came too late."""
    world = World().put_live().put_pods(pod("late"))
    writes = len(world.kube.calls)
    assert not (await run(world, only_if_empty=True)).cordoned
    assert world.kube.calls[writes:] == []


async def test_a_taint_that_an_earlier_attempt_left_on_a_busy_node_goes() -> None:
    """The process ended between the taint and the second look."""
    world = World().put_live().put_pods(pod("late"))
    world.node["spec"]["taints"].append(DISRUPTED)
    assert not (await run(world, only_if_empty=True)).cordoned
    assert world.node["spec"]["taints"] == []


async def test_only_if_empty_looks_after_the_taint_is_on() -> None:
    """A pod that the scheduler places between a look and the taint would be lost: a second look follows the taint."""
    world = World().put_live()
    observations = []

    def slip_in() -> None:
        world.put_pods(pod("slipped-in"))
        world.kube.before_patch = [look]

    def look() -> None:
        observations.append((world.node["spec"]["taints"], world.node["metadata"]["labels"]))

    world.kube.before_patch = [slip_in]
    assert not (await run(world, only_if_empty=True)).cordoned
    ((taints, node_labels),) = observations
    assert taints == [DISRUPTED]
    assert BALANCERS not in node_labels, "load balancers hear of a node only when it is sure to leave"
    assert world.node["spec"]["taints"] == []


@pytest.mark.parametrize("subject", ["Node", "NodeClaim", "pod default/agent"])
async def test_dis12_dis13_only_if_empty_keeps_a_node_that_is_protected_by_now(subject: str) -> None:
    """The decision was made from a cache, in which the annotation may come later than the end of the last pod."""
    agent = pod("agent", owner="DaemonSet")
    world = World().put_live().put_pods(agent)
    bodies = {"Node": world.node, "NodeClaim": world.claim, "pod default/agent": agent}
    bodies[subject]["metadata"].setdefault("annotations", {})["karpenter.sh/do-not-disrupt"] = "true"
    world.put_pods(agent)
    result = await run(world, only_if_empty=True, reason="empty")
    assert (result.cordoned, result.pods) == (False, 0)
    assert subject in result.protection
    assert "karpenter.sh/do-not-disrupt" in result.protection
    assert world.node["spec"]["taints"] == []
    assert "deletionTimestamp" not in world.claim["metadata"]


async def test_an_unused_replacement_leaves_although_its_nodepool_protects_its_nodes() -> None:
    """Its command has failed, and emptiness never takes a node with the annotation."""
    world = World().put_live()
    world.claim["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = "true"
    assert (await run(world, only_if_empty=True, unused=True, reason="Empty")).cordoned


async def test_dis12_an_annotation_that_comes_before_the_taint_keeps_the_node_and_the_taint_goes() -> None:
    world = World().put_live()

    def protect() -> None:
        world.node["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}

    world.kube.before_patch = [protect]
    assert not (await run(world, only_if_empty=True)).cordoned
    assert world.node["spec"]["taints"] == []


async def test_daemons_and_ended_pods_do_not_hold_an_empty_node() -> None:
    done = pod("job")
    done["status"]["phase"] = "Succeeded"
    world = World().put_live().put_pods(pod("agent", owner="DaemonSet"), done)
    assert (await run(world, only_if_empty=True)).cordoned


async def test_there_is_no_way_back_once_the_claim_is_being_deleted() -> None:
    """A retry of the cordon, or a deletion by kubectl meanwhile, must not uncordon a node that goes anyway."""
    world = World().put_live().put_pods(pod("late"))
    world.claim["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    assert (await run(world, only_if_empty=True)).cordoned
    assert world.node["spec"]["taints"] == [DISRUPTED]


async def test_a_claim_that_never_registered_skips_its_node() -> None:
    """LIF-08."""
    world = World()
    world.kube.add(NODECLAIMS, claim())
    world.kube.add(NODES, node(UNREGISTERED))
    result = await run(world, reason="registration_timeout")
    assert (result.node_exists, result.claim_exists) == (False, True)
    assert world.node["spec"]["taints"] == [UNREGISTERED]
    assert world.claim["metadata"]["deletionTimestamp"]


async def test_cordon_with_the_claim_or_both_gone() -> None:
    world = World().put_live()
    del world.kube.objects[("nodeclaims", "", REF.name)]
    result = await run(world)
    assert (result.claim_exists, result.node_exists) == (False, True)
    assert world.node["metadata"]["deletionTimestamp"]
    world.kube.objects.clear()
    result = await run(world)
    assert (result.claim_exists, result.node_exists, result.cordoned) == (False, False, True)


async def test_a_users_own_balancer_label_survives_an_undone_cordon() -> None:
    world = World().put_live().put_pods(pod("late"))
    world.node["metadata"]["labels"][BALANCERS] = "mine"
    await run(world, only_if_empty=True)
    assert world.node["metadata"]["labels"][BALANCERS] == "mine"


async def test_the_time_of_forced_deletion_is_on_claim_and_node() -> None:
    """EVT-04, TRM-06."""
    world = World().put_live(terminationGracePeriod="10m")
    await run(world)
    events = [event for event in world.recorder.events if event[2] == "TerminationGracePeriodExpiring"]
    assert {event[0] for event in events} == {"Node", "NodeClaim"}
    assert all("2026-03-01 12:10:00 UTC" in event[3] for event in events)


WHY = {"why": "Empty for 15s (command c-1)", "life": "m5.large, $0.1000 an hour, lived 3m"}


async def test_evt04_node_and_claim_say_why_the_node_leaves_and_what_it_was() -> None:
    world = World().put_live()
    await run(world, reason="Empty", **WHY)
    text = "Empty for 15s (command c-1); m5.large, $0.1000 an hour, lived 3m"
    assert [event for event in world.recorder.events if event[2] == "Disrupted"] == [
        ("NodeClaim", REF.name, "Disrupted", text),
        ("Node", "node-1", "Disrupted", text),
    ]


async def test_evt04_a_node_that_is_not_empty_after_all_is_not_said_to_leave() -> None:
    world = World().put_live().put_pods(pod("late"))
    await run(world, reason="Empty", only_if_empty=True, **WHY)
    assert world.recorder.events == []


async def test_evt04_the_claim_keeps_why_its_workflow_deletes_it() -> None:
    """A workflow that is terminated meanwhile is started again with what the claim says."""
    world = World().put_live()
    await run(world, reason="Empty")
    record = ClaimRecord.of(world.claim)
    assert record.deleting
    assert view_of(record).removals == (evolve(wanted("Empty").removal, by_workflow=True),)
    before = dict(world.claim["metadata"]["annotations"])
    await run(world, reason="Empty")
    assert world.claim["metadata"]["annotations"] == before


async def test_evt04_the_reason_of_what_deleted_the_claim_stays_the_first() -> None:
    world = World().put_live()
    await delete_with_finalizer(world.kube, ClaimRecord.of(world.claim), INTERRUPTED)
    await run(world, reason=INTERRUPTED.reason)
    assert view_of(ClaimRecord.of(world.claim)).removals == (INTERRUPTED,)


@pytest.mark.parametrize("shows", ["nothing", "reason"])
async def test_a_claim_that_is_deleted_already_is_not_deleted_and_counted_again(shows: str) -> None:
    """The cache of the controller that asks again may show nothing of the deletion yet, or only its reason."""
    world = World().put_live()
    cached = deepcopy(world.claim)
    assert await delete_with_finalizer(world.kube, ClaimRecord.of(cached), INTERRUPTED)
    if shows == "reason":
        cached = deepcopy(world.claim)
        del cached["metadata"]["deletionTimestamp"]
    assert not await delete_with_finalizer(world.kube, ClaimRecord.of(cached), INTERRUPTED)
    assert not await delete_with_finalizer(world.kube, ClaimRecord.of(world.claim), INTERRUPTED)


async def test_evt04_a_deletion_does_not_wait_for_its_reason_which_is_recorded_afterwards() -> None:
    world = World().put_live()
    patch, world.kube.patch = world.kube.patch, refused
    deletes = world.kube.delete

    async def delete(*value: Any, **fields: Any) -> bool:
        world.kube.patch = patch
        return bool(await deletes(*value, **fields))

    world.kube.delete = delete
    assert await delete_with_finalizer(world.kube, ClaimRecord.of(world.claim), INTERRUPTED)
    assert world.claim["metadata"]["deletionTimestamp"]
    assert view_of(ClaimRecord.of(world.claim)).removals == (INTERRUPTED,)


async def test_evt04_a_deletion_whose_reason_cannot_be_recorded_at_all_succeeds() -> None:
    world = World().put_live()
    world.kube.patch = refused
    assert await delete_with_finalizer(world.kube, ClaimRecord.of(world.claim), INTERRUPTED)
    assert world.claim["metadata"]["deletionTimestamp"]


async def test_evt04_a_cordon_deletes_the_claim_although_a_policy_refuses_the_reason() -> None:
    """Else the Node would be tainted for good, and never drain."""
    world = World().put_live()
    patch = world.kube.patch

    async def refused_for_claims(resource: object, *names: Any, **fields: Any) -> dict[str, Any]:
        return await (refused() if resource is NODECLAIMS else patch(resource, *names, **fields))

    world.kube.patch = refused_for_claims
    await run(world, reason="drain")
    assert world.claim["metadata"]["deletionTimestamp"]


async def test_evt04_a_reason_goes_with_the_deletion_that_failed() -> None:
    """The node recovers, and a later deletion has another reason."""
    world = World().put_live()

    async def unavailable(*_: object, **__: object) -> bool:
        raise ApiError(503, "ServiceUnavailable", "no leader")

    world.kube.delete = unavailable
    with pytest.raises(ApiError):
        await delete_with_finalizer(world.kube, ClaimRecord.of(world.claim), INTERRUPTED)
    assert view_of(ClaimRecord.of(world.claim)).removals == ()


async def test_evt04_a_claim_without_its_finalizer_is_not_deleted_before_it_has_it() -> None:
    """It would vanish at once, and its node would not drain."""
    world = World().put_live()
    world.claim["metadata"]["finalizers"] = []
    world.kube.patch = refused
    with pytest.raises(ApiError):
        await delete_with_finalizer(world.kube, ClaimRecord.of(world.claim), INTERRUPTED)
    assert "deletionTimestamp" not in world.claim["metadata"]


async def test_evt04_a_claim_without_a_node_says_why_it_ends() -> None:
    world = World()
    world.kube.add(NODECLAIMS, claim())
    await run(world, reason="registration_timeout", why="RegistrationTimeout", life="m5.large")
    assert world.recorder.events == [("NodeClaim", REF.name, "Disrupted", "RegistrationTimeout; m5.large")]


async def cordoned_but_not_deleted() -> World:
    """A node whose workflow was ended between the marks of its cordon and the deletion of its claim."""
    world = World().put_live().put_pods(pod("web-0"))

    async def ended(*_: object, **__: object) -> bool:
        raise ApiUnreachableError("https://127.0.0.1", "refused")

    deletes, world.kube.delete = world.kube.delete, ended
    with pytest.raises(ApiUnreachableError):
        await run(world, reason="drifted")
    world.kube.delete = deletes
    assert world.node["spec"]["taints"] == [DISRUPTED]
    return world


async def test_a_cordon_is_withdrawn_from_a_node_that_stays() -> None:
    """TRM-02: a life taken up again must not leave behind a node that takes no pods and that nobody ends."""
    world = await cordoned_but_not_deleted()
    world.node["spec"]["taints"].append(STARTUP)
    assert await withdraw(world.kube, REF, "node-1")
    assert world.node["spec"]["taints"] == [STARTUP]
    assert BALANCERS not in world.node["metadata"]["labels"]
    assert world.node["metadata"]["finalizers"] == ["karpenter.sh/termination"]
    assert world.status_of("DisruptionReason") == ("", "")
    assert view_of(ClaimRecord.of(world.claim)).removals == ()
    assert world.status_of("Ready")[0] == "True"
    writes = len(world.kube.calls)
    assert not await withdraw(world.kube, REF, "node-1")
    assert len(world.kube.calls) == writes, "a repetition writes nothing"


@pytest.mark.parametrize("leaving", ["claim", "node"])
async def test_a_cordon_is_not_withdrawn_from_what_is_leaving(leaving: str) -> None:
    world = await cordoned_but_not_deleted()
    getattr(world, leaving)["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    writes = len(world.kube.calls)
    assert not await withdraw(world.kube, REF, "node-1")
    assert len(world.kube.calls) == writes
    world.kube.objects.clear()
    assert not await withdraw(world.kube, REF, "node-1")
